"""Buckets: what a task's record says to whoever trains on it, from the number of its attempts and their success rate.

Pure: thresholds are given, and what is asked of the database are conditions that the caller puts into a query.

*unseen*      no attempt yet
*hopeless*    enough attempts, success rate at or below a threshold: no signal to learn from
*saturated*   enough attempts, success rate at or above a threshold: nothing left to learn
*learnable*   everything else, so also a task with too few attempts to be called one of the two
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from django.db.models import Exists, OuterRef, Q

from environments.models import TaskStatistics

Bucket = Literal["unseen", "hopeless", "learnable", "saturated"]
BUCKETS: tuple[Bucket, ...] = get_args(Bucket)

_Z = 1.959963984540054
"""Standard deviations on each side that hold 95 % of a normal distribution."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    hopeless: float = 0.0
    """Success rate at or below it, 0 to 1."""
    saturated: float = 1.0
    """Success rate at or above it, 0 to 1; more than `hopeless`."""
    attempts: int = 4
    """Fewest attempts of which either is said, 1 or more."""

    def __str__(self) -> str:
        """The text that `Environment.bucketed` holds."""
        return f"{self.hopeless!r} to {self.saturated!r} from {self.attempts}"


class Interval(NamedTuple):
    low: float
    high: float


def bucket_of(attempts: int, rate: float, thresholds: Thresholds) -> Bucket:
    """`rate`: successes by attempts, 0 to 1; anything without attempts."""
    if not attempts:
        return "unseen"
    if attempts >= thresholds.attempts:
        if rate <= thresholds.hopeless:
            return "hopeless"
        if rate >= thresholds.saturated:
            return "saturated"
    return "learnable"


def bucket_sql(attempts: str, rate: str, thresholds: Thresholds) -> str:
    """`bucket_of` as an expression of two others, of which the first is never 0."""
    return (
        f"CASE WHEN {attempts} < {thresholds.attempts} THEN 'learnable' WHEN {rate} <= {thresholds.hopeless!r} THEN"
        f" 'hopeless' WHEN {rate} >= {thresholds.saturated!r} THEN 'saturated' ELSE 'learnable' END"
    )


def interval(successes: int, attempts: int) -> Interval:
    """Wilson's 95 % interval of the success rate, within 0 to 1; all of it without attempts."""
    if not attempts:
        return Interval(0.0, 1.0)
    rate, noise = successes / attempts, _Z**2 / attempts
    middle = rate + noise / 2
    reach = _Z * math.sqrt(rate * (1 - rate) / attempts + noise / (4 * attempts))
    # exactly 0 and 1 at the ends, where the two terms are equal but for rounding
    low = (middle - reach) / (1 + noise) if successes else 0.0
    high = (middle + reach) / (1 + noise) if successes < attempts else 1.0
    return Interval(low, high)


def statistics_in(bucket: Bucket, thresholds: Thresholds) -> Q:
    """Condition on TaskStatistics: the row over all attempts of a task in the bucket. No row is unseen's."""
    overall = Q(by="all")
    enough = Q(attempts__gte=thresholds.attempts)
    hopeless, saturated = Q(rate__lte=thresholds.hopeless), Q(rate__gte=thresholds.saturated)
    if bucket == "hopeless":
        return overall & hopeless & enough
    if bucket == "saturated":
        return overall & saturated & enough
    if bucket == "learnable":
        between = Q(rate__gt=thresholds.hopeless, rate__lt=thresholds.saturated)
        return overall & (between | Q(attempts__lt=thresholds.attempts))
    return Q(pk__in=())


def tasks_in(bucket: Bucket, thresholds: Thresholds) -> Q:
    """Condition on Task, looked up task by task and true at this moment, whatever the columns that lead lists to a
    bucket's tasks (`Task.is_unseen`, `TaskStatistics.bucket`) say meanwhile."""
    overall = TaskStatistics.objects.filter(task=OuterRef("pk"))
    if bucket == "unseen":
        return ~Q(Exists(overall.filter(by="all")))
    return Q(Exists(overall.filter(statistics_in(bucket, thresholds))))
