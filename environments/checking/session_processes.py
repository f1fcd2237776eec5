"""The processes in which the checks play a class with `isolation = "session"`, each for a session,
as a server does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from environments.authoring.hosted_class import HostedClass
from environments.hosts.process_launcher import LocalLauncher, LocalProcess
from environments.hosts.worker_instance import WorkerInstance
from environments.hosts.worker_messages import MessagePipe
from environments.hosts.worker_process import WorkerClass, WorkerProcess
from environments.limits import Limits, WorkerSettings
from environments.runtime.host import PlayedInstance, ignore_loss


class CheckedWorkerInstance(WorkerInstance):
    """A CheckedInstance in a process of its own."""

    __slots__ = ()

    async def lost(self) -> list[str]:
        return list(await self._ask("lost", what="a check"))

    async def save(self) -> str:
        return str(await self._ask("save", what="save"))

    async def tear_down(self) -> None:
        await self._ask("tear_down", what="teardown")

    async def exploits(self) -> list[str]:
        return list(await self._ask("exploits", what="exploits"))

    async def begin_calls(self, exploit: str | None) -> None:
        await self._ask("begin_calls", exploit, what="exploits" if exploit else "oracle")

    async def next_call(self) -> list[Any] | None:
        call: list[Any] | None = await self._ask("next_call", what="a call of the class")
        return call


class _Launcher(LocalLauncher):
    program = "environments.checking.session_program"

    async def launch(
        self, python: str, resources: dict[str, float], pipe: MessagePipe
    ) -> LocalProcess:
        return await super().launch("", resources, pipe)  # the class was imported here


class SessionProcesses:
    """A WorkerPool for one session, whose process has started when the session gets it."""

    def __init__(self, hosted_class: HostedClass, limits: Limits, import_seconds: float) -> None:
        self.hosted: WorkerClass = hosted_class
        self.limits = limits
        self.on_loss: Callable[[PlayedInstance, str], None] = ignore_loss
        self._settings = WorkerSettings(import_seconds=import_seconds)
        self._next: WorkerProcess | None = None

    async def instance(self) -> CheckedWorkerInstance:
        """Return an instance and start its process. Raises: EnvironmentFault."""
        self._next = await self._started()
        return CheckedWorkerInstance(self, 1)

    async def enter(self, instance: WorkerInstance) -> WorkerProcess:
        """Return the process that waits, or start another one for a session that comes back."""
        worker, self._next = self._next, None
        return worker or await self._started()

    def leave(self, instance: WorkerInstance, worker: WorkerProcess) -> None:
        """End the process."""
        worker.kill("was ended after its session")

    def look_after(self, worker: WorkerProcess, instance: WorkerInstance) -> None:
        """No call is over its time: the time limit of a step abandons it."""

    async def _started(self) -> WorkerProcess:
        worker = WorkerProcess(
            self.hosted, self.limits, self._settings, _Launcher(), lambda reason: None
        )
        await worker.start()
        return worker
