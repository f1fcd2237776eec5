"""One session in a worker process, which can come back in another one if its class is replayable,
or saves."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import structlog

from environments import wire
from environments.errors import WORKER_LOST, EnvironmentFault
from environments.hosts.worker_messages import packed, unpacked
from environments.hosts.worker_process import WorkerClass, WorkerProcess
from environments.limits import Limits
from environments.runtime.call_outcome import HARMLESS, CallOutcome, faulted
from environments.runtime.host import PlayedInstance
from environments.runtime.usercode import consume_exception

T = TypeVar("T")

log = structlog.get_logger(__name__)

LATE_SECONDS = 2.0
"""How much longer than its limits the end of a session in a worker may take."""
_PROMPTS = ("prompt_json", "messages_json")
MAX_BEGINNINGS = 3
"""How often one session is created, if its worker ends each time: several workers may be lost
together."""
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
    """The requests of a session, in the order of the answers, to repeat them in another process."""

    construction: tuple[Any, ...]
    is_set_up: bool
    needs_setup: bool
    answers: list[tuple[str, tuple[Any, ...], Any]] = field(default_factory=list)
    """Kind of request, its arguments, and its answer; since the snapshot, if there is one."""
    snapshot: str | None = None
    """The newest, in base64."""
    why_unsaved: str = ""
    """Why the session cannot come back now, although its class saves; completes a sentence."""
    characters: int = 0
    revivals: int = 0

    def keep(self, do: str, arguments: tuple[Any, ...], answer: Any, *, replayable: bool) -> None:
        """Add a request and its answer; with a snapshot, replace everything before it."""
        snapshot = answer[-1] if do == "run" else None
        if snapshot and not snapshot[1]:
            self.snapshot = snapshot[0]
            self.why_unsaved = ""
            self.characters = 0
            self.answers.clear()
        elif replayable or do != "run":
            self.answers.append((do, arguments, answer))
            self.characters += len(str(arguments)) + len(str(answer))
        elif answer[5] not in HARMLESS:
            problem = f": {snapshot[1]}" if snapshot else ""
            self.why_unsaved = (
                f"its class is not replayable, and a call of {arguments[0]!r} is in no "
                f"snapshot{problem}"
            )


class WorkerInstance:
    """One session in a worker process."""

    __slots__ = ("_number", "_past", "_reviving", "_worker", "_workers", "requests")

    def __init__(self, workers: WorkerPool, number: int) -> None:
        self._workers, self._number = workers, number
        # from the start of construction until the instance is closed
        self._worker: WorkerProcess | None = None
        self._past: _Past | None = None  # of a session that can be revived
        self._reviving: asyncio.Task[None] | None = None
        self.requests = 0
        """Number of requests that wait for the worker's answer."""

    @property
    def is_idle(self) -> bool:
        """Return whether it is in a worker and waits for no answer of it."""
        return self._worker is not None and not self.requests

    @property
    def is_coming_back(self) -> bool:
        """Return whether its past is being played again."""
        return self._reviving is not None

    @property
    def can_revive(self) -> bool:
        """Return whether the session can go on in another process if its own ends."""
        past = self._past
        if past is None or not past.is_set_up or past.revivals >= MAX_REVIVALS:
            return False
        return self._replayable or not past.why_unsaved

    @property
    def begins_again(self) -> bool:
        """Return whether the session is created again in another process if its own ends now."""
        return self._past is not None and not self._past.is_set_up

    @property
    def why_lost(self) -> str:
        """Return, as a sentence after a space, why a session whose class saves cannot come back;
        empty if unknown."""
        if self._past is None or not self._past.why_unsaved:
            return ""
        return f" The session did not come back, because {self._past.why_unsaved}."

    @property
    def _replayable(self) -> bool:
        return self._workers.hosted.replayable

    # --- the contract of a played instance --------------------------------------------------------

    async def construct(self, spec: Any, secrets: dict[str, str], toolset: str | None) -> bool:
        """Create the instance in a worker. A class whose sessions come back is asked again if the
        process ends.

        Raises: EnvironmentFault, InvalidRequest.
        """
        arguments = (spec, secrets, toolset)
        needs_setup = await self._begun(lambda _: self._construct(arguments))
        if self._workers.hosted.comes_back:
            self._past = _Past(arguments, not needs_setup, needs_setup)
        return needs_setup

    async def _construct(self, arguments: tuple[Any, ...]) -> bool:
        self._worker = await self._workers.enter(self)
        return bool(await self._ask("construct", *arguments, what="the constructor"))

    async def _set_up(self, is_again: bool) -> None:
        if is_again and self._past is not None:
            await self._construct(self._past.construction)
        await self._ask("set_up", what="setup")

    async def _begun(self, begin: Callable[[bool], Awaitable[T]]) -> T:
        """Return what `begin` returns. Its argument: whether it is called again because the process
        ended."""
        attempts_left = MAX_BEGINNINGS if self._workers.hosted.comes_back else 1
        is_again = False
        while True:
            attempts_left -= 1
            try:
                return await begin(is_again)
            except EnvironmentFault as fault:
                if fault.kind != WORKER_LOST or not attempts_left:
                    raise
            is_again = True

    async def set_up(self) -> None:
        """Run the author's setup. If the process ends, a class whose sessions come back begins
        again in another one.

        Raises: EnvironmentFault.
        """
        await self._begun(self._set_up)
        if self._past is not None:
            self._past.is_set_up = True

    async def restore(self, state: bytes) -> None:
        """Run the author's `load`. Raises: EnvironmentFault."""
        snapshot = b64encode(state).decode("ascii")
        if self._past is not None:
            self._past.snapshot = snapshot
        try:
            await self._ask("restore", snapshot, what="load")
        except EnvironmentFault as fault:
            if fault.kind != WORKER_LOST or not self.can_revive:
                raise
            await self._come_back()

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
            outcome = unpacked(await self._answer("run", tool, arguments, what=repr(tool)))
        except EnvironmentFault as fault:
            return faulted(fault)
        if outcome.reason == "timeout" and self._worker is not None:  # once the step is on its way:
            asyncio.get_running_loop().call_soon(self._workers.look_after, self._worker, self)
        return outcome

    def give_up_revival(self) -> None:
        """End with the process: a call that goes on after its time would do so again."""
        self._past = None

    async def score(self, candidates: list[wire.GroupCandidate]) -> str:
        """Return JSON `{"scores": [...]}` with one score for each candidate. Raises:
        EnvironmentFault."""
        values = [candidate.model_dump() for candidate in candidates]
        return str(await self._answer("score", values, what="the group score"))

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
            raise EnvironmentFault(
                "TimeoutError", f"teardown took over {limit:g} s and was given up"
            ) from None
        finally:
            self._workers.leave(self, worker)

    # --- requests and revival ---------------------------------------------------------------------

    async def _answer(self, do: str, *arguments: Any, what: str) -> Any:
        """Return the answer to a request, which is made again if the process ends before it
        answers.

        Raises: EnvironmentFault.
        """
        try:
            await self._settle_end()
            await self._come_back()
            try:
                answer = await self._ask(do, *arguments, what=what)
            except EnvironmentFault as fault:
                if fault.kind != WORKER_LOST or not self.can_revive:
                    raise
                # it fails, and the session goes on without it
                if do == "run" and not self._replayable:
                    return packed(faulted(fault))
                answer = await self._ask_again(do, *arguments, what=what)
        except EnvironmentFault as fault:
            if fault.kind == WORKER_LOST:
                if self.why_lost:
                    fault = EnvironmentFault(fault.kind, fault.text + self.why_lost)
                self._past = None
                asyncio.get_running_loop().call_soon(self._workers.on_loss, self, fault.text)
            raise fault from None
        finally:
            if self._worker is not None:
                self._worker.suspects.discard(self)
        if (past := self._past) is not None and do != "score":
            past.keep(do, arguments, answer, replayable=self._replayable)
            if past.characters > MAX_PAST_CHARACTERS:
                self._past = None
        return answer

    async def _ask_again(self, do: str, *arguments: Any, what: str) -> Any:
        """Return the answer to a request during which the process ended, perhaps because of another
        session.

        That of a replayable class is repeated until a process ends that only it was in.
        """
        while True:
            await self._come_back()
            try:
                return await self._ask(do, *arguments, what=what)
            except EnvironmentFault as fault:
                if fault.kind != WORKER_LOST or not (self._replayable and self.can_revive):
                    raise

    async def _settle_end(self) -> None:
        """Send nothing to a process that has ended: what is sent may have been done, and fails."""
        if self._worker is not None:
            self.requests += 1
            try:
                await self._worker.settle_end()
            finally:
                self.requests -= 1

    async def _ask(self, do: str, *arguments: Any, what: str) -> Any:
        assert self._worker is not None, "construct comes first"
        self.requests += 1
        try:
            return await self._worker.ask(do, self._number, arguments, what)
        finally:
            self.requests -= 1

    async def _come_back(self) -> None:
        """Play the past again in another process if the session's has ended; once for all waiting
        requests.

        Raises: EnvironmentFault, whose text says why the session did not come back.
        """
        while self._reviving is not None or self._must_revive:
            if self._reviving is None:
                self._reviving = asyncio.get_running_loop().create_task(self._replay())
                # those that wait for it raise it too
                self._reviving.add_done_callback(consume_exception)
            try:
                await asyncio.shield(self._reviving)
            except EnvironmentFault as fault:
                # else that process has ended too
                if fault.kind != WORKER_LOST or not self._must_revive:
                    raise

    @property
    def _must_revive(self) -> bool:
        return self._worker is not None and bool(self._worker.lost) and self.can_revive

    async def _replay(self) -> None:
        past, old_worker = self._past, self._worker
        if past is None or old_worker is None:
            self._reviving = None
            raise EnvironmentFault(WORKER_LOST, "The session was closed.")
        past.revivals += 1
        self.requests += 1
        try:
            worker = await self._workers.enter(self)
            if self._past is not past:
                self._workers.leave(self, worker)
                raise EnvironmentFault(WORKER_LOST, "The session was closed.")
            if self in worker.suspects:  # of which there are ever fewer
                past.revivals -= 1
            self._worker = worker
            await worker.ask("construct", self._number, past.construction, "a revival")
            if past.needs_setup:
                await worker.ask("set_up", self._number, (), "a revival")
            if past.snapshot is not None:
                await worker.ask("restore", self._number, (past.snapshot,), "a revival")
            for place, (do, arguments, _) in enumerate(past.answers):
                now = await worker.ask(do, self._number, arguments, "a revival")
                if reason := self._difference(past, place, now):
                    text = f"The session did not come back, because {reason}."
                    raise EnvironmentFault(WORKER_LOST, f"{old_worker.lost} {text}")
        finally:
            self.requests -= 1
            self._reviving = None
        log.info(
            "a session came back in another worker process",
            environment=self._workers.hosted.name,
            pid=worker.pid,
        )

    def _difference(self, past: _Past, place: int, now: Any) -> str:
        """Return how the answer `now` differs from the one at `place`; empty if it may be the
        same."""
        do, arguments, answer = past.answers[place]
        # what an agent sees: status, output, reward, end of the episode, error and reason
        if do == "run" and now[:6] != answer[:6]:
            if past.snapshot is not None:
                return f"a call of {arguments[0]!r} had another outcome"
            step = sum(kind == "run" for kind, _, _ in past.answers[:place])
            return f"step {step} ({arguments[0]!r}) had another outcome"
        is_new = not self._replayable and past.snapshot is None
        if is_new and do in _PROMPTS and now != answer:
            return "its prompt was another one"
        return ""
