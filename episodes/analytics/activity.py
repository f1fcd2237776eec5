"""Endings over time, read from the rollups by minute, hour and day (`episodes/rollups/activity.py`).

Attempts, successes and returns follow the definition that was in force when each episode ended.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.db.models import Sum

from environments.models import Environment
from episodes.attempts.rule import FAILURES
from episodes.models import Activity, Episode

Span = Literal["1h", "24h", "30d", "all"]
SPANS: Mapping[Span, tuple[int, int]] = {"1h": (60, 60), "24h": (3600, 24), "30d": (86400, 30)}
"""Seconds of a point and number of points, by name of the span."""
CAUSES = tuple(cause for cause, _ in Episode.CAUSES)
_POINT = ("episodes", "attempts", "scored", "successes", "steps", "failed", "refused")
_COUNTS = (*_POINT, *CAUSES, "probes")


@dataclass(frozen=True, slots=True)
class ActivityPoint:
    """Figures of the endings of one minute, hour or day, or of several together."""

    start: int
    """Start of the point, in seconds since the epoch."""
    seconds: int
    """Length of the point; the last one has not ended yet."""
    episodes: int
    """Number of ended episodes, of every kind."""
    attempts: int
    """Endings without probes, continuations and failures of the machinery."""
    scored: int
    """Attempts that have a return."""
    successes: int
    steps: int
    """Number of steps that ran."""
    failed: int
    """Steps that ran and failed."""
    refused: int
    mean: float | None
    """Mean of the returns; None if there are none."""
    causes: dict[str, int]
    """Endings by kind, for kinds that occurred: causes in the order of Episode.CAUSES, "probe", "continued"."""

    @property
    def failures(self) -> int:
        """Number of failures of the machinery."""
        return sum(self.causes.get(cause, 0) for cause in FAILURES)

    @property
    def success(self) -> float | None:
        return self.successes / self.attempts if self.attempts else None


def activity(span: Span, environment: Environment | None = None, now: float | None = None) -> Sequence[ActivityPoint]:
    """Return a point for each minute, hour or day up to now in order, also for those without endings. One query.

    The span "all" has the days from the first ending to the last. `now`: seconds since the epoch; None: the clock's.
    """
    seconds, count = SPANS.get(span, (86400, 0))
    last = int((time.time() if now is None else now) // seconds) * seconds
    rows = Activity.objects.filter(period=seconds)
    if environment is not None:
        rows = rows.filter(environment_id=environment.pk)
    if count:
        rows = rows.filter(start__gt=last - count * seconds, start__lte=last)
    sums = {name: Sum(name) for name in (*_COUNTS, "return_total")}
    found: dict[int, Mapping[str, Any]] = {
        row["start"]: row for row in rows.order_by("start").values("start").annotate(**sums)
    }
    first = last - (count - 1) * seconds if count else min(found, default=last)
    last = last if count else max(found, default=last)
    return [_point(start, seconds, found.get(start, {})) for start in range(first, last + 1, seconds)]


def together(points: Sequence[ActivityPoint]) -> ActivityPoint:
    """Merge one point or more."""
    kinds = (*CAUSES, "probe", "continued")
    causes = {kind: count for kind in kinds if (count := sum(one.causes.get(kind, 0) for one in points))}
    scored = sum(one.scored for one in points)
    total = sum(one.mean * one.scored for one in points if one.mean is not None)
    return ActivityPoint(
        start=points[0].start,
        seconds=sum(one.seconds for one in points),
        episodes=sum(one.episodes for one in points),
        attempts=sum(one.attempts for one in points),
        scored=scored,
        successes=sum(one.successes for one in points),
        steps=sum(one.steps for one in points),
        failed=sum(one.failed for one in points),
        refused=sum(one.refused for one in points),
        mean=total / scored if scored else None,
        causes=causes,
    )


def _point(start: int, seconds: int, row: Mapping[str, Any]) -> ActivityPoint:
    kinds = {**{cause: cause for cause in CAUSES}, "probe": "probes"}
    causes = {kind: int(row[name]) for kind, name in kinds.items() if row.get(name)}
    if continued := int(row.get("episodes", 0)) - sum(causes.values()):
        causes["continued"] = continued
    counts = {name: int(row.get(name, 0)) for name in _POINT}
    return ActivityPoint(
        start=start,
        seconds=seconds,
        **counts,
        mean=row["return_total"] / row["scored"] if row.get("scored") else None,
        causes=causes,
    )
