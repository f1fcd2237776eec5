"""Overview: figures of an environment that cost the same whatever the number of its tasks. Read by pages."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from django.db.models import QuerySet, Sum

from environments.curation.flags import flagged
from environments.curation.selection import Count, Selection
from environments.models import Environment, Task, TaskStatistics
from environments.scoring.buckets import BUCKETS, Bucket

MAX_COUNTED = 2_000
"""So many of anything are counted; beyond it a figure says that there are more."""
COUNT_SECONDS = 0.03
"""So long one figure may take."""


@dataclass(frozen=True, slots=True)
class Overview:
    buckets: list[tuple[Bucket, Count]]
    flagged: Count
    quarantined: Count
    dropped: Count
    played: Count
    """Tasks that were attempted."""
    totals: TaskStatistics | None
    """Attempts and successes of all of them; None: of too many to be added up for a page, or of none."""


def overview_of(environment: Environment) -> Overview:
    def count(**values: str) -> Count:
        chosen = Selection.parse({"environment": str(environment.pk), **values})
        return chosen.count(MAX_COUNTED, COUNT_SECONDS)

    played, totals = _totals(environment)
    return Overview(
        buckets=[(bucket, count(bucket=bucket)) for bucket in BUCKETS],
        flagged=count(flags="open"),
        quarantined=count(state="quarantined"),
        dropped=count(source="dropped"),
        played=played,
        totals=totals,
    )


@dataclass(frozen=True, slots=True)
class Attention:
    """An environment with tasks that somebody should look at; each count is MAX_COUNTED at most."""

    environment: Environment
    flagged: int
    quarantined: int
    dropped: int


def attention() -> list[Attention]:
    """In the order of hosting. Four queries, whatever the number of tasks and environments."""
    flags = _per_environment(flagged())
    quarantined = _per_environment(Task.objects.filter(state="quarantined"))
    dropped = _per_environment(Task.objects.filter(dropped__isnull=False))
    found = Environment.objects.filter(pk__in={*flags, *quarantined, *dropped})
    return [Attention(one, flags[one.pk], quarantined[one.pk], dropped[one.pk]) for one in found]


def _per_environment(tasks: QuerySet[Task]) -> Counter[int]:
    return Counter(tasks.order_by("-pk").values_list("environment", flat=True)[:MAX_COUNTED])


def _totals(environment: Environment) -> tuple[Count, TaskStatistics | None]:
    rows = TaskStatistics.objects.filter(environment=environment, by="all").order_by("task")
    ids = list(rows.values_list("pk", flat=True)[: MAX_COUNTED + 1])
    if len(ids) > MAX_COUNTED or not ids:
        return Count(min(len(ids), MAX_COUNTED), len(ids) <= MAX_COUNTED), None
    sums = TaskStatistics.objects.filter(environment=environment, by="all").aggregate(
        attempts=Sum("attempts"), successes=Sum("successes")
    )
    attempts, successes = sums["attempts"] or 0, sums["successes"] or 0
    total = TaskStatistics(attempts=attempts, successes=successes, rate=successes / attempts if attempts else 0.0)
    return Count(len(ids), True), total
