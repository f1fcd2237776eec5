"""SessionService: the one door to live play, for the protocol and for people alike.

Opens and ends sessions, starts and rejoins calls, hands out prompts and tools, and reports every step to the Record. A
call's result is handed out only after its step is durable.

Divergence from the references: results that were recorded are told by their task_id after the linger too, when the
session is gone, and by another server on the same record.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import structlog

from environments import wire
from environments.authoring.registry import Registry
from environments.errors import EnvironmentFault, InvalidRequest, OrsError, SessionDeleted, SessionNotFound, Unsupported
from environments.runtime.calls import Call, Lingering
from environments.runtime.fault_log import log_failure, log_fault
from environments.runtime.host import Host
from environments.runtime.ids import new_task_id
from environments.runtime.limits import Limits
from environments.runtime.live_episode import LiveEpisode, NewSession
from environments.runtime.outcome import CallOutcome, CallResult, cut_short, failed, faulted, told
from environments.runtime.records import Record, Row, StepTaken, TaskSource
from environments.runtime.sessions import REAP_SECONDS, Sessions, check_alive, check_path, is_closing
from environments.runtime.task_trial import Trial, try_out

log = structlog.get_logger(__name__)

LONGEST_TASK_ID = 255


class SessionService:
    """Used from one event loop; `open` before and `drain` after everything else.

    Every method that takes `sid` and `owner` raises SessionNotFound for an unknown session and for another key's.
    `named` is the environment that the request's path names, or None.
    """

    def __init__(self, registry: Registry, tasks: TaskSource, record: Record, host: Host, limits: Limits) -> None:
        self.registry, self.tasks, self.limits = registry, tasks, limits
        self._record, self._host = record, host
        self._sessions = Sessions(registry, tasks, record, host, limits)
        self._lingering = Lingering(limits.result_linger_seconds, limits.max_linger_bytes)

    def open(self) -> None:
        """Start expiring idle sessions and forgetting old results."""
        self._sessions.own(self._sessions.reap())
        self._sessions.own(self._sweep())

    async def drain(self, seconds: float) -> None:
        """Let running calls end, then end every session as interrupted; `seconds` at most."""
        await self._sessions.drain(seconds)

    @property
    def live_sessions(self) -> int:
        return len(self._sessions.live)

    async def try_out(self, environment: str, spec: Any, seconds: float) -> Trial:
        """See `trial.try_out`. The draining server gives it up. Raises: UnknownEnvironment."""
        name = self.registry.get(environment).name
        trial: Trial = await self._sessions.own(try_out(self._host, name, spec, seconds))
        return trial

    # --- sessions -----------------------------------------------------------------------------------------------------

    async def create(self, request: NewSession) -> None:
        """See `Sessions.create`."""
        await self._sessions.create(request)

    def ping(self, sid: str, owner: str) -> None:
        """Raises: SessionNotFound, for a session that is ending too."""
        episode = self._sessions.find(sid, owner)
        if is_closing(episode):
            raise SessionNotFound
        episode.touched = time.monotonic()

    async def delete(self, sid: str, owner: str) -> None:
        """End the session as abandoned unless it has ended otherwise. Unknown ids are none of our business."""
        if sid in self._sessions.live:
            await self._sessions.close(self._sessions.find(sid, owner), "abandoned")

    async def _enter(self, sid: str, owner: str, named: str | None) -> LiveEpisode:
        """The session, bound and touched."""
        episode = self._sessions.find(sid, owner)
        check_path(episode, named)
        episode.touched = time.monotonic()
        await self._sessions.bind_late(episode, named)
        check_alive(episode)
        check_path(episode, named)  # another request may have bound it meanwhile
        return episode

    def remaining_seconds(self, sid: str, owner: str) -> float:
        """Until the session expires, unless it is used before; a running call keeps it for as long as it runs."""
        episode = self._sessions.find(sid, owner)
        idle = 0.0 if episode.calls.running else time.monotonic() - episode.touched
        return max(0.0, self.limits.session_timeout_seconds - idle)

    async def until_gone(self, sid: str, owner: str) -> None:
        """Return once the session has ended and its end is on record."""
        await self._sessions.until_gone(self._sessions.find(sid, owner))

    def follow(self, sid: str, owner: str, on_step: Callable[[StepTaken], None]) -> None:
        """From now on `on_step` is called with each step of a call, in order, once it is on record.

        Raises: SessionNotFound.
        """
        self._sessions.find(sid, owner).on_step = on_step

    def check(self, sid: str, owner: str) -> None:
        """Raises: what any use of the session would raise now; used before a body's types are judged."""
        check_alive(self._sessions.find(sid, owner))

    # --- reading ------------------------------------------------------------------------------------------------------

    async def prompt_json(self, sid: str, owner: str, named: str | None) -> str:
        """JSON array of blocks. Raises: EnvironmentFault, SessionDeleted, SessionStarting."""
        episode = await self._enter(sid, owner, named)
        await self._sessions.until_ready(episode, self.limits.setup_wait_seconds)
        prompt = await _read(episode, "prompt", self._host.prompt_json(sid))
        self._note(episode, prompt_json=prompt)
        return prompt

    async def messages_json(self, sid: str, owner: str, named: str | None) -> str:
        """JSON array of messages. Raises: as `prompt_json`."""
        episode = await self._enter(sid, owner, named)
        await self._sessions.until_ready(episode, self.limits.setup_wait_seconds)
        messages = await _read(episode, "prompt", self._host.messages_json(sid))
        self._note(episode, prompt_json=messages)
        return messages

    async def task_tools_json(self, sid: str, owner: str, named: str | None) -> str:
        """JSON of ListToolsOutput; does not wait for setup. Raises: EnvironmentFault."""
        episode = await self._enter(sid, owner, named)
        tools = await _read(episode, "task tools", self._host.task_tools_json(sid))
        self._note(episode, tools_json=tools)
        return tools

    def _note(self, episode: LiveEpisode, *, prompt_json: str | None = None, tools_json: str | None = None) -> None:
        """Record what was handed out. Not waited for: it is durable before the episode's next step is."""
        note = episode.noted_row(prompt_json=prompt_json, tools_json=tools_json)
        if note is not None:
            self._record.record(note)

    # --- calls --------------------------------------------------------------------------------------------------------

    async def call(self, sid: str, owner: str, named: str | None, request: wire.ToolCall) -> Call:
        """Start a tool call, or rejoin it by its task_id, or tell a recorded one again. Never runs a call twice.

        Raises: SessionNotFound, OtherEnvironment, SessionDeleted, EnvironmentFault (setup has failed), InvalidRequest.
        """
        task_id = _checked(request.task_id)
        try:
            episode = self._sessions.find(sid, owner)
        except SessionNotFound:
            recalled = await self._recall(sid, owner, task_id) if task_id else None
            if recalled is None:
                raise
            return recalled
        check_path(episode, named)
        episode.touched = time.monotonic()
        calls = episode.calls
        if task_id and calls.is_used(task_id):
            return calls.find(task_id) or await self._recall(sid, owner, task_id) or _unknown_task_id()
        check_alive(episode)
        call = None if task_id else await calls.adopt(request.name, request.input)
        check_alive(episode)
        if call is None:
            call = calls.start(task_id or new_task_id(), request.name, request.input)
            call.task = asyncio.get_running_loop().create_task(self._run(episode, call, named))
        return call

    def tell(self, sid: str, call: Call) -> None:
        """A reader of `call` is told by a stream; `leave` when it has gone."""
        episode = self._sessions.live.get(sid)
        if episode is not None:
            episode.calls.told.add(call)

    def leave(self, sid: str, call: Call) -> None:
        """A reader of `call` has gone."""
        episode = self._sessions.live.get(sid)
        if episode is not None:
            episode.calls.leave(call)

    async def _recall(self, sid: str, owner: str, task_id: str) -> Call | None:
        recalled = await self._record.recall(sid, owner, task_id)
        if recalled is None:
            return None
        outcome = CallOutcome(recalled.status, recalled.output_json, error=recalled.error, reason=recalled.reason)
        call = Call(task_id, "", {})
        call.finish(told(outcome, self.limits.return_errors))
        return call

    async def _run(self, episode: LiveEpisode, call: Call, named: str | None) -> None:
        arrived = time.time()
        started: float | None = None  # None: it never came to that
        try:
            if episode.state != "ready":
                await self._sessions.bind_late(episode, named)
                check_path(episode, named)  # another request may have bound it meanwhile
                await self._sessions.until_ready(episode)
                started = time.time()
            else:
                started = arrived
            outcome = await self._host.run(episode.sid, call.tool, call.arguments)
        except (asyncio.CancelledError, SessionDeleted):  # the session's end, or a tool that cancelled its own task
            is_over = episode.state == "closing"
            outcome = cut_short(episode.closing_cause) if is_over else failed("CancelledError", "CancelledError")
        except EnvironmentFault as fault:
            outcome = faulted(fault)
        except OrsError as error:  # the late binding was refused; the environment never saw the call
            self._answer(episode, call, CallResult("error", str(error)))
            return
        except Exception as error:
            log.exception("a call failed inside the server", session=episode.shown_sid, episode=episode.number)
            outcome = failed(f"Internal error of the server: {type(error).__name__}", "internal")
        self._take_step(episode, call, outcome, arrived, started)

    def _take_step(
        self, episode: LiveEpisode, call: Call, outcome: CallOutcome, arrived: float, started: float | None
    ) -> None:
        """Record the step; the commit answers the call."""
        if call.result is not None:  # given up when the session ended
            return
        outcome = episode.masked_failure(outcome)
        if not episode.number:  # deleted before it was bound
            self._answer(episode, call, told(outcome, self.limits.return_errors))
            return
        now = time.time()
        step = episode.step_row(call, outcome, arrived, now if started is None else started, now)
        rows: list[Row] = [step]
        if (note := episode.noted_row()) is not None:
            rows.insert(0, note)
        if outcome.finished:
            rows.append(episode.end("finished", now))
        elif episode.cause is not None:
            rows.append(episode.ended_row())
        if outcome.status == "failed":
            about = {"tool": episode.mask_text(call.tool), "reason": outcome.reason}
            log_failure("tool call failed", episode, outcome.error, outcome.trace, **about)
        result = told(outcome, self.limits.return_errors)
        self._record.record(*rows, committed=partial(self._answer, episode, call, result, step))

    def _answer(self, episode: LiveEpisode, call: Call, result: CallResult, step: StepTaken | None = None) -> None:
        now = time.monotonic()
        episode.touched = now
        episode.calls.running.discard(call)
        call.finish(result)
        self._lingering.add(call, episode.calls, now)
        if step is not None and episode.on_step is not None:
            episode.on_step(step)

    async def _sweep(self) -> None:
        """Forever: forget results that have lingered long enough."""
        while True:
            await asyncio.sleep(min(REAP_SECONDS, self.limits.result_linger_seconds / 2))
            self._lingering.sweep(time.monotonic())

    # --- group scores -------------------------------------------------------------------------------------------------

    async def score_group(self, sid: str, owner: str, named: str | None, request: wire.ScoreGroup) -> Call:
        """Start or rejoin the scoring of a group. Scores are no steps: they are not recorded.

        Raises: Unsupported, and what `call` raises.
        """
        task_id = _checked(request.task_id)
        episode = await self._enter(sid, owner, named)
        if not self.registry.get(episode.environment).supports_score_group:
            raise Unsupported(f"Environment {episode.environment!r} does not implement score_group")
        calls = episode.calls
        if task_id and calls.is_used(task_id):
            return calls.find(task_id) or _unknown_task_id()
        arguments = request.model_dump(include={"candidates"})
        call = None if task_id else await calls.adopt("/score_group", arguments)
        check_alive(episode)
        if call is None:
            call = calls.start(task_id or new_task_id(), "/score_group", arguments)
            call.task = asyncio.get_running_loop().create_task(self._score(episode, call, request.candidates))
        return call

    async def _score(self, episode: LiveEpisode, call: Call, candidates: list[wire.GroupCandidate]) -> None:
        try:
            await self._sessions.until_ready(episode)
            result = CallResult("end", await _read(episode, "group score", self._host.score(episode.sid, candidates)))
        except (asyncio.CancelledError, SessionDeleted):
            result = told(cut_short(episode.closing_cause), self.limits.return_errors)
        except EnvironmentFault as fault:
            result = told(faulted(fault), self.limits.return_errors)
        except Exception as error:
            log.exception("a group was not scored", session=episode.shown_sid, episode=episode.number)
            result = CallResult("error", f"Internal error of the server: {type(error).__name__}")
        self._answer(episode, call, result)


async def _read(episode: LiveEpisode, what: str, answer: Awaitable[str]) -> str:
    """What the environment answers. A fault is logged, and kept for an ending right after it.

    Raises: EnvironmentFault without the session's secrets.
    """
    try:
        told = await answer
    except EnvironmentFault as fault:
        log_fault(f"{what} failed", episode, fault)
        episode.note_reading(what, fault)
        raise episode.masked(fault) from None
    episode.note_reading(what, None)
    return told


def _checked(task_id: str | None) -> str:
    """Empty: the client chose none. Raises: InvalidRequest."""
    if task_id and len(task_id) > LONGEST_TASK_ID:
        raise InvalidRequest(f"task_id has {len(task_id)} characters; at most {LONGEST_TASK_ID} are allowed")
    return task_id or ""


def _unknown_task_id() -> Call:
    """A stream that has no task_id event, only the error."""
    call = Call("", "", {})
    call.finish(CallResult("error", "unknown task_id"))
    return call
