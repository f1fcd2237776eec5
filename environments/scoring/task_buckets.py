"""Buckets of tasks: what a task's attempts and their success rate mean to anyone who trains on it.

The caller passes the thresholds. Nothing here reads the database: queries are returned as
conditions.

*failing*     the environment failed at it: no attempt counts, or it failed often enough and at least
              as often as attempts count
*unseen*      no attempt yet
*hopeless*    enough attempts, success rate at or below a threshold: no signal to learn from
*saturated*   enough attempts, success rate at or above a threshold: nothing left to learn
*learnable*   everything else, which includes tasks with too few attempts to be called hopeless or saturated
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from django.db.models import Exists, F, OuterRef, Q

from environments.models import TaskStatistics

Bucket = Literal["failing", "unseen", "hopeless", "learnable", "saturated"]
BUCKETS: tuple[Bucket, ...] = get_args(Bucket)
LABELS: Mapping[str, str] = {
    **dict(zip(BUCKETS, BUCKETS, strict=True)),
    "hopeless": "never solved",
}
"""Names of the buckets for people."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    hopeless: float = 0.0
    """A task is hopeless at this success rate or below, 0 to 1."""
    saturated: float = 1.0
    """A task is saturated at this success rate or above, 0 to 1; greater than `hopeless`."""
    attempts: int = 4
    """Attempts that a task needs to be called hopeless or saturated, and failures of the environment
    that one with attempts needs to be called failing, 1 or more."""

    def __str__(self) -> str:
        """Return the text that `Environment.bucketed` stores."""
        return f"{self.hopeless!r} to {self.saturated!r} from {self.attempts}"


def bucket_of(attempts: int, failures: int, rate: float, thresholds: Thresholds) -> Bucket:
    """Return the bucket of a task. `failures`: rollouts that ended by a failure of the environment,
    failed setups included; `rate`: successes divided by attempts, 0 to 1, ignored without
    attempts."""
    if failures and (not attempts or failures >= max(attempts, thresholds.attempts)):
        return "failing"
    if not attempts:
        return "unseen"
    if attempts >= thresholds.attempts:
        if rate <= thresholds.hopeless:
            return "hopeless"
        if rate >= thresholds.saturated:
            return "saturated"
    return "learnable"


def bucket_sql(attempts: str, failures: str, rate: str, thresholds: Thresholds) -> str:
    """Return `bucket_of` as an SQL expression of three others."""
    return (
        f"CASE WHEN {failures} > 0 AND ({attempts} = 0 OR {failures} >= {attempts}"
        f" AND {failures} >= {thresholds.attempts}) THEN 'failing'"
        f" WHEN {attempts} = 0 THEN 'unseen'"
        f" WHEN {attempts} < {thresholds.attempts} THEN 'learnable'"
        f" WHEN {rate} <= {thresholds.hopeless!r} THEN 'hopeless'"
        f" WHEN {rate} >= {thresholds.saturated!r} THEN 'saturated' ELSE 'learnable' END"
    )


def statistics_in(bucket: Bucket, thresholds: Thresholds) -> Q:
    """Return the condition on TaskStatistics for the rows over all attempts of the bucket's tasks.

    It holds for no row if the bucket is "unseen", because unseen tasks have no row, or none with
    attempts or failures.
    """
    is_failing = Q(env_error__gt=0) & (
        Q(attempts=0) | Q(env_error__gte=F("attempts")) & Q(env_error__gte=thresholds.attempts)
    )
    if bucket == "failing":
        return Q(by="all") & is_failing
    overall = Q(by="all", attempts__gt=0) & ~is_failing
    has_enough = Q(attempts__gte=thresholds.attempts)
    is_hopeless, is_saturated = Q(rate__lte=thresholds.hopeless), Q(rate__gte=thresholds.saturated)
    if bucket == "hopeless":
        return overall & is_hopeless & has_enough
    if bucket == "saturated":
        return overall & is_saturated & has_enough
    if bucket == "learnable":
        between = Q(rate__gt=thresholds.hopeless, rate__lt=thresholds.saturated)
        return overall & (between | Q(attempts__lt=thresholds.attempts))
    return Q(pk__in=())


def tasks_in(bucket: Bucket, thresholds: Thresholds) -> Q:
    """Return the condition on Task for the bucket's tasks, which the database checks task by task.

    It is exact at any moment, while `Task.is_unseen` and `TaskStatistics.bucket`, by which lists
    find a bucket's tasks, may be out of date.
    """
    overall = TaskStatistics.objects.filter(task=OuterRef("pk"))
    if bucket == "unseen":
        has_result = Q(attempts__gt=0) | Q(env_error__gt=0)
        return ~Q(Exists(overall.filter(has_result, by="all")))
    return Q(Exists(overall.filter(statistics_in(bucket, thresholds))))
