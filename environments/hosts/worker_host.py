"""Plays the sessions of one class in worker processes, behind the contract of `runtime/host.py`.

Code that holds the interpreter, a crash or a leak of memory in such a class stops neither the server nor the sessions
of other environments. docs/decisions/0040-worker-processes.md says what crosses to a worker and what that costs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from environments import wire
from environments.authoring.hosted_class import HostedClass
from environments.errors import WORKER_LOST, EnvironmentFault
from environments.hosts.worker_process import WorkerProcess
from environments.runtime.call_outcome import CallOutcome, faulted
from environments.runtime.host import PlayedInstance, ignore_loss
from environments.runtime.limits import Limits, WorkerSettings

log = structlog.get_logger(__name__)

CHECK_SECONDS = 0.5
"""Interval of the checks whether workers still respond."""
RETIRE_SECONDS = 60.0
"""How long the sessions of a worker in which a call hangs may go on before it is ended."""
LATE_SECONDS = 2.0
"""How much longer than its limits the end of a session in a worker may take."""


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """The worker processes of one environment at one moment."""

    processes: int
    sessions: int
    deaths: int
    """Processes that ended while they had sessions, since the server started."""


def is_isolated(hosted: HostedClass, settings: WorkerSettings) -> bool:
    """Return whether the sessions of a class are played in worker processes."""
    return hosted.isolation in ("process", "session") or (settings.count > 0 and hosted.isolation is None)


class WorkerHost:
    """The worker processes of one environment, started when they are needed.

    A class with `isolation = "session"` has a process for each session, and one that waits for the next.
    """

    def __init__(self, hosted: HostedClass, limits: Limits, settings: WorkerSettings) -> None:
        self._hosted, self.limits, self._settings = hosted, limits, settings
        self.is_alone = hosted.isolation == "session"
        """Whether each session has a process of its own."""
        self.on_loss: Callable[[PlayedInstance, str], None] = ignore_loss
        self.workers: list[WorkerProcess] = []
        self.deaths = 0
        """Number of processes that ended while they had sessions."""
        self._instances: dict[WorkerProcess, set[WorkerInstance]] = {}
        self._next = 0

    def instance(self) -> WorkerInstance:
        self._next += 1
        return WorkerInstance(self, self._next)

    async def enter(self, instance: WorkerInstance) -> WorkerProcess:
        """Return the process that plays `instance`, the one with the fewest sessions. Raises: EnvironmentFault."""
        worker = self._least_loaded()
        worker.sessions += 1
        self._instances[worker].add(instance)
        try:
            await worker.start()
            if self.is_alone and not any(not one.sessions for one in self.workers):
                self._start_spare()
        except BaseException:
            self.leave(instance, worker)
            raise
        return worker

    def _least_loaded(self) -> WorkerProcess:
        open_ones = [one for one in self.workers if not one.lost and not one.has_hung_threads]
        free = min(open_ones, key=lambda one: one.sessions, default=None)
        may_start = self.is_alone or len(open_ones) < max(1, self._settings.count)
        if free is None or (free.sessions and may_start):
            return self._new()
        return free

    def _new(self) -> WorkerProcess:
        worker = WorkerProcess(
            self._hosted, self.limits, self._settings.memory_bytes, lambda reason: self._lose(worker, reason)
        )
        self.workers.append(worker)
        self._instances[worker] = set()
        return worker

    def _start_spare(self) -> None:
        spare = asyncio.get_running_loop().create_task(self._new().start())
        spare.add_done_callback(lambda task: task.cancelled() or task.exception())

    def leave(self, instance: WorkerInstance, worker: WorkerProcess) -> None:
        """Note that `instance` is closed."""
        instances = self._instances.get(worker)
        if instances is None or instance not in instances:
            return
        instances.remove(instance)
        worker.sessions -= 1
        if not worker.sessions and (self.is_alone or worker.has_hung_threads):
            worker.kill("was ended after its last session")

    def retire(self, worker: WorkerProcess) -> None:
        """End a process in which a call hangs; at once if one session has it, else when others had time to end."""
        why = "was ended, because a call in it ran on after its time was over"
        if self.is_alone:
            worker.kill(why)
        else:
            asyncio.get_running_loop().call_later(RETIRE_SECONDS, worker.kill, why)

    def _lose(self, worker: WorkerProcess, reason: str) -> None:
        """End the sessions of a process that has ended; those that wait for an answer get its end as that answer."""
        self.workers.remove(worker)
        instances = self._instances.pop(worker)
        self.deaths += bool(instances)
        if instances:
            log.error("a worker process ended", environment=self._hosted.name, sessions=len(instances), reason=reason)
        for instance in instances:
            if not instance.requests:
                self.on_loss(instance, reason)

    def load(self) -> WorkerLoad:
        return WorkerLoad(len(self.workers), sum(worker.sessions for worker in self.workers), self.deaths)

    async def keep_alive(self) -> None:
        """End workers that do not respond, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for worker in self.workers:
                worker.check_heard()

    async def close(self) -> None:
        """End the processes."""
        await asyncio.gather(*(worker.close() for worker in list(self.workers)))


