"""Endings over time, read from the rollups by minute, hour and day
(`episodes/rollups/activity.py`).

Returns and successes follow the definition that was in force when each episode ended; what counts
as an attempt
follows the present convention of each environment, or one that is asked for.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from environments.models import Environment, Viewer
from environments.models.viewer import visible_environments
from environments.scoring.attempt_figures import Figures
from environments.scoring.convention import (
    NUMBERLESS,
    counts_added,
    coverage_of,
    coverages_together,
)
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
_BY_ENDING = ("numberless", "scored", "successes", "return_total")
_COUNTS = (
    *(*_POINT, *CAUSES, "probes", "numberless", "scored", "successes", "return_total"),
    *("expired_numberless", "expired_scored", "expired_successes", "expired_total"),
)


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
    sums = defaultdict[int, dict[Definition, Counter[str]]](dict)
    for start, pk, *counts in rows_of(rows.values_list("start", "environment_id", *_COUNTS)):
        by_definition = sums[start].setdefault(definitions.of(pk), Counter())
        by_definition.update(dict(zip(_COUNTS, counts, strict=True)))
    first = last - (count - 1) * seconds if count else min(sums, default=last)
    last = last if count else max(sums, default=last)
    points = list[ActivityPoint]()
    for start in range(first, last + 1, seconds):
        pairs = sums.get(start, {Definition(): Counter[str]()}).items()
        parts = [_point(start, seconds, counts, definition) for definition, counts in pairs]
        points.append(parts[0] if len(parts) == 1 else replace(together(parts), seconds=seconds))
    return points


def together(points: Sequence[ActivityPoint]) -> ActivityPoint:
    """Merge one point or more."""
    return_count = sum(point.scored for point in points)
    total = sum(point.mean * point.scored for point in points if point.mean is not None)
    causes = counts_added(point.causes for point in points)
    return ActivityPoint(
        start=points[0].start,
        seconds=sum(point.seconds for point in points),
        **{name: sum(getattr(point, name) for point in points) for name in (*_POINT, "n")},
        scored=return_count,
        successes=sum(point.successes for point in points),
        mean=total / return_count if return_count else None,
        causes={kind: causes[kind] for kind in KINDS if kind in causes},
        coverage=coverages_together([point.coverage for point in points]),
    )


def _point(start: int, seconds: int, counts: Counter[str], definition: Definition) -> ActivityPoint:
    """Return the point of these sums of _COUNTS."""
    causes = {kind: counts[name] for kind, name in _KIND_COLUMNS.items() if counts[name]}
    if continuations := counts["episodes"] - sum(causes.values()):
        causes["continued"] = continuations
    keeps_expired = definition.convention.expired == "keep"
    numberless, return_count, successes, total = (
        counts[name] + keeps_expired * counts[f"expired_{name.removeprefix('return_')}"]
        for name in _BY_ENDING
    )
    coverage = coverage_of(causes | {NUMBERLESS: numberless}, definition.convention)
    zeros = sum(coverage.zero.values())
    return_count += zeros
    return ActivityPoint(
        start=start,
        seconds=seconds,
        **{name: counts[name] for name in _POINT},
        n=coverage.counted,
        coverage=coverage,
        scored=return_count,
        successes=successes + zeros * definition.is_success(0.0),
        mean=total / return_count if return_count else None,
        causes=causes,
    )
