"""The outcome of a tool call, and the result that is sent to the agent, live or from the record.

Nothing changes them after they are made; they are not frozen for the reason given in `records`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from environments.errors import EnvironmentFault, shorten
from environments.limits import ReturnErrors
from environments.runtime.records import Cause, StepStatus, StepTaken
from environments.wire import value_json

MAX_ERROR_CHARACTERS = 32_000
"""Longest text of an `error` event. It is never empty either: clients would report "Unknown SSE
error"."""

_WIRE_REASONS = frozenset({"not_found", "name_collision", "input_validation", "episode_finished"})
_SERVER_REASONS = frozenset({"timeout", "deleted", "interrupted", "limit", "result_size"})
"""Reasons of failures whose text this server wrote, so the agent may always see it."""
UNSTATED = "unstated"
"""Reason of a refusal by a remote environment that gave none; agents get none either."""
QUOTA = "quota"
"""Reason of a refusal because the key is over a quota."""
HARMLESS = _WIRE_REASONS | {QUOTA}
"""Reasons of refusals before the environment's code ran."""
_ANSWERED_REASONS = _WIRE_REASONS | {"tool_error", UNSTATED, QUOTA}


@dataclass(slots=True)
class CallResult:
    """The last event of a call's stream: `end` with JSON text, or `error` with plain text."""

    event: Literal["end", "error", "cut"]
    """cut: no event, because the next server makes the call when its client repeats it."""
    data: str


CUT = CallResult("cut", "")


@dataclass(slots=True)
class Snapshot:
    """What the author's `save` returned after a call, for `load`."""

    state: bytes = b""
    problem: str = ""
    """Why there is no state, without the full stop; empty if there is one."""


@dataclass(slots=True)
class CallOutcome:
    """The result of a tool call.

    With status ok, `output_json` is the text of the ToolOutput; otherwise `error` and `reason` say
    what went wrong. The `reason` of a failure is the exception's type name, "timeout", "deleted",
    "interrupted", "limit" or "result_size"; those of a refusal are listed at `StepTaken.reason`.
    """

    status: StepStatus
    output_json: str | None = None
    reward: float | None = None
    finished: bool = False
    error: str = ""
    reason: str = ""
    trace: str = ""
    waited_ms: float = 0.0
    snapshot: Snapshot | None = None
    """Of the environment after the call; None if none was due."""

    def result(self, mode: ReturnErrors) -> CallResult:
        """Return the result that is sent to the agent; `mode` says how much of a failure it may
        see."""
        if self.status == "ok" and self.output_json is not None:
            return CallResult("end", '{"ok":true,"output":' + self.output_json + "}")
        if self.status == "refused" and self.reason in _ANSWERED_REASONS:
            body: dict[str, Any] = {"ok": False, "error": truncate_error(self.error)}
            if self.reason in _WIRE_REASONS:
                body["reason"] = self.reason
            elif self.reason != UNSTATED:
                # the protocol has no reason for a ToolError, and the openreward client reads a
                # missing reason as "not_found"
                body["reason"] = "input_validation"
            return CallResult("end", value_json(body))
        if mode == "none" and self.reason not in _SERVER_REASONS:
            return CallResult("error", "Internal Server Error")
        trace = self.trace if mode == "stacktrace" else ""
        return CallResult("error", truncate_error(trace or self.error))


def refused(error: str, reason: str, *, waited_ms: float = 0.0) -> CallOutcome:
    return CallOutcome("refused", error=error, reason=reason, waited_ms=waited_ms)


def refused_after_end(tool: str, *, waited_ms: float = 0.0) -> CallOutcome:
    """Return the refusal of a call that came after the end of the episode."""
    text = (
        f"{tool!r} was not run: the episode has finished (a tool returned finished=True), "
        "so no further tool calls are accepted."
    )
    return refused(text, "episode_finished", waited_ms=waited_ms)


def refused_after_limit(tool: str, limit: str) -> CallOutcome:
    """Return the refusal of a call that came after the server has ended the episode; `limit` says
    why it did."""
    return refused(
        f"{tool!r} was not run: the episode has ended, because {limit}.", "episode_finished"
    )


def failed(error: str, reason: str, *, trace: str = "", waited_ms: float = 0.0) -> CallOutcome:
    return CallOutcome(
        "failed", error=error.strip() or reason, reason=reason, trace=trace, waited_ms=waited_ms
    )


def cut_short(cause: Cause | None, detail: str = "") -> CallOutcome:
    """Return the outcome of a call that the end of its session has stopped; `detail` says what
    interrupted it."""
    if cause == "interrupted":
        return failed(detail or "The server is stopping", "interrupted")
    return failed("Session expired" if cause == "expired" else "Session deleted", "deleted")


def recorded_outcome(step: StepTaken) -> CallOutcome:
    return CallOutcome(
        step.status, step.output_json, step.reward, step.finished, step.error, step.reason
    )


def faulted(fault: EnvironmentFault, *, waited_ms: float = 0.0) -> CallOutcome:
    return failed(fault.text or fault.kind, fault.kind, trace=fault.trace, waited_ms=waited_ms)


def truncate_error(text: str) -> str:
    """Return `text` with at most MAX_ERROR_CHARACTERS. Mask secrets first: the mask does not find
    half a secret."""
    return shorten(text, MAX_ERROR_CHARACTERS)
