"""The episode of a live session: its rows for the record, without secrets, and the counts over its
steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import structlog

from environments.authoring.hosted_environment import HostedEnvironment
from environments.errors import REMOTE_ERROR, WORKER_LOST, EnvironmentFault
from environments.runtime.call_outcome import (
    CallOutcome,
    Snapshot,
    recorded_outcome,
    truncate_error,
)
from environments.runtime.call_table import Call
from environments.runtime.play_counts import EnvironmentCounts
from environments.runtime.records import (
    GOES_ON,
    Cause,
    EpisodeEnded,
    EpisodeNoted,
    EpisodeStarted,
    OpenEpisode,
    SnapshotTaken,
    StepTaken,
    Survival,
)
from environments.runtime.secrets_mask import mask_of
from environments.runtime.session_request import SessionRequest
from environments.runtime.steady_clock import SteadyClock

log = structlog.get_logger(__name__)

_OURS = frozenset({"deleted", "interrupted", "limit"})
"""Reasons of failed calls that this server caused, not the environment."""

_EXPLAINED = frozenset({REMOTE_ERROR, WORKER_LOST, "timeout"})
"""Reasons of failed calls whose text says where and why, so that it explains the end of an
episode."""


@dataclass(slots=True)
class EpisodeTally:
    """The counts over the steps of an episode.

    Counts and returns cover the steps with status ok or failed; refused steps are counted
    separately.
    """

    next_index: int = 0
    steps: int = 0
    failed: int = 0
    refused: int = 0
    rewards: int = 0
    reward_sum: float = 0.0
    reward_max: float | None = None
    last_reward: float | None = None
    acted_first: float | None = None
    acted_last: float | None = None
    has_failed_last: bool = False
    last_failure: str = ""
    """Why the last step failed, if the host says so."""
    failed_readings: dict[str, str] | None = None
    """Requests of the agent since the last step that failed, such as of the prompt, and why."""
    remark: str = ""
    """About the latest step whose reward was no number."""

    def count(self, outcome: CallOutcome, started_at: float, now: float) -> int:
        """Count the step of a call that has ended, and return its index."""
        index = self.next_index
        self.next_index += 1
        self.acted_last = now
        if self.acted_first is None:
            self.acted_first = started_at
        if outcome.status == "refused":
            self.refused += 1
            return index
        self.steps += 1
        has_failed = outcome.status == "failed"
        self.failed += has_failed
        self.has_failed_last = has_failed and outcome.reason not in _OURS
        if has_failed:
            self.last_failure = outcome.error if outcome.reason in _EXPLAINED else ""
        self.failed_readings = None
        if outcome.status == "ok" and outcome.reason:  # see NO_NUMBER
            self.remark = f" Step {index}: {outcome.reason}."
        if (reward := outcome.reward) is not None:
            self.rewards += 1
            self.reward_sum += reward
            self.last_reward = reward
            self.reward_max = reward if self.reward_max is None else max(self.reward_max, reward)
        return index

    def note_reading(self, what: str, fault: EnvironmentFault | None) -> None:
        """Store the fault of the agent's last request for `what` (prompt, task tools, …), or that it
        worked."""
        if fault is None:
            if self.failed_readings is not None:
                self.failed_readings.pop(what, None)
        else:
            self.failed_readings = {**(self.failed_readings or {}), what: f"{what} failed: {fault}"}


@dataclass(frozen=True, slots=True)
class Ending:
    """How an episode has ended."""

    cause: Cause
    detail: str
    time: float


class LiveEpisode:
    """The episode of one live session. On the event loop only."""

    def __init__(self, request: SessionRequest) -> None:
        self.sid = request.sid
        self.owner = request.owner
        self.player = request.player
        self.usage = request.usage
        self.environment = ""  # until the session is bound to one
        self.number = 0
        self.counts: EnvironmentCounts | None = None  # of the environment, once it is known
        self.clock = SteadyClock()  # of every time on the episode's record
        self.ready: float | None = None
        self.ending: Ending | None = None
        self.survival: Survival = None  # how it goes on after a restart of the server
        self.is_replayable = False  # whether its calls can be made again
        self.has_snapshot = False  # whether one is on record
        self.secrets = request.masked_texts
        self._mask = mask_of(self.secrets)
        self.run = self._mask.text(request.run.name) if request.run.name else ""
        self.tally = EpisodeTally()
        self._has_noted_ready = self._has_noted_prompt = False
        self._noted_tools = ""
        self._is_named = bool(request.run.name or request.run.model)

    # --- after a restart --------------------------------------------------------------------------

    def continue_from(self, past: OpenEpisode) -> None:
        """Go on with an episode that an earlier server left running."""
        self.environment, self.number, self.survival = past.environment, past.number, past.survival
        self.ready, self._has_noted_ready = past.ready, past.ready is not None
        self._is_named, self._has_noted_prompt = past.is_named, past.has_prompt

    def recount(self, step: StepTaken) -> None:
        """Count a step that an earlier server has recorded."""
        end = step.started + (step.waited_ms + step.duration_ms) / 1000
        self.tally.next_index = step.index
        self.tally.count(recorded_outcome(step), step.started, end)

    def mask_further(self, secrets: tuple[str, ...]) -> None:
        """Mask these secrets too; for a session that an earlier server has started."""
        self.secrets += secrets
        self._mask = mask_of(self.secrets)

    def masked_outcome(self, outcome: CallOutcome) -> CallOutcome:
        """Return an outcome as `step_row` records it."""
        output_json = None if outcome.output_json is None else self.mask_json(outcome.output_json)
        error, reason = self.mask_text(outcome.error), self._mask.text(outcome.reason)
        return CallOutcome(
            outcome.status, output_json, outcome.reward, outcome.finished, error, reason
        )

    def mask_json(self, text: str) -> str:
        """Return the JSON text without secrets."""
        return self._mask.json(text)

    # --- rows -------------------------------------------------------------------------------------

    def started_row(
        self, request: SessionRequest, environment: HostedEnvironment, spec_json: str, now: float
    ) -> EpisodeStarted:
        mask = self._mask
        self._noted_tools, self.is_replayable = environment.tools_json, environment.replayable
        run, session_id = request.run, mask.text(self.sid)
        self.survival = request.survival(environment) if session_id == self.sid else None
        if run.name or run.model or run.labels_json:
            run = replace(
                run,
                name=self.run,
                model=mask.text(run.model),
                labels_json=run.labels_json and mask.json(run.labels_json),
                own_id=mask.text(run.own_id),
            )
        if request.spec is not None or request.reads_tasks:
            spec_json = mask.json(spec_json)
        return EpisodeStarted(
            episode=self.number,
            environment=self.environment,
            split=request.split,
            index=request.index,
            spec_json=spec_json,
            tools_json=environment.tools_json,
            session_id=session_id,
            user_agent=mask.text(request.user_agent),
            key_label=self.owner,
            player=request.player,
            run=run,
            created=now,
            revision=environment.revision,
            is_sent=request.is_sent,
            survival=self.survival,
            sealed=request.sealed if self.survival == "sealed" else b"",
        )

    def noted_row(
        self, *, prompt_json: str | None = None, tools_json: str | None = None
    ) -> EpisodeNoted | None:
        """Return a row with what is known and not recorded yet; None if there is nothing.

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

    def step_row(
        self, call: Call, outcome: CallOutcome, arrived_at: float, started_at: float, now: float
    ) -> StepTaken:
        """Count a completed call and return its row. Between `arrived_at` and `started_at` the call
        waited for setup."""
        mask = self._mask
        index = self.tally.count(outcome, started_at, now)
        queued_ms = outcome.waited_ms
        # a call that was stopped before its turn has no text yet
        input_json = call.input_json or self.masked_input(call)
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
            started=started_at,
            duration_ms=max(0.0, (now - started_at) * 1000 - queued_ms),
            waited_ms=max(0.0, (started_at - arrived_at) * 1000) + queued_ms,
            input_digest=call.input_digest,
        )

    def snapshot_row(self, index: int, snapshot: Snapshot) -> SnapshotTaken | None:
        """Return the row of a snapshot of all steps up to `index`; None if it is of no use."""
        if self.survival not in GOES_ON or self.ending is not None:
            return None
        state, problem = snapshot.state, self.mask_text(snapshot.problem.rstrip("."))
        if state and self._mask.text(text := state.decode("utf-8", "surrogateescape")) != text:
            state, problem = b"", "what save() returned contains a secret of the session"
        if problem:
            log.warning("a snapshot was not kept", episode=self.number, step=index, reason=problem)
        self.has_snapshot = True
        return SnapshotTaken(self.number, index, state, problem)

    def masked_input(self, call: Call) -> str:
        """Return the JSON text of a call's arguments, without secrets."""
        return self._mask.json(call.arguments_json)

    def leave(self, cause: Cause, now: float, detail: str = "") -> EpisodeEnded:
        """Set the cause of the session's end, and return its row.

        For an agent that leaves right after the environment failed, the cause is that failure. An
        expiry has a `detail` if a limit has ended the episode; then that is the cause.
        """
        if cause == "abandoned" or (cause == "expired" and not detail):
            if self.tally.failed_readings:
                return self.end("env_error", now, next(iter(self.tally.failed_readings.values())))
            if self.tally.has_failed_last:
                return self.end("env_error", now, detail or self.tally.last_failure)
        return self.end(cause, now, detail)

    def end(self, cause: Cause, now: float, detail: str = "") -> EpisodeEnded:
        """Set the ending unless there already is one, and return its row."""
        if self.ending is None:
            remark = "" if self.player == "human" else self.tally.remark
            self.ending = Ending(cause, self.mask_text(f"{detail}{remark}".strip()), now)
            if self.counts is not None:
                self.counts.count_ending(cause)
        return self.ended_row()

    def ended_row(self) -> EpisodeEnded:
        """Return the row of the ending, with counts that include calls refused after the end."""
        ending, tally = self.ending, self.tally
        assert ending is not None
        return_mean = None
        if tally.reward_max is not None:
            # the mean of equal rewards may exceed them by a rounding error
            return_mean = min(tally.reward_sum / tally.rewards, tally.reward_max)
        return EpisodeEnded(
            episode=self.number,
            cause=ending.cause,
            detail=ending.detail,
            player=self.player,
            is_named=self._is_named,
            has_prompt=self._has_noted_prompt,
            ended=ending.time,
            steps=tally.steps,
            failed=tally.failed,
            refused=tally.refused,
            return_sum=tally.reward_sum,
            return_last=tally.last_reward,
            return_max=tally.reward_max,
            return_mean=return_mean,
            ready=self.ready,
            first_acted=tally.acted_first,
            last_acted=tally.acted_last,
            has_snapshot=self.has_snapshot,
            has_sealed=self.survival == "sealed",
        )

    @property
    def masked_sid(self) -> str:
        """Return the session id without secrets, for the log."""
        return self._mask.text(self.sid)

    def mask_text(self, text: str) -> str:
        """Return `text` without the session's secrets and truncated, for the log, the record and
        the agent."""
        return text and truncate_error(self._mask.text(text))

    def masked_failure(self, failure: CallOutcome) -> CallOutcome:
        """Return the outcome of a failed call without secrets in its error and traceback."""
        return replace(
            failure, error=self.mask_text(failure.error), trace=self.mask_text(failure.trace)
        )

    def masked(self, fault: EnvironmentFault) -> EnvironmentFault:
        """Return `fault` without the session's secrets."""
        return EnvironmentFault(fault.kind, self.mask_text(fault.text), self.mask_text(fault.trace))
