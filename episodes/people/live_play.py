"""One session that a person plays: its start, its running calls, the tabs that show it and its
grace time.

Used on the service's event loop only, and created by `live_play_registry.py`. A `Tab` sends each
message through its socket. Every tab gets every step, in order. After the last tab has left, the
session ends when the grace time is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

import structlog
from django.conf import settings
from django.db import Error
from django.utils import timezone

from environments import wire
from environments.errors import OrsError
from environments.runtime.call_table import Call
from environments.runtime.records import StepTaken
from environments.runtime.service import SessionService
from environments.runtime.session_request import SessionRequest
from environments.runtime.steady_clock import SteadyClock
from episodes.people.continuing.rerun import Rerun
from episodes.people.play_clock import PlayClock, PlayTimes
from episodes.people.play_facts import PlayFacts
from episodes.people.play_steps import (
    MAX_STEPS,
    PlayStep,
    PlaySteps,
    ending_of,
    save_pause,
    steps_between,
)
from episodes.people.reader_threads import readers
from episodes.people.tools import offered_tools

log = structlog.get_logger(__name__)

MAX_RUNNING = 16
"""Maximum number of calls of one session that run at the same time."""
QUICK_SECONDS = 0.1
"""A quicker call is only sent as a step; a slower one is first sent as running."""
MAX_WAIT_SECONDS = 3600.0
KEEP_SECONDS = 20.0
"""How often a session that is kept for a player who is away is used, so that it does not expire."""

AWAY = "The page was closed, and nobody came back in time."
"""Recorded with the end of a session whose player closed the page."""

Message = dict[str, Any]


class Tab(Protocol):
    """One open page of the play."""

    def enqueue(self, message: Message) -> None:
        """Send `message` after those that were enqueued before. Never waits."""


@dataclass(frozen=True, slots=True)
class RunningCall:
    call: Call
    start: float
    """Value of time.monotonic() at the start."""

    def to_message(self) -> Message:
        elapsed_ms = round((time.monotonic() - self.start) * 1000)
        return {"tool": self.call.tool, "task_id": self.call.task_id, "elapsed_ms": elapsed_ms}


class LivePlay:
    """A session that a person plays. `tools` and `fault` are set once `start_task` is done."""

    def __init__(
        self,
        service: SessionService,
        request: SessionRequest,
        forget: Callable[[LivePlay], None],
        times: PlayTimes | None = None,
    ) -> None:
        """`times`: how long its study keeps the session, with a standing clock, while no tab is
        open, and lets people play; None: the session is kept for the grace time, and may expire
        meanwhile.
        """
        self.sid, self.owner = request.sid, request.owner
        # name -> JSON Schema of the input; None: the tool takes no input
        self.tools: dict[str, Any] = {}
        self.fault: OrsError | None = None
        self.is_over = False
        self.rerun: Rerun | None = None
        self._service, self._forget = service, forget
        self._tabs: set[Tab] = set()
        self._running: dict[str, RunningCall] = {}
        # task_ids of running calls whose step was sent by `_on_step`
        self._sent_early: set[str] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        # held while `_steps` advances, so that every tab gets every step once
        self._lock = asyncio.Lock()
        self._facts: PlayFacts | None = None
        self._steps = PlaySteps()
        self._grace: asyncio.TimerHandle | None = None
        self._clock = PlayClock(times)
        self._time = SteadyClock()
        self._saved_pause = 0.0  # seconds on record
        self._is_noted_paused = False
        # held while it is noted whether the clock stands still: the last note counts
        self._noting = asyncio.Lock()
        # set while nobody is there and the session is kept
        self._keeping: asyncio.TimerHandle | None = None
        # set while somebody is there and the time is limited
        self._deadline: asyncio.TimerHandle | None = None
        self.start_task = self._own(self._start(request))

    def _own(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- start and end ----------------------------------------------------------------------------

    async def _start(self, request: SessionRequest) -> None:
        """Open the session and request prompt and tools, so that they are recorded. An error is
        stored in `fault`."""
        service, sid, owner = self._service, self.sid, self.owner
        try:
            await service.create(request)
            service.follow(sid, owner, self._on_step)
            self._own(self._watch())
            assert request.environment is not None
            has_messages = service.registry.get(request.environment).has_own_messages
            request_prompt = service.messages_json if has_messages else service.prompt_json
            await request_prompt(sid, owner, None)
            tools = offered_tools(await service.task_tools_json(sid, owner, None))
            self.tools = {tool.name: tool.schema for tool in tools}
            # or a page that opens now would lack the tools of the task
            await service.until_recorded()
        except (OrsError, Error) as error:
            self.fault = (
                error
                if isinstance(error, OrsError)
                else OrsError("The database cannot be reached.")
            )
            await service.delete(sid, owner)
            await self._end()
        else:
            self._clock.start()
            if self._tabs:
                self._limit()
            self._send({"type": "ready"})

    async def _watch(self) -> None:
        await self._service.until_gone(self.sid, self.owner)
        await self._end()

    async def _end(self) -> None:
        """Send how the play ended, as the record says. Does it once."""
        if self.is_over:
            return
        self.is_over = True
        self._cancel_timers()
        self._forget(self)
        if self._facts is None:
            return
        try:
            async with self._lock:
                await self._advance(self._facts)
                self._send(await readers().run(ending_of, self._facts.episode.pk))
        except Error:
            self._send_unreadable(None)

    def start_grace(self) -> None:
        """End the session unless a tab joins within the grace time.

        Does nothing while tabs are open or while recorded steps are run again.
        """
        is_busy = self.rerun is not None and self.rerun.progress.state == "running"
        if self._tabs or self.is_over:
            return
        self._cancel_timers()
        if not is_busy:
            self._clock.pause()
            self._grace = asyncio.get_running_loop().call_later(self._kept_for, self.abandon, AWAY)
            if self._clock.can_pause:
                self._keep()
                self._own(self._note_standstill())

    def _keep(self) -> None:
        """Keep the session from expiring, and do so again until somebody is there."""
        with contextlib.suppress(OrsError):  # it has ended
            self._service.ping(self.sid, self.owner)
            self._keeping = asyncio.get_running_loop().call_later(KEEP_SECONDS, self._keep)

    def _limit(self) -> None:
        """Let the session end when the time for its task is over."""
        if (seconds := self._clock.time_left) is not None:
            self._deadline = asyncio.get_running_loop().call_later(seconds, self._run_out)

    def _run_out(self) -> None:
        """End the session, because the time for its task is over."""
        words = f"the time for the task, {self._clock.limit_words}, was over"
        self._own(self._service.delete(self.sid, self.owner, limit=words))

    def _cancel_timers(self) -> None:
        for timer in (self._grace, self._keeping, self._deadline):
            if timer is not None:
                timer.cancel()

    def abandon(self, detail: str = "") -> None:
        """End the session as abandoned unless it has already ended. Tabs get the message of its
        end.

        `detail` says in the record why.
        """
        self._own(self._service.delete(self.sid, self.owner, detail))

    @property
    def is_open(self) -> bool:
        """Whether somebody is there: a tab shows the play."""
        return bool(self._tabs)

    @property
    def is_paused(self) -> bool:
        """Whether the clock stands still, because nobody is there."""
        return not self._tabs and self._clock.pause_left > 0

    @property
    def kept_seconds(self) -> float:
        """Seconds for which the session is kept if nobody comes: from now on, also while a tab is
        just being left."""
        if self._tabs or self._grace is None:
            return self._kept_for
        return max(0.0, self._grace.when() - asyncio.get_running_loop().time())

    @property
    def _kept_for(self) -> float:
        return max(settings.ORSWEB_PLAY_GRACE, self._clock.pause_left)

    @property
    def time_left(self) -> float | None:
        """Seconds that are left to play; None without a limit."""
        return self._clock.time_left

    # --- tabs -------------------------------------------------------------------------------------

    async def join(self, tab: Tab, facts: PlayFacts, after: int) -> None:
        """Send `tab` the state with the steps after index `after`, and everything that happens from
        then on."""
        was_away = not self._tabs
        self._tabs.add(tab)  # before the steps are read: without a tab the session would end
        self._facts = facts
        if was_away:
            self._cancel_timers()
            self._clock.resume()
            self._limit()
            self._own(self._note_standstill())
        async with self._lock:
            await self._advance(facts, joining=tab)
            steps = await readers().run(steps_between, facts, after, self._steps.last)
            tab.enqueue({"type": "state", **self._state(facts), **steps})

    def detach(self, tab: Tab) -> None:
        """Stop sending steps and messages to `tab`."""
        self._tabs.discard(tab)
        self.start_grace()

    def touch(self) -> None:
        """Keep the session from expiring. Raises: SessionNotFound."""
        self._service.ping(self.sid, self.owner)

    def _send(self, message: Message) -> None:
        for tab in list(self._tabs):
            tab.enqueue(message)

    def _send_unreadable(self, task_id: str | None) -> None:
        """Report that a step was recorded but cannot be read."""
        log.exception("a play could not be shown", session=self.sid)
        words = (
            "The step was recorded, but the database can't be read right now. Reload the page in a "
            "moment."
        )
        self._send({"type": "error", "message": words, "task_id": task_id})

    def _state(self, facts: PlayFacts) -> Message:
        status = "running" if self.start_task.done() else "starting"
        return {
            "status": "ended" if self.is_over else status,
            "running": [running_call.to_message() for running_call in self._running.values()],
            "elapsed_seconds": max(0.0, self._time.now() - facts.began - self._clock.paused),
            **self.figures(),
        }

    def figures(self) -> Message:
        """Return the figures at the top of the page. A blind play's return is None."""
        is_blind = self._facts is None or self._facts.is_blind
        remaining = 0.0
        with contextlib.suppress(OrsError):  # it has ended
            remaining = self._service.remaining_seconds(self.sid, self.owner)
        return {
            "steps": self._steps.count,
            "returned": None if is_blind else self._steps.so_far.value,
            "remaining_seconds": remaining,
            "time_left_seconds": self._clock.time_left,
        }

    # --- recorded steps of a continued episode ----------------------------------------------------

    def run_again(self, rerun: Rerun) -> asyncio.Task[None]:
        """Run recorded steps again. Other calls are refused until this is done.

        The grace time does not run meanwhile: a person who leaves can come back until the session
        expires.
        """
        self.rerun = rerun
        self.start_grace()
        return self._own(self._run_again(rerun))

    async def _run_again(self, rerun: Rerun) -> None:
        await rerun.run()
        if self._facts is not None:
            async with self._lock:
                await self._advance(self._facts)

    # --- calls ------------------------------------------------------------------------------------

    async def call(self, request: wire.ToolCall) -> None:
        """Start a call, unless a call with its task_id is already running.

        Raises: OrsError when the session takes no calls.
        """
        await self._save_pause()
        task_id = request.task_id or ""
        if task_id in self._running:
            return
        if self.rerun is not None and not self.rerun.is_done:
            raise OrsError(
                "The recorded steps are still being run again. Reload the page to see the progress."
            )
        if len(self._running) >= MAX_RUNNING:
            raise OrsError(
                f"{MAX_RUNNING} calls are already running, the maximum. Wait for one of "
                "them to end."
            )
        call = await self._service.call(self.sid, self.owner, None, request)
        running = self._running[task_id] = RunningCall(call, time.monotonic())
        self._own(self._follow(task_id, running))

    async def _save_pause(self) -> None:
        """Note for how long the player was away so far: a call follows, so the pause is within the
        time played."""
        if self._facts is None or (seconds := self._clock.paused) <= self._saved_pause:
            return
        self._saved_pause = seconds
        with contextlib.suppress(Error):  # a call matters more than its time
            await readers().run(save_pause, self._facts.episode.pk, "paused_seconds", seconds)

    async def _note_standstill(self) -> None:
        """Note for the people who run the study since when the clock stands still, or that it
        runs."""
        async with self._noting:
            is_paused = self.is_paused
            if self._facts is not None and is_paused != self._is_noted_paused:
                self._is_noted_paused, since = is_paused, timezone.now() if is_paused else None
                with contextlib.suppress(Error):  # the play matters more
                    await readers().run(save_pause, self._facts.episode.pk, "paused_since", since)

    async def _follow(self, task_id: str, running: RunningCall) -> None:
        call = running.call
        if not await call.wait(QUICK_SECONDS):
            self._send({"type": "running", **running.to_message()})
            while not await call.wait(MAX_WAIT_SECONDS):
                pass
        call.is_delivered = True
        self._running.pop(task_id, None)
        if task_id in self._sent_early:
            self._sent_early.remove(task_id)
        elif not await self._send_rest(task_id):
            return
        if self._steps.is_finished and not self.is_over:
            await self._end()
            self.abandon()

    def _on_step(self, row: StepTaken) -> None:
        """Send a step that was just recorded if it is short and the next one; otherwise `_advance`
        reads it later."""
        if (
            self._facts is None
            or not self._tabs
            or self._lock.locked()
            or not self._steps.is_next(row)
        ):
            return
        self._steps, step = self._steps.with_step(self._facts, row)
        if row.task_id in self._running:
            self._sent_early.add(row.task_id)
        self._send_step(step, self._tabs)

    async def _send_rest(self, task_id: str) -> bool:
        """Send the recorded steps that were not sent yet, the call's own step among them.

        False when no tab has joined yet, or when the record cannot be read.
        """
        if self._facts is None:
            return False
        try:
            async with self._lock:
                task_ids = await self._advance(self._facts)
        except Error:
            self._send_unreadable(task_id)
            return False
        if task_id not in task_ids:  # the step was sent before the call was known to be done
            self._send({"type": "done", "task_id": task_id})
        return True

    async def _advance(self, facts: PlayFacts, joining: Tab | None = None) -> set[str]:
        """Send the steps that were recorded since; return their task_ids. The caller holds `_lock`.

        The tab `joining` gets these steps with the state instead.
        """
        others, task_ids = self._tabs - {joining}, set[str]()
        while True:
            self._steps, steps = await readers().run(self._steps.with_recorded, facts, bool(others))
            task_ids |= {step.task_id for step in steps}
            for step in steps:
                self._send_step(step, others)
            if len(steps) < MAX_STEPS:
                return task_ids

    def _send_step(self, step: PlayStep, tabs: set[Tab]) -> None:
        message = {
            "type": "step",
            "index": step.index,
            "task_id": step.task_id,
            "html": step.html,
            **self.figures(),
        }
        for tab in list(tabs):  # a tab that reads nothing is detached meanwhile
            tab.enqueue(message)
