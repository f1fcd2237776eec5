"""Activity: what ended lately, over all environments, from the rows that the follower keeps. Read by the overview."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q, Sum

from episodes.derived import Activity
from episodes.statistics import FAILURES

CAUSES = ("finished", "abandoned", "expired", "setup_failed", "env_error", "interrupted", "probe")
"""In the order in which pages show them; probes are their own."""
WORTH_A_LOOK = 10
"""Episodes within a span."""
_COLUMNS = ("episodes", "attempts", "successes", "steps", *CAUSES[:-1], "probes")


@dataclass(frozen=True, slots=True)
class Span:
    name: str
    words: str
    period: int
    """Seconds of one bucket; one of Activity.PERIODS."""
    buckets: int


SPANS = (
    Span("1h", "the last hour", 60, 60),
    Span("24h", "the last 24 hours", 3600, 24),
    Span("30d", "the last 30 days", 86400, 30),
)


@dataclass(frozen=True, slots=True)
class Bucket:
    """The endings of one minute, hour or day."""

    start: datetime
    until: datetime
    episodes: int
    attempts: int
    successes: int
    failures: int
    steps: int

    @property
    def success(self) -> float | None:
        """None without attempts."""
        return self.successes / self.attempts if self.attempts else None


@dataclass(frozen=True, slots=True)
class Lately:
    """A span up to now; the last bucket is still filling."""

    span: Span
    buckets: Sequence[Bucket]
    """Oldest first, none left out."""
    endings: Sequence[tuple[str, int]]
    """Cause (or "probe") and how many, those that happened."""

    @property
    def since(self) -> datetime:
        return self.buckets[0].start

    @property
    def episodes(self) -> int:
        return sum(bucket.episodes for bucket in self.buckets)

    @property
    def attempts(self) -> int:
        return sum(bucket.attempts for bucket in self.buckets)

    @property
    def successes(self) -> int:
        return sum(bucket.successes for bucket in self.buckets)

    @property
    def steps(self) -> int:
        return sum(bucket.steps for bucket in self.buckets)

    @property
    def rate(self) -> float:
        """Of success; 0 without attempts."""
        return self.successes / self.attempts if self.attempts else 0.0

    @property
    def failures(self) -> list[tuple[str, int]]:
        """Of the machinery, by cause, the most frequent first."""
        found = [(cause, count) for cause, count in self.endings if cause in FAILURES]
        return sorted(found, key=lambda ending: -ending[1])


def lately(span: Span, now: float) -> Lately:
    """`now`: seconds since the epoch. One query of at most `span.buckets` rows an environment."""
    last = int(now) // span.period * span.period
    starts = range(last - (span.buckets - 1) * span.period, last + 1, span.period)
    rows = Activity.objects.filter(period=span.period, start__gte=starts[0]).values("start")
    found: Iterable[Any] = rows.annotate(**{f"sum_{name}": Sum(name) for name in _COLUMNS})
    sums: dict[int, dict[str, int]] = {row["start"]: row for row in found}
    nothing = {f"sum_{name}": 0 for name in _COLUMNS}
    buckets = [_bucket(start, span.period, sums.get(start, nothing)) for start in starts]
    counts = [(cause, sum(sums[start][_column(cause)] for start in starts if start in sums)) for cause in CAUSES]
    return Lately(span, buckets, [(cause, count) for cause, count in counts if count])


def fitting_span(now: float) -> Span:
    """The shortest in which enough ended to be worth a look; else the day. One query."""
    asked = Q()
    for span in SPANS:
        asked |= Q(period=span.period, start__gt=now - span.period * span.buckets)
    ended = dict(Activity.objects.filter(asked).values_list("period").annotate(Sum("episodes")))
    fitting = [span for span in SPANS if ended.get(span.period, 0) >= WORTH_A_LOOK]
    return next(iter(fitting), SPANS[1])


def _bucket(start: int, period: int, sums: dict[str, int]) -> Bucket:
    return Bucket(
        start=datetime.fromtimestamp(start, UTC),
        until=datetime.fromtimestamp(start + period, UTC),
        episodes=sums["sum_episodes"],
        attempts=sums["sum_attempts"],
        successes=sums["sum_successes"],
        failures=sum(sums[_column(cause)] for cause in FAILURES),
        steps=sums["sum_steps"],
    )


def _column(cause: str) -> str:
    return "sum_probes" if cause == "probe" else f"sum_{cause}"
