"""Figures for an environment's page: how its tools are used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from environments.models import Environment
from episodes.attempts.durations import from_texts, quantile_ms
from episodes.attempts.endings import rows_of
from episodes.models import ToolUse

MAX_TOOLS = 200
"""Maximum number of tools that are returned: those with most calls."""


@dataclass(frozen=True, slots=True)
class ToolFigures:
    """Figures of the calls of one tool."""

    tool: str
    """Name of the tool; empty for all calls of tools that do not exist."""
    calls: int
    """Number of calls, including refused ones."""
    ok: int
    refused: int
    """Calls of an unknown tool, with invalid input, with a ToolError, or after the end of the
    episode."""
    failed: int
    """Calls in which the environment raised or ran out of time."""
    rewarded: int
    """Calls with a reward other than 0."""
    mean_ms: float | None
    """Mean duration of the calls that ran; None, like the percentiles, if none ran."""
    p50_ms: float | None
    """Median duration, from a sketch: off by `durations.MAX_ERROR` at most."""
    p95_ms: float | None

    @property
    def error_rate(self) -> float:
        """Share of the calls that were refused or failed, 0 to 1."""
        return (self.refused + self.failed) / self.calls if self.calls else 0.0


def tool_figures(environment: Environment, since: float = 0.0) -> Sequence[ToolFigures]:
    """Return the figures of each tool, most calls first. One query.

    `since`: seconds since the epoch; only episodes that ended on that day or later are counted.
    """
    columns = ("tool", "ok", "refused", "failed", "rewarded", "duration_ms", "durations")
    days = ToolUse.objects.filter(environment_id=environment.pk, day__gt=since - 86400)
    rows_by_tool: dict[str, list[tuple[int, int, int, int, float, str]]] = defaultdict(list)
    for tool, *counts in rows_of(days.values_list(*columns)):
        rows_by_tool[tool].append(tuple(counts))
    figures = [_figures(tool, rows) for tool, rows in rows_by_tool.items()]
    return sorted(figures, key=lambda row: (-row.calls, row.tool))[:MAX_TOOLS]


def _figures(tool: str, rows: Sequence[tuple[int, int, int, int, float, str]]) -> ToolFigures:
    ok, refusals, failures, reward_counts, duration_ms, texts = zip(*rows, strict=True)
    durations = from_texts(texts)
    ran = durations.total()
    return ToolFigures(
        tool=tool,
        calls=sum(ok) + sum(refusals) + sum(failures),
        ok=sum(ok),
        refused=sum(refusals),
        failed=sum(failures),
        rewarded=sum(reward_counts),
        mean_ms=sum(duration_ms) / ran if ran else None,
        p50_ms=quantile_ms(durations, 0.5),
        p95_ms=quantile_ms(durations, 0.95),
    )
