"""LiveEpisode: the caller's side of one session. Whose it is, how far it is, and what is to be recorded of it.

The environment itself lives behind the Host door; this object makes the rows. Driven by SessionService.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from environments.errors import EnvironmentFault
from environments.runtime.calls import Call, Calls
from environments.runtime.outcome import CallOutcome, short
from environments.runtime.records import Cause, EpisodeEnded, EpisodeNoted, EpisodeStarted, Player, RunInfo, StepTaken
from environments.runtime.secrets_mask import Mask
from environments.wire import JSONObject, value_json

State = Literal["unbound", "constructing", "setting_up", "ready", "failed", "closing"]

_OURS = frozenset({"deleted", "interrupted"})
"""Reasons of failures that are no fault of the environment's."""


@dataclass(frozen=True, slots=True)
class NewSession:
    """A request for a session. `environment` None: bound by the first path that names one.

    Exactly one of `spec` (the task's content) or `split` with `index` is given.
    """

    sid: str
    owner: str
    """Label of the API key; empty without keys."""
    environment: str | None
    spec: Any = None
    split: str | None = None
    index: int | None = None
    secrets: dict[str, str] | None = None
    """What the environment gets."""
    masked: tuple[str, ...] = ()
    """Values to keep out of the record: the secrets and the API key."""
    toolset: str | None = None
    user_agent: str = ""
    run: RunInfo = field(default_factory=RunInfo)
    player: Player = "agent"


