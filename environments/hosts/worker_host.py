"""Plays the sessions of one class in worker processes, behind the contract of `runtime/host.py`.

Code that holds the interpreter, a crash or a leak of memory in such a class stops neither the server nor the sessions
of other environments. docs/decisions/0040-worker-processes.md says what crosses to a worker and what that costs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from environments.authoring.hosted_class import HostedClass
from environments.hosts.worker_instance import WorkerInstance
from environments.hosts.worker_process import WorkerProcess
from environments.runtime.host import PlayedInstance, ignore_loss
from environments.runtime.limits import Limits, WorkerSettings

log = structlog.get_logger(__name__)

CHECK_SECONDS = 0.5
"""Interval of the checks whether workers still respond."""
RETIRE_SECONDS = 60.0
"""How long the sessions of a worker in which a call hangs may go on before it is ended."""


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
        self.hosted, self.limits, self._settings = hosted, limits, settings
        self.is_alone = hosted.isolation == "session"
        """Whether each session has a process of its own."""
        self.on_loss: Callable[[PlayedInstance, str], None] = ignore_loss
        self.workers: dict[WorkerProcess, set[WorkerInstance]] = {}
        """The processes that run or start, each with the instances that it plays."""
        self.deaths = 0
        """Number of processes that ended while they had sessions."""
        self._next = 0

    def instance(self) -> WorkerInstance:
        self._next += 1
        return WorkerInstance(self, self._next)

    async def enter(self, instance: WorkerInstance) -> WorkerProcess:
        """Return the process that plays `instance`, the one with the fewest sessions. Raises: EnvironmentFault."""
        worker = self._least_loaded()
        self.workers[worker].add(instance)
        try:
            await worker.start()
            if self.is_alone and not any(one.is_open and not played for one, played in self.workers.items()):
                self._start_spare()
        except BaseException:
            self.leave(instance, worker)
            raise
        return worker

    def _least_loaded(self) -> WorkerProcess:
        open_ones = [one for one in self.workers if one.is_open]
        free = min(open_ones, key=lambda one: len(self.workers[one]), default=None)
        may_start = self.is_alone or len(open_ones) < max(1, self._settings.count)
        if free is None or (self.workers[free] and may_start):
            return self._new()
        return free

    def _new(self) -> WorkerProcess:
        worker = WorkerProcess(
            self.hosted, self.limits, self._settings.memory_bytes, lambda reason: self._lose(worker, reason)
        )
        self.workers[worker] = set()
        return worker

    def _start_spare(self) -> None:
        spare = asyncio.get_running_loop().create_task(self._new().start())
        spare.add_done_callback(lambda task: task.cancelled() or task.exception())

    def leave(self, instance: WorkerInstance, worker: WorkerProcess) -> None:
        """Note that `instance` is closed."""
        instances = self.workers.get(worker, set())
        if instance not in instances:
            return
        instances.remove(instance)
        if not instances and (self.is_alone or worker.has_hung_threads):
            worker.kill("was ended after its last session")

    def retire(self, worker: WorkerProcess) -> None:
        """End a process in which a call hangs; at once if one session has it, else when others had time to end."""
        why = "was ended, because a call in it ran on after its time was over"
        if self.is_alone:
            worker.kill(why)
        else:
            asyncio.get_running_loop().call_later(RETIRE_SECONDS, worker.kill, why)

    def _lose(self, worker: WorkerProcess, reason: str) -> None:
        """End the sessions of a process that has ended.

        Those that wait for an answer get its end as that answer, and those that can be revived wait for a request.
        """
        instances = self.workers.pop(worker)
        self.deaths += bool(instances)
        if instances:
            log.error("a worker process ended", environment=self.hosted.name, sessions=len(instances), reason=reason)
        for instance in instances:
            if instance.is_idle and not instance.can_revive:
                self.on_loss(instance, reason)

    def load(self) -> WorkerLoad:
        return WorkerLoad(len(self.workers), sum(map(len, self.workers.values())), self.deaths)

    async def keep_alive(self) -> None:
        """End workers that do not respond, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for worker in self.workers:
                worker.check_heard()

    async def close(self) -> None:
        """End the processes."""
        await asyncio.gather(*(worker.close() for worker in list(self.workers)))
