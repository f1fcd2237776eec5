"""Activity: what ended when, from the roll-ups by minute, hour and day that `follower/activity.py` keeps.

Attempts, successes and returns are by the definition that was in force when each episode ended.
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
"""To the seconds of a point and the number of points."""
CAUSES = tuple(cause for cause, _ in Episode.CAUSES)
_POINT = ("episodes", "attempts", "scored", "successes", "steps", "failed", "refused")
_COUNTS = (*_POINT, *CAUSES, "probes")


@dataclass(frozen=True, slots=True)
class ActivityPoint:
    """Endings of one minute, hour or day."""

    start: int
    """Seconds since the epoch."""
    seconds: int
    """How long it lasts; the last point is not over."""
    episodes: int
    """Of every kind."""
    attempts: int
    """Without probes, continuations and failures of the machinery."""
    scored: int
    """Attempts that have a return."""
    successes: int
    steps: int
    """That ran."""
    failed: int
    """Of those that ran, how many failed."""
    refused: int
    mean: float | None
    """Of the returns; None without any."""
    causes: dict[str, int]
    """Endings by cause, in the order of Episode.CAUSES, and at the end probes as "probe" and what plays on from another
    as "continued"; those that occurred."""

    @property
    def failures(self) -> int:
        """Of the machinery."""
        return sum(self.causes.get(cause, 0) for cause in FAILURES)

    @property
    def success(self) -> float | None:
        return self.successes / self.attempts if self.attempts else None


def activity(span: Span, environment: Environment | None = None, now: float | None = None) -> Sequence[ActivityPoint]:
    """In order, one for each minute, hour or day up to now, empty ones included; "all": days from the first. One query.

    `now`: seconds since the epoch, by default the clock's.
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
    """One of all of them, one or more."""
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
