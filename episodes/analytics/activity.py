"""Endings over time, read from the rollups by minute, hour and day
(`episodes/rollups/activity.py`).

Returns and successes follow the definition that was in force when each episode ended; what counts
as an attempt
follows the present convention of each environment, or one that is asked for.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import add
from typing import Any, Literal

from environments.models import Environment, Viewer
from environments.models.viewer import visible_environments
from environments.scoring.attempt_figures import Figures
from environments.scoring.convention import NUMBERLESS, coverage_of, coverages_together
from environments.scoring.definition import Definition, Definitions, definitions_in_force
from episodes.attempts.endings import rows_of
from episodes.attempts.rule import FAILURES
from episodes.models import Activity, Episode

Span = Literal["1h", "24h", "30d", "all"]
SPANS: Mapping[Span, tuple[int, int]] = {"1h": (60, 60), "24h": (3600, 24), "30d": (86400, 30)}
"""Seconds of a point and number of points, by name of the span."""
CAUSES = tuple(cause for cause, _ in Episode.CAUSES)
KINDS = (*CAUSES, "probe", "continued")
_KIND_COLUMNS = {**{cause: cause for cause in CAUSES}, "probe": "probes"}
_POINT = ("episodes", "steps", "failed", "refused")
_RETURNS = ("scored", "successes", "return_total")
_EXPIRED = ("expired_scored", "expired_successes", "expired_total")
_NUMBERLESS = ("numberless", "expired_numberless")
_COUNTS = (*_POINT, *_RETURNS, *_EXPIRED, *CAUSES, "probes", *_NUMBERLESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityPoint(Figures):
    """Figures of the endings of one minute, hour or day, or of several together."""

    start: int
    """Start of the point, in seconds since the epoch."""
    seconds: int
    """Length of the point; the last one has not ended yet."""
    episodes: int
    """Number of ended episodes, of every kind."""
    steps: int
    """Number of steps that ran."""
    failed: int
    """Steps that ran and failed."""
    refused: int
    causes: dict[str, int]
    """Endings by kind, for kinds that occurred: causes in the order of Episode.CAUSES, "probe",
    "continued"."""

    @property
    def failures(self) -> int:
        """Number of infrastructure failures."""
        return sum(self.causes.get(cause, 0) for cause in FAILURES)


def activity(
    span: Span,
    viewer: Viewer,
    environment: Environment | None = None,
    now: float | None = None,
    definitions: Definitions | None = None,
) -> Sequence[ActivityPoint]:
    """Return a point for each minute, hour or day up to now in order, also for those without
    endings.

    The span "all" has the days from the first ending to the last. `now`: seconds since the epoch;
    None: the clock's. `definitions`: None reads those in force; conventions are used of them, and
    thresholds for returns of 0.
    One query, and one more for the definitions.
    """
    seconds, count = SPANS.get(span, (86400, 0))
    last = int((time.time() if now is None else now) // seconds) * seconds
    rows = Activity.objects.filter(visible_environments(viewer, "environment_id"), period=seconds)
    if environment is not None:
        rows = rows.filter(environment_id=environment.pk)
    if count:
        rows = rows.filter(start__gt=last - count * seconds, start__lte=last)
    definitions = definitions_in_force() if definitions is None else definitions
    sums_by_start: dict[int, dict[Definition, Sequence[float]]] = defaultdict(dict)
    for start, pk, *counts in rows_of(rows.values_list("start", "environment_id", *_COUNTS)):
        sums, definition = sums_by_start[start], definitions.of(pk)
        sums[definition] = (
            list(map(add, sums[definition], counts)) if definition in sums else counts
        )
    first = last - (count - 1) * seconds if count else min(sums_by_start, default=last)
    last = last if count else max(sums_by_start, default=last)
    return [
        _at(start, seconds, sums_by_start.get(start, {}))
        for start in range(first, last + 1, seconds)
    ]


_DEFAULT = Definition()


def _at(start: int, seconds: int, sums: Mapping[Definition, Sequence[float]]) -> ActivityPoint:
    """Return the point of the sums of _COUNTS over the environments of each definition."""
    points = [
        _point(start, seconds, dict(zip(_COUNTS, counts, strict=True)), definition)
        for definition, counts in sums.items()
    ]
    if not points:
        return _point(start, seconds, {}, _DEFAULT)
    return points[0] if len(points) == 1 else replace(together(points), seconds=seconds)


def together(points: Sequence[ActivityPoint]) -> ActivityPoint:
    """Merge one point or more."""
    causes = {
        kind: count
        for kind in KINDS
        if (count := sum(point.causes.get(kind, 0) for point in points))
    }
    scored = sum(point.scored for point in points)
    total = sum(point.mean * point.scored for point in points if point.mean is not None)
    return ActivityPoint(
        start=points[0].start,
        seconds=sum(point.seconds for point in points),
        episodes=sum(point.episodes for point in points),
        n=sum(point.n for point in points),
        scored=scored,
        successes=sum(point.successes for point in points),
        steps=sum(point.steps for point in points),
        failed=sum(point.failed for point in points),
        refused=sum(point.refused for point in points),
        mean=total / scored if scored else None,
        causes=causes,
        coverage=coverages_together([point.coverage for point in points]),
    )


def _point(
    start: int, seconds: int, row: Mapping[str, Any], definition: Definition
) -> ActivityPoint:
    causes = {kind: int(row[name]) for kind, name in _KIND_COLUMNS.items() if row.get(name)}
    if continued := int(row.get("episodes", 0)) - sum(causes.values()):
        causes["continued"] = continued
    keeps_expired = definition.convention.expired == "keep"
    numberless = sum(row.get(name, 0) for name in _NUMBERLESS[: 1 + keeps_expired])
    coverage = coverage_of(causes | {NUMBERLESS: int(numberless)}, definition.convention)
    scored, successes, total = _returns(row, definition, sum(coverage.zero.values()))
    return ActivityPoint(
        start=start,
        seconds=seconds,
        **{name: int(row.get(name, 0)) for name in _POINT},
        n=coverage.counted,
        coverage=coverage,
        scored=scored,
        successes=successes,
        mean=total / scored if scored else None,
        causes=causes,
    )


def _returns(row: Mapping[str, Any], definition: Definition, zeros: int) -> tuple[int, int, float]:
    """Return the number of returns, of successes, and the sum of the returns."""
    groups = [_RETURNS, _EXPIRED] if definition.convention.expired == "keep" else [_RETURNS]
    scored, successes, total = (
        sum(row.get(group[place], 0) for group in groups) for place in range(3)
    )
    return int(scored) + zeros, int(successes) + zeros * definition.is_success(0.0), float(total)
