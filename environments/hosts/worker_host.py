"""Plays the sessions of one class in worker processes, behind the contract of `runtime/host.py`.

Code that holds the interpreter, a crash or a leak of memory in such a class stops neither the
server nor the sessions of other environments. docs/decisions/0040-worker-processes.md says what
crosses to a worker and what that costs.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeGuard

import structlog

from environments.authoring.hosted_class import HostedClass
from environments.authoring.hosted_environment import HostedEnvironment
from environments.authoring.other_interpreter_class import DescribedClass
from environments.authoring.task_source import CHUNK_TASKS
from environments.errors import WORKER_LOST, EnvironmentFault, InvalidIndex, InvalidIndexRange
from environments.hosts.process_launcher import Launcher, LocalLauncher
from environments.hosts.worker_instance import WorkerInstance
from environments.hosts.worker_process import WorkerClass, WorkerProcess
from environments.limits import Limits, WorkerSettings
from environments.runtime.host import PlayedInstance, ignore_loss
from environments.runtime.incident_reports import IncidentReport
from environments.runtime.usercode import consume_exception

log = structlog.get_logger(__name__)

CHECK_SECONDS = 0.5
"""Interval of the checks whether workers still respond."""
IDLE_SECONDS = 300.0
"""How long a process that is not needed waits for another session."""
ROOM_SECONDS = 5.0
"""How long a session waits for another process to start while a running one could play it."""
RETIRE_SECONDS = 60.0
"""How long the sessions of a worker in which a call hangs may go on before it is ended."""
MAX_SHARES = 4
"""Processes among which sessions are divided if the one that they shared has ended too."""
MAX_FOR_SUSPECTS = 16
"""Most processes at the same time for calls that are made again."""
RECENT_SECONDS = 10.0
"""How long the end of a process that had sessions delays the start of the next ones."""
MAX_QUICK_STARTS = 3
"""Ends within RECENT_SECONDS after which another process starts at once."""
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.1, 2.0
"""Pause before a start after the next end, which doubles with each further one, and its limit."""


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """The worker processes of one environment at one moment."""

    processes: int
    sessions: int
    deaths: int
    """Processes that ended while they had sessions, since the server started."""
    machines: int
    """Machines on which they run."""
    lag_seconds: float
    """Longest time that one of them took, or takes, to answer a ping while it has a call."""


def is_isolated(
    environment: HostedEnvironment, settings: WorkerSettings | None
) -> TypeGuard[WorkerClass]:
    """Return whether worker processes play an environment. Without `settings`, only what cannot be
    played here."""
    if isinstance(environment, DescribedClass):
        return True
    if not isinstance(environment, HostedClass) or settings is None:
        return False
    are_default = settings.count > 0 or settings.ray is not None
    return environment.isolation in ("process", "session") or (
        are_default and environment.isolation is None
    )


class WorkerHost:
    """The worker processes of one environment, started when they are needed.

    A class with `isolation = "session"` has a process for each session, and one that waits for the
    next.
    """

    def __init__(
        self,
        environment: WorkerClass,
        limits: Limits,
        settings: WorkerSettings,
        launcher: Launcher | None = None,
    ) -> None:
        self.hosted, self.limits, self._settings = environment, limits, settings
        self._launcher = launcher or LocalLauncher()
        self.is_alone = environment.isolation == "session"
        """Whether each session has a process of its own."""
        self.on_loss: Callable[[PlayedInstance, str], None] = ignore_loss
        self.workers: dict[WorkerProcess, set[WorkerInstance]] = {}
        """The processes that run or start, each with the instances that it plays."""
        self.on_death: Callable[[IncidentReport], None] = lambda report: None
        """Called when a process ends by itself, or for what its code does, while it has
        sessions."""
        self.deaths = 0
        """Number of processes that ended while they had sessions."""
        self._looking: set[asyncio.Task[None]] = set()
        self._ends: deque[float] = deque(maxlen=MAX_QUICK_STARTS + 8)
        """When processes ended that had sessions, the latest ones."""
        self._assigned: dict[WorkerInstance, WorkerProcess] = {}
        """In which process sessions come back whose calls are made again, until they enter it."""
        self._is_closing = False
        self._next = 0

    def instance(self) -> WorkerInstance:
        self._next += 1
        return WorkerInstance(self, self._next)

    def tasks(self) -> WorkerTasks:
        return WorkerTasks(self)

    async def enter(self, instance: WorkerInstance) -> WorkerProcess:
        """Return the process that plays `instance`, the one with the fewest sessions. Raises:
        EnvironmentFault."""
        worker = self._assigned.pop(instance, None)
        if worker is None:
            await self._pause_before_start()
            worker = self._least_loaded()
            self.workers[worker].add(instance)
        try:
            await self._wait_in_line(instance, worker)
            if running := await self._instead_of(worker):
                self.leave(instance, worker)
                worker = running
                self.workers[worker].add(instance)
            await worker.start()
            if self.is_alone and self._spare() is None and not self._pause():
                start = asyncio.get_running_loop().create_task(self._new().start())
                start.add_done_callback(consume_exception)
        except BaseException:
            self.leave(instance, worker)
            raise
        return worker

    async def _wait_in_line(self, instance: WorkerInstance, worker: WorkerProcess) -> None:
        """Wait until the process may start, if it is one for suspects."""
        while instance in worker.suspects and worker not in islice(  # noqa: ASYNC110
            self._for_suspects(), MAX_FOR_SUSPECTS
        ):
            await asyncio.sleep(CHECK_SECONDS)
        if instance in worker.suspects and not worker.has_started:
            await asyncio.sleep(max(0.0, self._pause_seconds()))

    def _for_all(self) -> list[WorkerProcess]:
        """Return the processes that new sessions may enter. Further ones, started for suspects, end
        with their sessions."""
        workers = [worker for worker in self.workers if worker.is_open]
        return workers if self.is_alone else workers[: max(1, self._settings.count)]

    def _for_suspects(self) -> Iterator[WorkerProcess]:
        return (worker for worker in self.workers if worker.suspects)

    async def _instead_of(self, worker: WorkerProcess) -> WorkerProcess | None:
        """Start the process. Return a running one if there is no room for it, as on a full cluster
        of Ray."""
        if worker.has_started or self.is_alone:
            return None
        starting = asyncio.get_running_loop().create_task(worker.start())
        starting.add_done_callback(consume_exception)
        running = list[WorkerProcess]()
        while not (running or starting.done()):
            await asyncio.wait((starting,), timeout=ROOM_SECONDS)
            if not (worker.suspects and worker.pid):  # else there is room, and it imports its class
                running = [each for each in self.workers if each.is_open and each.has_started]
        return None if worker.has_started or not running else min(running, key=self._sessions_in)

    async def ask(self, do: str, arguments: list[Any]) -> Any:
        """Return the answer to a request about no session; repeat it once if its process ends.

        Raises: EnvironmentFault.
        """
        try:
            return await self._ask_any(do, arguments)
        except EnvironmentFault as fault:
            if fault.kind != WORKER_LOST:
                raise
            return await self._ask_any(do, arguments)

    async def _ask_any(self, do: str, arguments: list[Any]) -> Any:
        await self._pause_before_start()
        worker = self._least_loaded()
        await worker.start()
        return await worker.ask(do, 0, arguments)

    def _least_loaded(self) -> WorkerProcess:
        workers = self._for_all()
        late: list[WorkerProcess] = []
        if not self.is_alone:
            late = [worker for worker in workers if worker.is_late(ROOM_SECONDS)]
        in_time = [worker for worker in workers if worker not in late]
        free = min(in_time, key=self._sessions_in, default=None)
        has_room = len(workers) < max(1, self._settings.count)
        may_start = self.is_alone or (has_room and not late and self._pause_seconds() <= 0)
        if free is None and late:
            return min(late, key=self._sessions_in)
        if free is None or (self.workers[free] and may_start):
            return self._new()
        return free

    async def _pause_before_start(self) -> None:
        """Wait, unless a process can take a session now, until another one may start.

        Each start takes CPU time from all environments. Without pauses, code that ends its process
        again and again would take a core. Sessions that go on to crash meanwhile do not prolong the
        wait.
        """
        has_room = self._spare() is not None
        if not self.is_alone:
            has_room = any(worker.is_open for worker in self.workers)
        if not has_room:
            await asyncio.sleep(max(0.0, self._pause_seconds()))

    def _pause_seconds(self) -> float:
        """Return in how many seconds a process may start; 0 or less: now."""
        return self._ends[-1] + self._pause() - time.monotonic() if self._ends else 0.0

    def _pause(self) -> float:
        """Return how long after the last end the next start waits; 0.0 unless many ended
        lately."""
        count = sum(time.monotonic() - end < RECENT_SECONDS for end in self._ends)
        if count <= MAX_QUICK_STARTS:
            return 0.0
        return min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (count - MAX_QUICK_STARTS - 1))

    def _spare(self) -> WorkerProcess | None:
        """Return a process without sessions that a session may enter."""
        workers = self.workers.items()
        return next((each for each, instances in workers if each.is_open and not instances), None)

    def _sessions_in(self, worker: WorkerProcess) -> int:
        return len(self.workers[worker])

    def _new(self) -> WorkerProcess:
        worker = WorkerProcess(
            self.hosted,
            self.limits,
            self._settings,
            self._launcher,
            lambda reason: self._lose(worker, reason),
        )
        self.workers[worker] = set()
        return worker

    def leave(self, instance: WorkerInstance, worker: WorkerProcess) -> None:
        """Note that `instance` is closed."""
        worker = self._assigned.pop(instance, worker)
        worker.suspects.discard(instance)
        instances = self.workers.get(worker, set())
        if instance not in instances:
            return
        instances.remove(instance)
        if not instances and (
            self.is_alone or worker.is_held or (worker.is_open and worker not in self._for_all())
        ):
            worker.kill("was ended after its last session")

    def look_after(self, worker: WorkerProcess, instance: WorkerInstance) -> None:
        """End the process if the call of `instance` that was over its time goes on in it.

        Plain code does so at once; async code has the time of a teardown for what its cancellation
        makes it do.
        """
        if worker.is_held:
            self._retire(worker, instance)
            return
        task = asyncio.get_running_loop().create_task(self._look_again(worker, instance))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _look_again(self, worker: WorkerProcess, instance: WorkerInstance) -> None:
        await asyncio.sleep(self.limits.close_wait_seconds + CHECK_SECONDS)
        with contextlib.suppress(EnvironmentFault):  # it has ended
            await worker.ask("ping", 0)
            if worker.is_held:
                self._retire(worker, instance)

    def _retire(self, worker: WorkerProcess, instance: WorkerInstance) -> None:
        """End a process in which a call goes on: at once if one session has it, else when the
        others had time to end."""
        instance.give_up_revival()
        why = "was ended, because a call in it ran on after its time was over"
        if self.is_alone:
            worker.kill(why)
        else:
            asyncio.get_running_loop().call_later(RETIRE_SECONDS, worker.kill, why)

    def _lose(self, worker: WorkerProcess, reason: str) -> None:
        """End the sessions of a process that has ended.

        Those that wait for an answer get its end as the answer; those that can be revived wait for
        a request.
        """
        instances = self.workers.pop(worker)
        if instances and worker.pid:
            self.deaths += 1
            # else others follow until the culprit is found
            if not worker.suspects or len(instances) == 1:
                self._ends.append(time.monotonic())
        if instances:
            log.error(
                "a worker process ended",
                environment=self.hosted.name,
                sessions=len(instances),
                reason=reason,
            )
            if worker.how and not self._is_closing:  # else it could not be started
                self.on_death(
                    IncidentReport(
                        "lost",
                        time.time(),
                        worker.how,
                        suspects=worker.running,
                        is_certain=len(worker.running) <= 1,
                        environment=self.hosted.name,
                    )
                )
        if self.hosted.replayable and worker.has_started:
            self._look_for_culprit(worker, instances)
        for instance in instances:
            if instance.is_idle and not (instance.can_revive or instance.begins_again):
                self.on_loss(instance, reason + instance.why_lost)

    def _look_for_culprit(self, worker: WorkerProcess, instances: set[WorkerInstance]) -> None:
        """Assign other processes to the sessions whose calls ran in one that has ended, or give up
        the last one.

        At first all share one, because most ends happen once. If that ends too, they are divided
        among several, and so on. Those that had not yet come back stay together: a session whose
        call ran is more likely to have ended it.
        """
        suspects = [each for each in instances if not each.is_idle and each.can_revive]
        groups = [suspects]
        if worker.suspects and len(instances) == 1:
            for suspect in suspects:
                suspect.give_up_revival()
            return
        if worker.suspects:
            coming = [suspect for suspect in suspects if suspect.is_coming_back]
            likely = [suspect for suspect in suspects if not suspect.is_coming_back]
            if not likely:
                likely, coming = coming, []
            groups = [likely[share::MAX_SHARES] for share in range(MAX_SHARES)]
            groups.append(coming)
        for group in filter(None, groups):
            new = self._spare() or self._new()
            new.suspects, self.workers[new] = set(group), set(group)
            self._assigned.update(dict.fromkeys(group, new))

    def load(self) -> WorkerLoad:
        running = [worker for worker in self.workers if worker.pid]
        sessions = sum(map(len, self.workers.values()))
        machines = {worker.machine for worker in running}
        lag = max((worker.lag_seconds for worker in running), default=0.0)
        return WorkerLoad(len(running), sessions, self.deaths, len(machines), lag)

    async def keep_alive(self) -> None:
        """End workers that do not respond, or are not needed any more, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for worker in self.workers:
                worker.check_heard()
            self._end_idle()

    def _end_idle(self) -> None:
        """End processes that have had nothing to do for long, except one if all are without
        sessions."""
        workers = [worker for worker in self.workers if worker.is_open]
        spares = [worker for worker in workers if not self.workers[worker]]
        # one stays ready for the next session
        keeps_spare = self.is_alone or len(spares) == len(workers)
        for worker in spares[keeps_spare:]:
            if worker.is_idle_for(IDLE_SECONDS):
                worker.kill("was ended, because it was not needed")

    async def close(self) -> None:
        """End the processes."""
        self._is_closing = True
        for task in self._looking:
            task.cancel()
        await asyncio.gather(*(worker.close() for worker in list(self.workers)))


