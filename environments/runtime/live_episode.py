"""The state of one session while it is live: its owner, how far it is, its calls, and the rows to record of it.

SessionService and Sessions change it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import structlog

from environments.authoring.hosted_environment import HostedEnvironment
from environments.errors import REMOTE_ERROR, WORKER_LOST, EnvironmentFault, SessionDeleted
from environments.runtime.call_outcome import (
    CallOutcome,
    Snapshot,
    cut_short,
    failed,
    recorded_outcome,
    refused_after_limit,
    truncate_error,
)
from environments.runtime.calls import Call, Calls
from environments.runtime.crash_notes import NotedCall, hash_of
from environments.runtime.host import PlayedInstance
from environments.runtime.play_counts import EnvironmentCounts
from environments.runtime.quotas import Places
from environments.runtime.records import (
    GOES_ON,
    Cause,
    EpisodeEnded,
    EpisodeNoted,
    EpisodeStarted,
    OpenEpisode,
    RecordedPast,
    SnapshotTaken,
    StepTaken,
    Survival,
)
from environments.runtime.secrets_mask import mask_of
from environments.runtime.session_request import SessionRequest
from environments.runtime.steady_clock import SteadyClock

log = structlog.get_logger(__name__)

State = Literal["dormant", "unbound", "constructing", "setting_up", "ready", "failed", "closing"]
"""A session is dormant from a restart of the server until its client's next request."""

_OURS = frozenset({"deleted", "interrupted", "limit"})
"""Reasons of failed calls for which this server is responsible, not the environment."""

_EXPLAINED = frozenset({REMOTE_ERROR, WORKER_LOST, "timeout"})
"""Reasons of failed calls whose text explains the end of an episode, because it says where and why it failed."""


