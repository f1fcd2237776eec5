"""What was played since the process started, counted by environment on the event loop, and how much
is played now.

A call costs a few additions and no lock, and nothing is kept about a session. `orsweb/operations`
shows the counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from environments.runtime.bucket_counts import BucketCounts, CountedValues
from environments.runtime.records import Cause, StepStatus

CALL_SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
)  # fmt: skip
"""Bounds of the histogram of calls."""
MAX_CAUSES = 40
"""Most causes of failed calls counted for each environment: authors name their exceptions as they
like."""
OTHER_CAUSE = "other"


@dataclass(frozen=True, slots=True)
class PlayedOfEnvironment:
    """The counts of one environment at one moment."""

    calls: Mapping[StepStatus, int]
    seconds: CountedValues
    """Time from a call's arrival to its result, which is committed by then."""
    errors: Mapping[str, int]
    """Failed calls by their reason."""
    endings: Mapping[Cause, int]
    """Episodes by how the session ended."""


class EnvironmentCounts:
    """Counts what is played of one environment."""

    __slots__ = ("_calls", "_endings", "_errors", "_seconds")

    def __init__(self) -> None:
        self._calls: dict[StepStatus, int] = {"ok": 0, "refused": 0, "failed": 0}
        self._seconds = BucketCounts(CALL_SECONDS)
        self._errors: dict[str, int] = {}
        self._endings: dict[Cause, int] = {}

    def count_call(self, status: StepStatus, reason: str, seconds: float) -> None:
        """Count a call that was answered; `reason` as in `StepTaken.reason`."""
        self._calls[status] += 1
        self._seconds.observe(seconds)
        if status == "failed":
            if reason not in self._errors and len(self._errors) >= MAX_CAUSES:
                reason = OTHER_CAUSE
            self._errors[reason] = self._errors.get(reason, 0) + 1

    def count_ending(self, cause: Cause) -> None:
        self._endings[cause] = self._endings.get(cause, 0) + 1

    def snapshot(self) -> PlayedOfEnvironment:
        """Return the counts. Called on the event loop."""
        return PlayedOfEnvironment(
            dict(self._calls), self._seconds.snapshot(), dict(self._errors), dict(self._endings)
        )


class PlayCounts(defaultdict[str, EnvironmentCounts]):
    """The counts by name of the environment. Only names that are served get in."""

    def __init__(self) -> None:
        super().__init__(EnvironmentCounts)

    def snapshot(self) -> dict[str, PlayedOfEnvironment]:
        """Return the counts of every environment that was played. Called on the event loop."""
        return {name: counts.snapshot() for name, counts in self.items()}


@dataclass(frozen=True, slots=True)
class PlayLoad:
    """What is played at one moment, by environment, and what was played since the process
    started."""

    live: Mapping[str, int]
    """Live sessions of every environment that is served; empty name: those that are not bound to
    one yet."""
    running: Mapping[str, int]
    """Tool calls that run, or wait for the setup."""
    counts: Mapping[str, PlayedOfEnvironment]
    is_draining: bool
    """Whether the server is stopping, so that it takes no further sessions and calls."""