class WorkerTasks:
    """The tasks of a class whose code runs in worker processes only, as JSON texts.

    Every method may raise EnvironmentFault.
    """

    def __init__(self, workers: WorkerHost) -> None:
        self._workers = workers

    async def listing(self, split: str) -> list[str]:
        """Return all tasks of the split, in order. Raises: NotImplementedError when the class is
        procedural."""
        texts: list[str] | None = await self._ask("listing", split)
        if texts is None:
            raise NotImplementedError
        return texts

    async def count(self, split: str) -> int:
        """Return the number of tasks in the split."""
        return int(await self._ask("count", split))

    async def get(self, split: str, index: int) -> str:
        """Return the task at `index`; a negative index counts from the end. Raises:
        InvalidIndex."""
        text: str | None = await self._ask("get", split, index)
        if text is None:
            raise InvalidIndex(index, split, await self.count(split))
        return text

    async def range(
        self, split: str, start: int | None, stop: int | None
    ) -> AsyncIterator[list[str]]:
        """Yield the tasks from `start` up to `stop` in chunks, each read when the caller asks for
        it.

        Raises: InvalidIndexRange when the class refuses a range that lies within its own count.
        """
        indexes = range(await self.count(split))[start:stop]
        while indexes:
            part, indexes = indexes[:CHUNK_TASKS], indexes[CHUNK_TASKS:]
            texts: list[str] | None = await self._ask("range", split, part[0], part[-1] + 1)
            if texts is None:
                raise InvalidIndexRange(start, stop, split)
            yield texts

    async def _ask(self, what: str, *arguments: Any) -> Any:
        return await self._workers.ask("tasks", [what, *arguments])
