"""What becomes of a call that was started: it waits for its session and its turn, runs, is
recorded, and is answered.

The result of a call is sent only after its step is durable. `service.py` starts and rejoins calls.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial

import structlog

from environments import wire
from environments.errors import EnvironmentFault, OrsError, OverQuota, SessionDeleted
from environments.fair_turns import KEY
from environments.runtime.call_outcome import (
    CUT,
    QUOTA,
    CallOutcome,
    CallResult,
    failed,
    faulted,
    refused,
    refused_after_limit,
)
from environments.runtime.call_table import Call, LingeringCalls
from environments.runtime.fault_log import log_failed_call
from environments.runtime.records import GOES_ON, Record, Row, StepTaken
from environments.runtime.session import Session
from environments.runtime.session_life import SessionLife
from environments.runtime.session_states import READY, Over, ended_by

log = structlog.get_logger(__name__)

LOST = (
    "The server ended while the call ran, and its environment does not allow to make a call again."
)
"""The answer to a client that repeats such a call."""


class ToolCalls:
    """Runs the calls of every session on one event loop."""

    def __init__(self, life: SessionLife, record: Record, lingering: LingeringCalls) -> None:
        self._life, self._record, self._lingering = life, record, lingering
        self._crash_notes = life.crash_notes

    async def run(self, session: Session, call: Call, path_environment: str | None) -> None:
        """Run a call in its session, record the step, and answer it, which wakes `Call.wait`."""
        episode, usage = session.episode, session.usage
        arrived_at = episode.clock.now()
        started_at: float | None = None  # None: the call never reached the environment
        KEY.set(session.owner)
        try:
            if session.state is not READY:
                await self._life.bind_late(session, path_environment)
                # another request may have bound it in the meantime
                session.check_path(path_environment)
                await self._life.until_ready(session)
                started_at = episode.clock.now()
            else:
                started_at = arrived_at
            if not usage.enter_call():
                await usage.wait_to_enter_call(self._life.limits.quota_call_wait_seconds)
                started_at = episode.clock.now()
            try:
                outcome = await self._play(session, call)
            finally:
                usage.calls.leave()
        # the session has ended, or a tool cancelled its own task
        except (asyncio.CancelledError, SessionDeleted):
            outcome = session.cut_short()
        except OverQuota as error:
            outcome = refused(str(error), QUOTA)
        except EnvironmentFault as fault:
            outcome = faulted(fault)
        # the session could not be bound, so the environment never got the call
        except OrsError as error:
            self._answer(session, call, CallResult("error", str(error)))
            return
        except Exception as error:
            log.exception(
                "a call failed inside the server",
                session=episode.masked_sid,
                episode=episode.number,
            )
            outcome = failed(f"Internal error of the server: {type(error).__name__}", "internal")
        self._take_step(session, call, outcome, arrived_at, started_at)

    async def _play(self, session: Session, call: Call) -> CallOutcome:
        """Let the environment run a call whose turn it is. While it does, a note says so that
        outlives a crash."""
        episode = session.episode
        call.input_json = episode.masked_input(call)
        if isinstance(session.state, Over):
            return refused_after_limit(call.tool, session.state.limit)
        if session.calls.lost and session.calls.take_lost(call):
            return failed(LOST, "interrupted")
        note = self._crash_notes.note(
            episode.number, episode.environment, call.tool, call.input_json
        )
        call.input_digest = note.input_digest
        if episode.survival in GOES_ON:
            call.note, note.is_kept = note, True
        with note:
            return await session.get_instance().run(call.tool, call.arguments)

    def _take_step(
        self,
        session: Session,
        call: Call,
        outcome: CallOutcome,
        arrived_at: float,
        started_at: float | None,
    ) -> None:
        """Record the step. The call is answered when the step is committed."""
        if call.result is not None:  # it was answered when the session ended
            call.forget_note()
            return
        episode, errors = session.episode, self._life.limits.return_errors
        # the next server makes the call
        if outcome.reason == "interrupted" and session.repeats_calls:
            call.forget_note()
            self._answer(session, call, CUT)
            return
        if outcome.status == "failed":
            outcome = episode.masked_failure(outcome)
        if not episode.number:  # deleted before it was bound
            self._answer(session, call, outcome.result(errors))
            return
        now = episode.clock.now()
        step = episode.step_row(
            call, outcome, arrived_at, now if started_at is None else started_at, now
        )
        if call.note is not None:
            call.note.note_step(step.episode, step.index)
        rows: list[Row] = [step]
        if outcome.snapshot is not None:
            snapshot_row = episode.snapshot_row(step.index, outcome.snapshot)
            if snapshot_row is not None:
                rows.append(snapshot_row)
        if (note := episode.noted_row()) is not None:  # after the first call: when it became ready
            rows.insert(0, note)
        if outcome.finished:
            rows.append(episode.end("finished", now))
        elif episode.ending is not None:
            rows.append(episode.ended_row())
        elif session.state is READY and (limit := session.usage.limit_of_steps(step.index + 1)):
            rows.append(episode.end("expired", now, ended_by(limit)))
            self._life.run_in_background(self._life.end_episode(session, limit))
        if outcome.status == "failed":
            fault = EnvironmentFault(outcome.reason, outcome.error, outcome.trace)
            log_failed_call(episode, step.index, call.tool, fault)
        result = outcome.result(errors)
        # to the thread of `episodes/recording/writer.py`, which commits them
        self._record.record(*rows, on_commit=partial(self._answer, session, call, result, step))

    def _answer(
        self, session: Session, call: Call, result: CallResult, step: StepTaken | None = None
    ) -> None:
        now = time.monotonic()
        session.last_used = now
        if step is not None and session.episode.counts is not None:
            session.episode.counts.count_call(step.status, step.reason, now - call.arrived_at)
        session.calls.running.discard(call)
        call.finish(result)
        self._lingering.add(call, session.calls, now)
        if step is not None and session.on_step is not None:
            session.on_step(step)

    async def score(
        self, session: Session, call: Call, candidates: list[wire.GroupCandidate]
    ) -> None:
        """Score a group, and answer the call."""
        errors = self._life.limits.return_errors
        try:
            await self._life.until_ready(session)
            scores = await self._life.read(
                session, "group score", session.get_instance().score(candidates)
            )
            result = CallResult("end", scores)
        except (asyncio.CancelledError, SessionDeleted):
            result = CUT if session.is_suspended else session.cut_short().result(errors)
        except EnvironmentFault as fault:
            result = faulted(fault).result(errors)
        except Exception as error:
            log.exception(
                "a group was not scored",
                session=session.episode.masked_sid,
                episode=session.episode.number,
            )
            result = CallResult("error", f"Internal error of the server: {type(error).__name__}")
        self._answer(session, call, result)
