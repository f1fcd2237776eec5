"""LivePlay: one session that a person plays: its beginning, its running calls, the tabs that show it, its grace time.

On the service's event loop only, made by `tables.py`. A tab is an `Audience`: what it is told, it sends by its socket.
Every tab is told everything, in the order of the steps. When the last one has gone, the session is ended after a grace.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

import structlog
from django.conf import settings
from django.db import Error

from environments import wire
from environments.errors import OrsError
from environments.runtime.calls import Call
from environments.runtime.live_episode import NewSession
from environments.runtime.records import StepTaken
from environments.runtime.service import SessionService
from episodes.playtest.continuing.rerun import Rerunning
from episodes.playtest.play_facts import PlayFacts
from episodes.playtest.reader_threads import readers
from episodes.playtest.told_steps import MAX_STEPS, ToldStep, ToldSteps, ending_of, steps_html
from episodes.playtest.tools import offered

log = structlog.get_logger(__name__)

MAX_RUNNING = 16
"""Calls of one session at the same time."""
QUICK_SECONDS = 0.1
"""What takes no longer is told as a step alone, not as running before."""
WAIT_SECONDS = 3600.0

Message = dict[str, Any]


class Audience(Protocol):
    def tell(self, message: Message) -> None:
        """Send `message` when its turn comes; never waits."""


@dataclass(frozen=True, slots=True)
class RunningCall:
    call: Call
    started: float
    """time.monotonic()."""

    def told(self) -> Message:
        elapsed_ms = round((time.monotonic() - self.started) * 1000)
        return {"tool": self.call.tool, "task_id": self.call.task_id, "elapsed_ms": elapsed_ms}


class LivePlay:
    """`tools` and `fault` are known once `beginning` is done."""

    def __init__(self, service: SessionService, request: NewSession, forget: Callable[[LivePlay], None]) -> None:
        self.sid, self.owner = request.sid, request.owner
        self.tools: dict[str, Any] = {}  # name -> JSON Schema of the input, None where it takes none
        self.fault: OrsError | None = None
        self.is_over = False
        self.rerunning: Rerunning | None = None
        self._service, self._forget = service, forget
        self._audience: set[Audience] = set()
        self._running: dict[str, RunningCall] = {}
        self._heard: set[str] = set()  # task_ids of running calls whose step was told as it came
        self._tasks: set[asyncio.Task[Any]] = set()
        self._telling = asyncio.Lock()  # whoever holds it may raise `_shown`, so that every tab gets every step once
        self._facts: PlayFacts | None = None
        self._shown = ToldSteps()
        self._grace: asyncio.TimerHandle | None = None
        self.beginning = self._own(self._begin(request))

    def _own(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- from beginning to end ----------------------------------------------------------------------------------------

    async def _begin(self, request: NewSession) -> None:
        """Open the session and ask for prompt and tools, so that they are on record. What fails is left in `fault`."""
        service, sid, owner = self._service, self.sid, self.owner
        try:
            await service.create(request)
            service.follow(sid, owner, self._hear)
            self._own(self._watch())
            assert request.environment is not None
            tells_messages = service.registry.get(request.environment).overrides("get_messages")
            ask = service.messages_json if tells_messages else service.prompt_json
            await ask(sid, owner, None)
            tools = offered(await service.task_tools_json(sid, owner, None))
            self.tools = {tool.name: tool.schema for tool in tools}
        except (OrsError, Error) as error:
            self.fault = error if isinstance(error, OrsError) else OrsError("The database cannot be reached.")
            await service.delete(sid, owner)
            await self._end()
        else:
            self._tell({"type": "ready"})

    async def _watch(self) -> None:
        await self._service.until_gone(self.sid, self.owner)
        await self._end()

    async def _end(self) -> None:
        """Tell how it ended, once; the record says so."""
        if self.is_over:
            return
        self.is_over = True
        if self._grace is not None:
            self._grace.cancel()
        self._forget(self)
        if self._facts is None:
            return
        try:
            async with self._telling:
                await self._advance(self._facts)
                self._tell(await readers().run(ending_of, self._facts.episode.pk))
        except Error:
            self._tell_unread(None)

    def expect(self) -> None:
        """Somebody is to come, or to come back, within the grace time; else the session is given up.

        While recorded steps are run again nobody need look on.
        """
        if self._grace is not None:
            self._grace.cancel()
        is_busy = self.rerunning is not None and self.rerunning.progress.state == "running"
        if not (self._audience or self.is_over or is_busy):
            self._grace = asyncio.get_running_loop().call_later(settings.ORSWEB_PLAY_GRACE, self.leave)

    def leave(self) -> None:
        """End the session as abandoned, unless it has ended otherwise. Whoever looks on is told when it has."""
        self._own(self._service.delete(self.sid, self.owner))

    # --- who looks on -------------------------------------------------------------------------------------------------

    async def join(self, audience: Audience, facts: PlayFacts, after: int) -> None:
        """`audience` is told the state, with the steps after index `after`, and all that happens from then on."""
        if self._grace is not None:
            self._grace.cancel()
        self._audience.add(audience)  # now, or it would be given up while the steps are read
        self._facts = facts
        async with self._telling:
            await self._advance(facts, joining=audience)
            html = await readers().run(steps_html, facts, after, self._shown.last)
            audience.tell({"type": "state", **self._state(facts), "html": html})

    def part(self, audience: Audience) -> None:
        self._audience.discard(audience)
        self.expect()

    def touch(self) -> None:
        """Playing counts as activity. Raises: SessionNotFound."""
        self._service.ping(self.sid, self.owner)

    def _tell(self, message: Message) -> None:
        for one in list(self._audience):
            one.tell(message)

    def _tell_unread(self, task_id: str | None) -> None:
        """What was done is on record, and could not be read there."""
        log.exception("a play could not be shown", session=self.sid)
        words = "It was recorded, but the database cannot be read now. Load the page again in a while."
        self._tell({"type": "error", "message": words, "task_id": task_id})

    def _state(self, facts: PlayFacts) -> Message:
        return {
            "status": "ended" if self.is_over else "running" if self.beginning.done() else "starting",
            "running": [one.told() for one in self._running.values()],
            "elapsed_seconds": max(0.0, time.time() - facts.began),
            **self.figures(),
        }

    def figures(self) -> Message:
        """What stands on top of the page. The return is told only to those who may see it."""
        is_blind = self._facts is None or self._facts.is_blind
        return {
            "steps": self._shown.counted,
            "returned": None if is_blind else self._shown.so_far.value,
            "remaining_seconds": self._remaining(),
        }

    def _remaining(self) -> float:
        try:
            return self._service.remaining_seconds(self.sid, self.owner)
        except OrsError:
            return 0.0

    # --- what it continues --------------------------------------------------------------------------------------------

    def run_again(self, rerunning: Rerunning) -> asyncio.Task[None]:
        """Run recorded steps again, before anything else is called.

        Whoever leaves meanwhile may come back for as long as a session is kept; the grace is for who saw them done.
        """
        self.rerunning = rerunning
        self.expect()
        return self._own(self._run_again(rerunning))

    async def _run_again(self, rerunning: Rerunning) -> None:
        await rerunning.run()
        if self._facts is not None:
            async with self._telling:
                await self._advance(self._facts)

    # --- calls --------------------------------------------------------------------------------------------------------

    async def call(self, request: wire.ToolCall) -> None:
        """Start a call, or find the one that was started under its task_id.

        Raises: OrsError when the session takes none.
        """
        task_id = request.task_id or ""
        if task_id in self._running:
            return
        if self.rerunning is not None and not self.rerunning.is_done:
            raise StillRerunning
        if len(self._running) >= MAX_RUNNING:
            raise TooManyCalls
        call = await self._service.call(self.sid, self.owner, None, request)
        running = self._running[task_id] = RunningCall(call, time.monotonic())
        self._own(self._follow(task_id, running))

    async def _follow(self, task_id: str, running: RunningCall) -> None:
        call = running.call
        if not await call.wait(QUICK_SECONDS):
            self._tell({"type": "running", **running.told()})
            while not await call.wait(WAIT_SECONDS):
                pass
        call.is_delivered = True
        self._running.pop(task_id, None)
        if task_id in self._heard:
            self._heard.remove(task_id)
        elif not await self._tell_rest(task_id):
            return
        if self._shown.is_finished and not self.is_over:
            await self._end()
            self.leave()

    def _hear(self, row: StepTaken) -> None:
        """A step was recorded. It is told here and now if it is short and the next; else `_advance` reads it."""
        if self._facts is None or not self._audience or self._telling.locked() or not self._shown.is_next(row):
            return
        self._shown, step = self._shown.with_step(self._facts, row)
        if row.task_id in self._running:
            self._heard.add(row.task_id)
        self._tell_step(step, self._audience)

    async def _tell_rest(self, task_id: str) -> bool:
        """Tell what is recorded and not told yet, the call's step with it. False: it cannot be, or nobody looks."""
        if self._facts is None:
            return False
        try:
            async with self._telling:
                told = await self._advance(self._facts)
        except Error:
            self._tell_unread(task_id)
            return False
        if task_id not in told:  # it was told before, to a tab that has it
            self._tell({"type": "done", "task_id": task_id})
        return True

    async def _advance(self, facts: PlayFacts, joining: Audience | None = None) -> set[str]:
        """Tell the steps that were recorded since; their task_ids. To be called with `_telling` held.

        `joining` gets them with the state.
        """
        others, told = self._audience - {joining}, set[str]()
        while True:
            self._shown, steps = await readers().run(self._shown.grown, facts, bool(others))
            told |= {step.task_id for step in steps}
            for step in steps:
                self._tell_step(step, others)
            if len(steps) < MAX_STEPS:
                return told

    def _tell_step(self, step: ToldStep, audience: set[Audience]) -> None:
        message = {"type": "step", "index": step.index, "task_id": step.task_id, "html": step.html, **self.figures()}
        for one in audience:
            one.tell(message)


class TooManyCalls(OrsError):
    def __init__(self) -> None:
        super().__init__(f"{MAX_RUNNING} calls are running, the most that one player may have; wait for one to end.")


class StillRerunning(OrsError):
    def __init__(self) -> None:
        super().__init__("The recorded steps come first; load the page again to see how far they are.")
