"""What an environment's page tells of its record: endings by cause, and how its tools are used."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from environments.models import Environment
from episodes.analytics.activity import ActivityPoint, activity, together
from episodes.models import ToolUse

MAX_TOOLS = 200
"""Those with most calls."""


@dataclass(frozen=True, slots=True)
class ToolFigures:
    """Calls of one tool."""

    tool: str
    """Empty: calls of tools that do not exist, whatever their names."""
    calls: int
    """Refused ones included."""
    ok: int
    refused: int
    """Unknown tool, invalid input, ToolError, or after the end of the episode."""
    failed: int
    """The environment raised, or ran out of time."""
    rewarded: int
    """Calls with a reward other than 0."""
    mean_ms: float | None
    """Of the calls that ran; None without any, like the percentiles."""
    p50_ms: float | None
    """From a histogram whose places double, so to within some 20 %."""
    p95_ms: float | None

    @property
    def error_rate(self) -> float:
        """Refused and failed by calls, 0 to 1."""
        return (self.refused + self.failed) / self.calls if self.calls else 0.0


def totals_of(environment: Environment) -> ActivityPoint:
    """Of all its episodes together: endings by cause, steps, attempts. One query."""
    return together(activity("all", environment))


def tool_figures(environment: Environment, since: float = 0.0) -> Sequence[ToolFigures]:
    """Most calls first. `since`: of episodes that ended on that day (seconds since the epoch) or later. One query."""
    columns = ("tool", "ok", "refused", "failed", "rewarded", "duration_ms", "durations")
    days = ToolUse.objects.filter(environment_id=environment.pk, day__gt=since - 86400)
    found: dict[str, list[tuple[int, int, int, int, float, list[int]]]] = defaultdict(list)
    for tool, *counts, durations in days.values_list(*columns):
        found[tool].append((*counts, json.loads(durations)))
    figures = [_figures(tool, rows) for tool, rows in found.items()]
    return sorted(figures, key=lambda one: (-one.calls, one.tool))[:MAX_TOOLS]


def _figures(tool: str, rows: Sequence[tuple[int, int, int, int, float, list[int]]]) -> ToolFigures:
    ok, refused, failed, rewarded, duration_ms, histograms = zip(*rows, strict=True)
    durations = [sum(place) for place in zip(*histograms, strict=True)]
    ran = sum(durations)
    return ToolFigures(
        tool=tool,
        calls=sum(ok) + sum(refused) + sum(failed),
        ok=sum(ok),
        refused=sum(refused),
        failed=sum(failed),
        rewarded=sum(rewarded),
        mean_ms=sum(duration_ms) / ran if ran else None,
        p50_ms=duration_at(durations, 0.5),
        p95_ms=duration_at(durations, 0.95),
    )


def duration_at(durations: Sequence[int], share: float) -> float | None:
    """Milliseconds that `share` (0 to 1) of the calls do not exceed, by ToolUse's histogram; None of no calls.

    Within a place, calls are taken to be spread evenly over the logarithm.
    """
    wanted, passed = share * sum(durations), 0
    for place, count in enumerate(durations):
        if count and passed + count >= wanted:
            within = max(0.0, wanted - passed) / count
            return float(2.0 ** (place - 4 + within))
        passed += count
    return None