class LiveEpisode:
    """The state of one session. Used on the event loop only.

    Counts and returns cover the steps with status ok or failed; refused steps are counted separately.
    """

    __slots__ = (
        *("_failed", "_failed_readings", "_first_acted", "_has_failed_last", "_has_noted_prompt"),
        *("_has_noted_ready", "_is_named", "_last_acted", "_last_failure", "_last_reward", "_mask", "_maximum"),
        *("_next_index", "_noted_tools", "_refused", "_remark", "_rewards", "_steps", "_sum", "_waiters", "calls"),
        *("cause", "clock", "closing_cause", "closing_detail", "counts", "detail", "ended", "environment", "fault"),
        *("has_snapshot", "instance", "is_suspended", "key", "last_used", "limit", "lost_calls", "number"),
        *(
            "on_step",
            "owner",
            "past",
            "place",
            "player",
            "ready",
            "request",
            "run",
            "sid",
            "state",
            "survival",
            "timer",
        ),
        *("is_reopened", "is_replayable", "sealed", "secrets", "unsent", "usage", "work"),
    )

    def __init__(self, request: SessionRequest, now: float) -> None:
        self.sid, self.owner, self.player = request.sid, request.owner, request.player
        self.request: SessionRequest | None = request  # None once bound, because it holds the secrets
        self.environment = ""
        self.counts: EnvironmentCounts | None = None  # of the environment, once it is known
        self.instance: PlayedInstance | None = None  # from the start of construction until it is closed
        self.number = 0
        self.state: State = "unbound" if request.environment is None else "constructing"
        self.fault: EnvironmentFault | None = None
        self.calls = Calls()
        self.work: asyncio.Task[Any] | None = None  # construction or setup, while the author's code runs
        self.last_used = now
        self.clock = SteadyClock()  # of every time on the episode's record
        self.ready: float | None = None
        self.ended: float | None = None
        self.cause: Cause | None = None
        self.closing_cause: Cause | None = None  # while the session is being ended
        self.detail = self.closing_detail = self._remark = ""
        self.usage = request.usage
        self.place: Places | None = None  # of an environment that bears a number of sessions only
        self.limit = ""  # why the server has ended the episode although its session is open; completes a sentence
        self.timer: asyncio.TimerHandle | None = None  # ends the episode when the time of its key's quota is over
        self.survival: Survival = None  # how it goes on after a restart of the server
        self.past: asyncio.Task[RecordedPast] | None = None  # of a dormant session, once it is being read
        self.unsent: frozenset[int] = frozenset()  # steps of a dormant session whose results were perhaps not sent
        self.key = ""  # the API key of a dormant session, once its client has sent it
        self.is_replayable = False  # whether its calls can be made again
        self.has_snapshot = False  # whether one is on record
        self.lost_calls: list[NotedCall] = []  # that ran when an earlier server died, and are not made again
        self.is_suspended = False  # whether the server stops, and the next one goes on with the episode
        self.is_reopened = False  # whether its client opens the session again, so that its id stays in use
        self.on_step: Callable[[StepTaken], None] | None = None  # called with each step once it is on record
        self.sealed = b""  # the secrets of a dormant session, encrypted
        self.secrets = request.masked  # what is masked
        self._mask = mask_of(request.masked)
        self.run = self._mask.text(request.run.name) if request.run.name else ""
        self._waiters: list[asyncio.Future[None]] | None = None
        self._next_index = self._steps = self._failed = self._refused = self._rewards = 0
        self._sum = 0.0
        self._maximum: float | None = None
        self._last_reward: float | None = None
        self._first_acted: float | None = None
        self._last_acted: float | None = None
        self._has_failed_last = False
        self._last_failure = ""  # why, if the host says so
        self._failed_readings: dict[str, str] | None = None  # "prompt", "task tools", … -> why the agent did not get it
        self._has_noted_ready = self._has_noted_prompt = False
        self._noted_tools = ""
        self._is_named = bool(request.run.name or request.run.model)

    def get_instance(self) -> PlayedInstance:
        """Return what plays the session. Raises: SessionDeleted when it was closed."""
        if self.instance is None:
            raise SessionDeleted
        return self.instance

    # --- states -------------------------------------------------------------------------------------------------------

    def change(self, state: State) -> None:
        """Enter `state` and wake everyone who waits for a change."""
        self.state = state
        waiters, self._waiters = self._waiters, None
        for waiter in waiters or ():
            if not waiter.done():
                waiter.set_result(None)

    async def wait_for_change(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters = [*(self._waiters or ()), waiter]
        await waiter

    @property
    def is_survivor(self) -> bool:
        """Return whether the next server can go on with the episode after this one has stopped."""
        return self.survival in GOES_ON and self.state != "failed" and self.number > 0 and self.cause is None

    @property
    def repeats_calls(self) -> bool:
        """Return whether the server stops, and the next one makes the calls again that have not ended."""
        return self.is_suspended and self.is_replayable

    # --- after a restart ----------------------------------------------------------------------------------------------

    def continue_from(self, left: OpenEpisode) -> None:
        """Become dormant, with what is known about an episode that an earlier server left running."""
        self.state, self.request, self.survival = "dormant", None, left.survival
        self.environment, self.number, self.ready = left.environment, left.number, left.ready
        self._is_named, self.unsent, self.lost_calls = left.is_named, left.unsent, list(left.running)
        self.sealed = left.sealed
        self._has_noted_prompt, self._has_noted_ready = left.has_prompt, left.ready is not None

    def recount(self, step: StepTaken) -> None:
        """Count a step that an earlier server has recorded."""
        self._next_index = step.index + 1
        self.calls.note_used(step.task_id)
        completed = step.started + (step.waited_ms + step.duration_ms) / 1000
        self._count(recorded_outcome(step), step.started, completed)

    def mask_further(self, secrets: tuple[str, ...]) -> None:
        """Mask these secrets too, of a session that an earlier server has started."""
        self.secrets += secrets
        self._mask = mask_of(self.secrets)

    def masked_outcome(self, outcome: CallOutcome) -> CallOutcome:
        """Return an outcome as `step_row` records it."""
        output_json = None if outcome.output_json is None else self.mask_json(outcome.output_json)
        error, reason = self.mask_text(outcome.error), self._mask.text(outcome.reason)
        return CallOutcome(outcome.status, output_json, outcome.reward, outcome.finished, error, reason)

    def mask_json(self, text: str) -> str:
        """Return the JSON text without secrets."""
        return self._mask.json(text)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def started_row(
        self, request: SessionRequest, hosted: HostedEnvironment, spec_json: str, now: float
    ) -> EpisodeStarted:
        mask = self._mask
        self._noted_tools, self.is_replayable = hosted.tools_json, hosted.replayable
        run, session_id = request.run, mask.text(self.sid)
        self.survival = request.survival(hosted) if session_id == self.sid else None
        if run.name or run.model or run.labels_json:
            model, labels, own_id = mask.text(run.model), run.labels_json, mask.text(run.own_id)
            run = replace(run, name=self.run, model=model, labels_json=labels and mask.json(labels), own_id=own_id)
        return EpisodeStarted(
            episode=self.number,
            environment=self.environment,
            split=request.split,
            index=request.index,
            spec_json=spec_json if request.spec is None and not request.reads_tasks else mask.json(spec_json),
            tools_json=hosted.tools_json,
            session_id=session_id,
            user_agent=mask.text(request.user_agent),
            key_label=self.owner,
            player=request.player,
            run=run,
            created=now,
            revision=hosted.revision,
            is_sent=request.is_sent,
            survival=self.survival,
            sealed=request.sealed if self.survival == "sealed" else b"",
        )

    def noted_row(self, *, prompt_json: str | None = None, tools_json: str | None = None) -> EpisodeNoted | None:
        """Return a row with what has become known and is not recorded yet, or None if there is nothing.

        Of the prompt only the first version is recorded, of the tools every change.
        """
        if prompt_json is not None:
            prompt_json = None if self._has_noted_prompt else self._mask.json(prompt_json)
            self._has_noted_prompt = True
        if tools_json is not None:
            tools_json = None if tools_json == self._noted_tools else tools_json
            self._noted_tools = tools_json or self._noted_tools
            tools_json = tools_json and self._mask.json(tools_json)
        ready = self.ready if not self._has_noted_ready else None
        if ready is None and prompt_json is None and tools_json is None:
            return None
        self._has_noted_ready = self._has_noted_ready or ready is not None
        return EpisodeNoted(self.number, ready, prompt_json, tools_json)

    def step_row(self, call: Call, outcome: CallOutcome, arrived: float, started: float, now: float) -> StepTaken:
        """Count a completed call and return its row. Between `arrived` and `started` the call waited for setup."""
        mask = self._mask
        index = self._next_index
        self._next_index += 1
        self._count(outcome, started, now)
        queued_ms = outcome.waited_ms
        input_json = self.recorded_input(call)
        output_json = None if outcome.output_json is None else mask.json(outcome.output_json)
        self.usage.record(len(input_json) + len(output_json or outcome.error), now)
        return StepTaken(
            episode=self.number,
            index=index,
            tool=mask.text(call.tool),
            input_json=input_json,
            output_json=output_json,
            reward=outcome.reward,
            finished=outcome.finished,
            status=outcome.status,
            error=self.mask_text(outcome.error),
            reason=mask.text(outcome.reason),
            task_id=mask.text(call.task_id),
            started=started,
            duration_ms=max(0.0, (now - started) * 1000 - queued_ms),
            waited_ms=max(0.0, (started - arrived) * 1000) + queued_ms,
            input_digest=call.input_digest,
        )

    def snapshot_row(self, index: int, snapshot: Snapshot) -> SnapshotTaken | None:
        """Return the row of a snapshot that contains all steps up to `index`; None if it is of no use."""
        if self.survival not in GOES_ON or self.cause is not None:
            return None
        state, problem = snapshot.state, self.mask_text(snapshot.problem.rstrip("."))
        if state and self._mask.text(text := state.decode("utf-8", "surrogateescape")) != text:
            state, problem = b"", "what save() returned contains a secret of the session"
        if problem:
            log.warning("a snapshot was not kept", episode=self.number, step=index, reason=problem)
        self.has_snapshot = True
        return SnapshotTaken(self.number, index, state, problem)

    def take_lost(self, call: Call) -> bool:
        """Return whether the call is one that ran when an earlier server died; its answer says so once."""
        digest = hash_of(self.recorded_input(call))
        found = next((one for one in self.lost_calls if (one.what, one.input_hash) == (call.tool, digest)), None)
        if found is not None:
            self.lost_calls.remove(found)
        return found is not None

    def recorded_input(self, call: Call) -> str:
        """Return the JSON text of a call's arguments as it is recorded, without secrets; made once."""
        if not call.input_json:
            call.input_json = self._mask.json(call.arguments_json)
        return call.input_json

    def reach_limit(self) -> str:
        """Return why the episode ends with the step that was just made, and set `limit`; empty if it may go on."""
        if self.limit:  # its time is over, and its end is about to be recorded
            return ""
        self.limit = self.usage.limit_of_steps(self._next_index)
        return self.limit

    def _count(self, outcome: CallOutcome, started: float, now: float) -> None:
        self._last_acted = now
        if self._first_acted is None:
            self._first_acted = started
        if outcome.status == "refused":
            self._refused += 1
            return
        self._steps += 1
        self._failed += outcome.status == "failed"
        self._has_failed_last = outcome.status == "failed" and outcome.reason not in _OURS
        if outcome.status == "failed":
            self._last_failure = outcome.error if outcome.reason in _EXPLAINED else ""
        self._failed_readings = None
        if outcome.status == "ok" and outcome.reason and self.player != "human":  # see NO_NUMBER
            self._remark = f" Step {self._next_index - 1}: {outcome.reason}."
        if (reward := outcome.reward) is not None:
            self._rewards += 1
            self._sum += reward
            self._last_reward = reward
            self._maximum = reward if self._maximum is None else max(self._maximum, reward)

    def note_reading(self, what: str, fault: EnvironmentFault | None) -> None:
        """Store whether the agent's last request for `what` (the prompt, the task tools, …) failed with a fault."""
        if fault is None:
            if self._failed_readings is not None:
                self._failed_readings.pop(what, None)
        elif self.state != "closing":  # a fault during teardown may be caused by the teardown
            self._failed_readings = {**(self._failed_readings or {}), what: f"{what} failed: {fault}"}

    def leave(self, cause: Cause, now: float, detail: str = "") -> EpisodeEnded:
        """Set the cause of the session's end, and return its row.

        For an agent that leaves right after the environment failed, the cause is that failure.
        """
        if cause not in ("abandoned", "expired"):
            return self.end(cause, now, detail)
        if self._failed_readings:
            return self.end("env_error", now, next(iter(self._failed_readings.values())))
        if self._has_failed_last:
            return self.end("env_error", now, detail or self._last_failure)
        return self.end(cause, now, detail)

    def end(self, cause: Cause, now: float, detail: str = "") -> EpisodeEnded:
        """Set the ending unless there already is one, and return its row."""
        if self.cause is None:
            self.cause, self.ended, self.detail = cause, now, self.mask_text(f"{detail}{self._remark}".strip())
            if self.counts is not None:
                self.counts.count_ending(cause)
        return self.ended_row()

    def ended_row(self) -> EpisodeEnded:
        """Return the row of the ending with the current counts, which include calls refused after the end."""
        assert self.cause is not None and self.ended is not None
        return EpisodeEnded(
            episode=self.number,
            cause=self.cause,
            detail=self.detail,
            player=self.player,
            is_named=self._is_named,
            has_prompt=self._has_noted_prompt,
            ended=self.ended,
            steps=self._steps,
            failed=self._failed,
            refused=self._refused,
            return_sum=self._sum,
            return_last=self._last_reward,
            return_max=self._maximum,
            return_mean=None if self._maximum is None else min(self._sum / self._rewards, self._maximum),
            ready=self.ready,
            first_acted=self._first_acted,
            last_acted=self._last_acted,
            has_snapshot=self.has_snapshot,
            has_sealed=self.survival == "sealed",
        )

    @property
    def limit_sentence(self) -> str:
        return f"It was ended, because {self.limit}."

    def refusal(self, tool: str) -> CallOutcome:
        """Return the outcome of a call that came after `limit` was reached."""
        return refused_after_limit(tool, self.limit)

    def cut_short(self) -> CallOutcome:
        """Return the outcome of a call that the end of its session, a limit or the tool itself has stopped."""
        if self.state == "closing":
            return cut_short(self.closing_cause, self.closing_detail)
        if self.limit:
            return failed(self.limit_sentence, "limit")
        return failed("CancelledError", "CancelledError")

    @property
    def masked_sid(self) -> str:
        """Return the session id without secrets, for the log."""
        return self._mask.text(self.sid)

    def mask_text(self, text: str) -> str:
        """Return `text` without the session's secrets and truncated, for the log, the record and the agent."""
        return text and truncate_error(self._mask.text(text))

    def masked_failure(self, outcome: CallOutcome) -> CallOutcome:
        """Return `outcome`, with the session's secrets masked in its error and traceback if it is a failure."""
        if outcome.status != "failed":
            return outcome
        return replace(outcome, error=self.mask_text(outcome.error), trace=self.mask_text(outcome.trace))

    def masked(self, fault: EnvironmentFault) -> EnvironmentFault:
        """Return `fault` without the session's secrets."""
        return EnvironmentFault(fault.kind, self.mask_text(fault.text), self.mask_text(fault.trace))
