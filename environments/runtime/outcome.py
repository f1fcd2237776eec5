"""Outcome: how one tool call came out, and how that is told to the agent, now or again from the record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from environments.errors import EnvironmentFault, shorten
from environments.runtime.limits import ReturnErrors
from environments.runtime.records import Cause, StepStatus
from environments.wire import value_json

ERROR_CHARACTERS = 16_000
"""An `error` event is never empty (clients would say "Unknown SSE error") and never longer than this."""

_TOLD_REASONS = frozenset({"not_found", "name_collision", "input_validation", "episode_finished"})
_OF_THE_SERVER = frozenset({"timeout", "deleted", "interrupted", "result_size"})
"""Failures whose text is this server's own and may always be told."""
_ANSWERED_REASONS = _TOLD_REASONS | {"tool_error"}


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a stream ends with: event `end` with JSON text, or event `error` with plain text."""

    event: Literal["end", "error"]
    data: str


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """`output_json` is the ToolOutput's text when ok; otherwise `error` and `reason` say why not.

    `reason` of a failure is the exception's type name, "timeout", "deleted", "interrupted" or "result_size"; of a
    refusal see StepTaken.
    """

    status: StepStatus
    output_json: str | None = None
    reward: float | None = None
    finished: bool = False
    error: str = ""
    reason: str = ""
    trace: str = ""
    waited_ms: float = 0.0


def refused(error: str, reason: str, *, waited_ms: float = 0.0) -> CallOutcome:
    return CallOutcome("refused", error=error, reason=reason, waited_ms=waited_ms)


def failed(error: str, reason: str, *, trace: str = "", waited_ms: float = 0.0) -> CallOutcome:
    return CallOutcome("failed", error=error.strip() or reason, reason=reason, trace=trace, waited_ms=waited_ms)


def cut_short(cause: Cause | None) -> CallOutcome:
    """A call that the end of its session stopped."""
    if cause == "interrupted":
        return failed("The server is stopping", "interrupted")
    return failed("Session expired" if cause == "expired" else "Session deleted", "deleted")


def faulted(fault: EnvironmentFault, *, waited_ms: float = 0.0) -> CallOutcome:
    return failed(fault.text or fault.kind, fault.kind, trace=fault.trace, waited_ms=waited_ms)


def told(outcome: CallOutcome, mode: ReturnErrors) -> CallResult:
    """`outcome` as the agent gets it; `mode` says how much of a failure it may see."""
    if outcome.status == "ok" and outcome.output_json is not None:
        return CallResult("end", '{"ok":true,"output":' + outcome.output_json + "}")
    if outcome.status == "refused" and outcome.reason in _ANSWERED_REASONS:
        # the protocol has no word for a ToolError, and the openreward client reads a missing one as "not_found"
        reason = outcome.reason if outcome.reason in _TOLD_REASONS else "input_validation"
        return CallResult("end", value_json({"ok": False, "error": short(outcome.error), "reason": reason}))
    if mode == "none" and outcome.reason not in _OF_THE_SERVER:
        return CallResult("error", "Internal Server Error")
    return CallResult("error", short((outcome.trace if mode == "stacktrace" else "") or outcome.error))


def short(text: str) -> str:
    """What an author's code said, no longer than anybody reads. Secrets have to be masked before: half a one is not."""
    return shorten(text, ERROR_CHARACTERS)