class LiveEpisode:
    """State of one session, on the event loop only.

    Counts and returns cover steps with status ok or failed; refused ones are counted apart.
    """

    __slots__ = (
        "_failed",
        "_failed_readings",
        "_first_acted",
        "_has_failed_last",
        "_has_noted",
        "_last_acted",
        "_last_reward",
        "_mask",
        "_maximum",
        "_next_index",
        "_refused",
        "_rewards",
        "_steps",
        "_sum",
        "_told_prompt",
        "_told_tools",
        "_waiters",
        "calls",
        "cause",
        "closing_cause",
        "detail",
        "ended",
        "environment",
        "fault",
        "number",
        "on_step",
        "owner",
        "ready",
        "request",
        "sid",
        "state",
        "touched",
        "work",
    )

    def __init__(self, request: NewSession, now: float) -> None:
        self.sid, self.owner = request.sid, request.owner
        self.request: NewSession | None = request  # dropped once bound: it holds the secrets
        self.environment = ""
        self.number = 0
        self.state: State = "unbound" if request.environment is None else "constructing"
        self.fault: EnvironmentFault | None = None
        self.calls = Calls()
        self.work: asyncio.Task[Any] | None = None  # construction or setup, while the author's code runs
        self.touched = now
        self.ready: float | None = None
        self.ended: float | None = None
        self.cause: Cause | None = None
        self.closing_cause: Cause | None = None  # while the session is being ended
        self.detail = ""
        self.on_step: Callable[[StepTaken], None] | None = None  # who follows is told of each step that is on record
        self._mask = Mask(request.masked)
        self._waiters: list[asyncio.Future[None]] | None = None
        self._next_index = self._steps = self._failed = self._refused = self._rewards = 0
        self._sum = 0.0
        self._maximum: float | None = None
        self._last_reward: float | None = None
        self._first_acted: float | None = None
        self._last_acted: float | None = None
        self._has_failed_last = False
        self._failed_readings: dict[str, str] | None = None  # what the agent asked for in vain -> why
        self._has_noted = False
        self._told_prompt = self._told_tools = ""

    # --- states -------------------------------------------------------------------------------------------------------

    def change(self, state: State) -> None:
        """Enter `state` and wake whoever waits for a change."""
        self.state = state
        waiters, self._waiters = self._waiters, None
        for waiter in waiters or ():
            if not waiter.done():
                waiter.set_result(None)

    async def wait_for_change(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        if self._waiters is None:
            self._waiters = []
        self._waiters.append(waiter)
        await waiter

    # --- rows ---------------------------------------------------------------------------------------------------------

    def started_row(self, request: NewSession, spec_json: str, tools_json: str, now: float) -> EpisodeStarted:
        mask = self._mask
        self._told_tools = tools_json
        run = request.run
        if run.name or run.model or run.labels_json:
            run = RunInfo(
                mask.text(run.name), run.step, mask.text(run.model), run.labels_json and mask.json(run.labels_json)
            )
        return EpisodeStarted(
            episode=self.number,
            environment=self.environment,
            split=request.split,
            index=request.index,
            spec_json=mask.json(spec_json),
            tools_json=tools_json,
            session_id=mask.text(self.sid),
            user_agent=mask.text(request.user_agent),
            key_label=self.owner,
            player=request.player,
            run=run,
            created=now,
        )

    def noted_row(self, *, prompt_json: str | None = None, tools_json: str | None = None) -> EpisodeNoted | None:
        """What has become known and is not yet recorded, if anything; prompt and tools as first handed out."""
        if prompt_json is not None:
            prompt_json = None if self._told_prompt else self._mask.json(prompt_json)
            self._told_prompt = self._told_prompt or "told"
        if tools_json is not None:
            tools_json = None if tools_json == self._told_tools else tools_json
            self._told_tools = tools_json or self._told_tools
            tools_json = tools_json and self._mask.json(tools_json)
        ready = self.ready if not self._has_noted else None
        if ready is None and prompt_json is None and tools_json is None:
            return None
        self._has_noted = self._has_noted or ready is not None
        return EpisodeNoted(self.number, ready, prompt_json, tools_json)

    def step_row(self, call: Call, outcome: CallOutcome, arrived: float, started: float, now: float) -> StepTaken:
        """The next step, in order of completion; counts it. Between `arrived` and `started` it waited for setup."""
        mask = self._mask
        index = self._next_index
        self._next_index += 1
        self._count(outcome, started, now)
        queued_ms = outcome.waited_ms
        return StepTaken(
            episode=self.number,
            index=index,
            tool=mask.text(call.tool),
            input_json=mask.json(_input_json(call.arguments)),
            output_json=None if outcome.output_json is None else mask.json(outcome.output_json),
            reward=outcome.reward,
            finished=outcome.finished,
            status=outcome.status,
            error=self.mask_text(outcome.error),
            reason=outcome.reason,
            task_id=mask.text(call.task_id),
            started=started,
            duration_ms=max(0.0, (now - started) * 1000 - queued_ms),
            waited_ms=max(0.0, (started - arrived) * 1000) + queued_ms,
        )

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
        self._failed_readings = None
        reward = outcome.reward
        if reward is not None:
            self._rewards += 1
            self._sum += reward
            self._last_reward = reward
            self._maximum = reward if self._maximum is None else max(self._maximum, reward)

    def note_reading(self, what: str, fault: EnvironmentFault | None) -> None:
        """The agent was told `what` (its prompt, its tools), or the environment raised."""
        if fault is None:
            if self._failed_readings is not None:
                self._failed_readings.pop(what, None)
        elif self.state != "closing":  # else it may have failed because its environment is being torn down
            self._failed_readings = {**(self._failed_readings or {}), what: f"{what} failed: {fault}"}

    def leave(self, cause: Cause, now: float) -> EpisodeEnded:
        """Note that the session ends. An agent that leaves right after the environment failed did not give up."""
        if cause not in ("abandoned", "expired"):
            return self.end(cause, now)
        if self._failed_readings:
            return self.end("env_error", now, next(iter(self._failed_readings.values())))
        return self.end("env_error" if self._has_failed_last else cause, now)

    def end(self, cause: Cause, now: float, detail: str = "") -> EpisodeEnded:
        """Note the ending; the first one stays."""
        if self.cause is None:
            self.cause, self.ended, self.detail = cause, now, self.mask_text(detail)
        return self.ended_row()

    def ended_row(self) -> EpisodeEnded:
        """The ending with the counts of this moment; calls refused after the end are still counted."""
        assert self.cause is not None and self.ended is not None
        return EpisodeEnded(
            episode=self.number,
            cause=self.cause,
            detail=self.detail,
            ended=self.ended,
            steps=self._steps,
            failed=self._failed,
            refused=self._refused,
            return_sum=self._sum,
            return_last=self._last_reward,
            return_max=self._maximum,
            return_mean=self._sum / self._rewards if self._rewards else None,
            ready=self.ready,
            first_acted=self._first_acted,
            last_acted=self._last_acted,
        )

    @property
    def shown_sid(self) -> str:
        """The session id as it may be logged."""
        return self._mask.text(self.sid)

    def mask_text(self, text: str) -> str:
        """What was said in this session, as it may be logged, recorded and told: without its secrets, and short."""
        return short(self._mask.text(text))

    def masked_failure(self, outcome: CallOutcome) -> CallOutcome:
        """`outcome`; of a failure without the session's secrets."""
        if outcome.status != "failed":
            return outcome
        return replace(outcome, error=self.mask_text(outcome.error), trace=self.mask_text(outcome.trace))

    def masked(self, fault: EnvironmentFault) -> EnvironmentFault:
        return EnvironmentFault(fault.kind, self.mask_text(fault.text), self.mask_text(fault.trace))


def _input_json(arguments: JSONObject) -> str:
    try:
        return value_json(arguments)
    except TypeError as error:  # nested too deeply; the call has to be answered all the same
        return value_json({"not recorded": str(error)})