class WorkerInstance:
    """One session in a worker process."""

    __slots__ = ("_host", "_number", "_worker", "requests")

    def __init__(self, host: WorkerHost, number: int) -> None:
        self._host, self._number = host, number
        self._worker: WorkerProcess | None = None  # from the start of construction until the instance is closed
        self.requests = 0
        """Number of requests that wait for the worker's answer."""

    async def construct(self, spec: Any, secrets: dict[str, str], toolset: str | None) -> bool:
        """Create the instance in a worker. Raises: EnvironmentFault, InvalidRequest."""
        self._worker = await self._host.enter(self)
        return bool(await self._ask("construct", spec, secrets, toolset, what="the constructor"))

    async def set_up(self) -> None:
        """Run the author's setup. Raises: EnvironmentFault."""
        await self._ask("set_up", what="setup")

    async def prompt_json(self) -> str:
        """Return the prompt as a JSON array of blocks. Raises: EnvironmentFault."""
        return str(await self._ask("prompt_json", what="the prompt"))

    async def messages_json(self) -> str:
        """Return the prompt as a JSON array of messages. Raises: EnvironmentFault."""
        return str(await self._ask("messages_json", what="the prompt"))

    async def task_tools_json(self) -> str:
        """Return the tools of this session as JSON of ListToolsOutput. Raises: EnvironmentFault."""
        return str(await self._ask("task_tools_json", what="the list of tools"))

    async def run(self, tool: str, arguments: wire.JSONObject, /) -> CallOutcome:
        """Run one tool call in the worker. Raises only asyncio.CancelledError."""
        try:
            outcome = CallOutcome(*await self._ask("run", tool, arguments, what=repr(tool)))
        except EnvironmentFault as fault:
            return faulted(fault)
        if outcome.reason == "timeout" and self._worker is not None and self._worker.has_hung_threads:
            asyncio.get_running_loop().call_soon(self._host.retire, self._worker)  # once the step is on its way
        return outcome

    async def score(self, candidates: list[wire.GroupCandidate]) -> str:
        """Return JSON `{"scores": [...]}` with one score for each candidate. Raises: EnvironmentFault."""
        return str(await self._ask("score", [one.model_dump() for one in candidates], what="the group score"))

    async def _ask(self, do: str, *given: Any, what: str) -> Any:
        assert self._worker is not None, "construct comes first"
        self.requests += 1
        try:
            return await self._worker.ask(do, self._number, given, what)
        except EnvironmentFault as fault:
            if fault.kind == WORKER_LOST and do not in ("construct", "set_up"):  # those end the episode themselves
                asyncio.get_running_loop().call_soon(self._host.on_loss, self, fault.text)
            raise
        finally:
            self.requests -= 1

    async def close(self) -> None:
        """Tear the instance down. Raises: EnvironmentFault."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        limit = 3 * self._host.limits.close_wait_seconds + LATE_SECONDS
        try:
            if not worker.lost:
                async with asyncio.timeout(limit):
                    await worker.ask("close", self._number, (), "teardown")
        except TimeoutError:
            worker.kill(f"was ended, because it did not close a session within {limit:g} s")
            raise EnvironmentFault("TimeoutError", f"teardown took over {limit:g} s and was given up") from None
        finally:
            with contextlib.suppress(KeyError):
                self._host.leave(self, worker)
