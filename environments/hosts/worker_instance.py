"""One session in a worker process, which can come back in another one if its class is replayable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from environments import wire
from environments.errors import WORKER_LOST, EnvironmentFault
from environments.hosts.worker_process import WorkerClass, WorkerProcess
from environments.runtime.call_outcome import CallOutcome, faulted
from environments.runtime.host import PlayedInstance
from environments.runtime.limits import Limits
from environments.runtime.usercode import consume_exception

log = structlog.get_logger(__name__)

LATE_SECONDS = 2.0
"""How much longer than its limits the end of a session in a worker may take."""
MAX_REVIVALS = 5
"""How often one session comes back after the end of its worker."""
MAX_PAST_CHARACTERS = 4_000_000
"""Size of the arguments and outputs of a session that can be revived; a longer one is not kept."""


class WorkerPool(Protocol):
    """What an instance needs of the worker processes of its environment."""

    hosted: WorkerClass
    limits: Limits
    on_loss: Callable[[PlayedInstance, str], None]

    async def enter(self, instance: WorkerInstance) -> WorkerProcess:
        """Return the process that plays `instance`. Raises: EnvironmentFault."""

    def leave(self, instance: WorkerInstance, worker: WorkerProcess) -> None:
        """Note that `instance` is closed."""

    def look_after(self, worker: WorkerProcess, instance: WorkerInstance) -> None:
        """End the process if the call of `instance` that was over its time goes on in it."""


@dataclass(slots=True)
class _Past:
    """What a session was asked, in the order of the answers, so that it can be asked again in another process."""

    construction: tuple[Any, ...]
    answers: list[tuple[str, tuple[Any, ...], Any]]
    """Kind of request, its arguments, and its answer."""
    is_set_up: bool
    characters: int = 0
    revivals: int = 0


class WorkerInstance:
    """One session in a worker process."""

    __slots__ = ("_number", "_past", "_reviving", "_worker", "_workers", "requests")

    def __init__(self, workers: WorkerPool, number: int) -> None:
        self._workers, self._number = workers, number
        self._worker: WorkerProcess | None = None  # from the start of construction until the instance is closed
        self._past: _Past | None = None  # of a session that can be revived
        self._reviving: asyncio.Task[None] | None = None
        self.requests = 0
        """Number of requests that wait for the worker's answer."""

    @property
    def is_idle(self) -> bool:
        """Return whether it is in a worker and waits for no answer of it."""
        return self._worker is not None and not self.requests

    @property
    def can_revive(self) -> bool:
        """Return whether the session can go on in another process if its own ends."""
        past = self._past
        return past is not None and past.is_set_up and past.revivals < MAX_REVIVALS

    # --- the contract of a played instance ----------------------------------------------------------------------------

    async def construct(self, spec: Any, secrets: dict[str, str], toolset: str | None) -> bool:
        """Create the instance in a worker. Raises: EnvironmentFault, InvalidRequest."""
        self._worker = await self._workers.enter(self)
        needs_setup = bool(await self._ask("construct", spec, secrets, toolset, what="the constructor"))
        if self._workers.hosted.replayable:
            self._past = _Past((spec, secrets, toolset), [], not needs_setup)
        return needs_setup

    async def set_up(self) -> None:
        """Run the author's setup. Raises: EnvironmentFault."""
        await self._ask("set_up", what="setup")
        self._keep("set_up", (), None)
        if self._past is not None:
            self._past.is_set_up = True

    async def prompt_json(self) -> str:
        """Return the prompt as a JSON array of blocks. Raises: EnvironmentFault."""
        return str(await self._answer("prompt_json", what="the prompt"))

    async def messages_json(self) -> str:
        """Return the prompt as a JSON array of messages. Raises: EnvironmentFault."""
        return str(await self._answer("messages_json", what="the prompt"))

    async def task_tools_json(self) -> str:
        """Return the tools of this session as JSON of ListToolsOutput. Raises: EnvironmentFault."""
        return str(await self._answer("task_tools_json", what="the list of tools"))

    async def run(self, tool: str, arguments: wire.JSONObject, /) -> CallOutcome:
        """Run one tool call in the worker. Raises only asyncio.CancelledError."""
        try:
            outcome = CallOutcome(*await self._answer("run", tool, arguments, what=repr(tool)))
        except EnvironmentFault as fault:
            return faulted(fault)
        if outcome.reason == "timeout" and self._worker is not None:  # once the step is on its way:
            asyncio.get_running_loop().call_soon(self._workers.look_after, self._worker, self)
        return outcome

    def give_up_revival(self) -> None:
        """End with the process: a call that goes on after its time would do so again."""
        self._past = None

    async def score(self, candidates: list[wire.GroupCandidate]) -> str:
        """Return JSON `{"scores": [...]}` with one score for each candidate. Raises: EnvironmentFault."""
        return str(await self._answer("score", [one.model_dump() for one in candidates], what="the group score"))

    async def close(self) -> None:
        """Tear the instance down. Raises: EnvironmentFault."""
        worker, self._worker, self._past = self._worker, None, None
        if worker is None:
            return
        limit = 3 * self._workers.limits.close_wait_seconds + LATE_SECONDS
        try:
            if not worker.lost:
                async with asyncio.timeout(limit):
                    await worker.ask("close", self._number, (), "teardown")
        except TimeoutError:
            worker.kill(f"was ended, because it did not close a session within {limit:g} s")
            raise EnvironmentFault("TimeoutError", f"teardown took over {limit:g} s and was given up") from None
        finally:
            self._workers.leave(self, worker)

    # --- requests and revival -----------------------------------------------------------------------------------------

    async def _answer(self, do: str, *given: Any, what: str) -> Any:
        """Return the answer to a request, which is made once more if the process ends before it answers.

        Raises: EnvironmentFault.
        """
        try:
            await self._come_back()
            try:
                answer = await self._ask(do, *given, what=what)
            except EnvironmentFault as fault:
                if fault.kind != WORKER_LOST or not self.can_revive:
                    raise
                await self._come_back()
                answer = await self._ask(do, *given, what=what)
        except EnvironmentFault as fault:
            if fault.kind == WORKER_LOST:
                self._past = None
                asyncio.get_running_loop().call_soon(self._workers.on_loss, self, fault.text)
            raise
        self._keep(do, given, answer)
        return answer

    async def _ask(self, do: str, *given: Any, what: str) -> Any:
        assert self._worker is not None, "construct comes first"
        self.requests += 1
        try:
            return await self._worker.ask(do, self._number, given, what)
        finally:
            self.requests -= 1

    def _keep(self, do: str, given: tuple[Any, ...], answer: Any) -> None:
        if self._past is None or do == "score":
            return
        self._past.answers.append((do, given, answer))
        self._past.characters += len(str(given)) + len(str(answer))
        if self._past.characters > MAX_PAST_CHARACTERS:
            self._past = None

    async def _come_back(self) -> None:
        """Play the past again in another process if the session's has ended, once for all requests that wait for it.

        Raises: EnvironmentFault, whose text says why the session did not come back.
        """
        while self._reviving is not None or self._must_revive:
            if self._reviving is None:
                self._reviving = asyncio.get_running_loop().create_task(self._replay())
                self._reviving.add_done_callback(consume_exception)  # those that wait for it raise it too
            try:
                await asyncio.shield(self._reviving)
            except EnvironmentFault as fault:
                if fault.kind != WORKER_LOST or not self._must_revive:  # else that process has ended too
                    raise

    @property
    def _must_revive(self) -> bool:
        return self._worker is not None and bool(self._worker.lost) and self.can_revive

    async def _replay(self) -> None:
        past, lost = self._past, self._worker
        if past is None or lost is None:
            self._reviving = None
            raise EnvironmentFault(WORKER_LOST, "The session was closed.")
        past.revivals += 1
        self.requests += 1
        try:
            worker = await self._workers.enter(self)
            if self._past is not past:
                self._workers.leave(self, worker)
                raise EnvironmentFault(WORKER_LOST, "The session was closed.")
            self._worker = worker
            await worker.ask("construct", self._number, past.construction, "a revival")
            for place, (do, given, answer) in enumerate(past.answers):
                now = await worker.ask(do, self._number, given, "a revival")
                if do == "run" and _observed(now) != _observed(answer):
                    step = sum(kind == "run" for kind, _, _ in past.answers[:place])
                    text = f"The session did not come back, because step {step} ({given[0]!r}) had another outcome."
                    raise EnvironmentFault(WORKER_LOST, f"{lost.lost} {text}")
        finally:
            self.requests -= 1
            self._reviving = None
        log.info("a session came back in another worker process", environment=self._workers.hosted.name, pid=worker.pid)


def _observed(outcome: list[Any]) -> list[Any]:
    """Return what an agent sees of an outcome: status, output, reward, end of the episode, error and reason."""
    return outcome[:6]
