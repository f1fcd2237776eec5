"""Figures of an environment, whose cost is bounded however many tasks it has. Used by its page and
the index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet, Sum

from environments.curation.selection import Count, Selection
from environments.models import Environment, Task, TaskStatistics, Viewer
from environments.models.viewer import visible_environments
from environments.scoring.convention import COUNTED_PARTS, Convention, Coverage
from environments.scoring.task_buckets import BUCKETS, Bucket
from environments.scoring.task_statistics import coverage_of_row
from environments.tasks.flags import flagged
from environments.tasks.task_states import SERVED, is_in_state

MAX_TASKS = 100_000
"""The figures of an environment with at most so many tasks are exact; all together they take half a
second at most."""
MAX_COUNTED = 2_000
"""In larger ones, and on the index, tasks are counted up to this; beyond it a figure says that
there are more."""
TESTED_FOR_ONE = 10
"""Tasks that are tested, at most, for each that may be counted: those of other environments may lie
in between."""


@dataclass(frozen=True, slots=True)
class Overview:
    """Counts of an environment's tasks and the totals of their attempts."""

    buckets: list[tuple[Bucket, Count]]
    flagged: Count
    quarantined: Count
    dropped: Count
    played: Count
    """Number of tasks that were attempted."""
    totals: TaskStatistics | None
    """Attempts and successes of all tasks; None: none was attempted, or too many to be added up for
    a page."""
    coverage: Coverage | None
    """Coverage of `totals`."""


def overview_of(environment: Environment, viewer: Viewer) -> Overview:
    """Return the figures of the environment's page."""

    is_small = (
        Task.objects.filter(environment=environment).order_by()[: MAX_TASKS + 1].count()
        <= MAX_TASKS
    )
    most = MAX_TASKS if is_small else MAX_COUNTED

    def count(**values: str) -> Count:
        selection = Selection.parse({"environment": str(environment.pk), **values}, viewer)
        return selection.count(most, max_tested=most * TESTED_FOR_ONE)

    attempts, totals = _totals(environment, most)
    return Overview(
        buckets=[(bucket, count(bucket=bucket)) for bucket in BUCKETS],
        flagged=count(flags="open", state="any"),
        quarantined=count(state="quarantined"),
        dropped=count(source="dropped", state="any"),
        played=attempts,
        totals=totals,
        coverage=None
        if totals is None
        else coverage_of_row(totals, Convention.from_code(environment.convention)),
    )


@dataclass(frozen=True, slots=True)
class Attention:
    """An environment with tasks that need attention."""

    environment: Environment
    flagged: Count
    quarantined: Count
    dropped: Count


def attention(viewer: Viewer) -> list[Attention]:
    """Return the environments with such tasks that exist for the viewer, in the order of hosting.

    Four queries, whatever their number.
    """
    is_visible = visible_environments(viewer)
    flags = _per_environment(flagged().filter(is_visible))
    quarantines = _per_environment(Task.objects.filter(is_visible, state="quarantined"))
    absences = _per_environment(Task.objects.filter(is_visible, dropped__isnull=False))
    environments = Environment.objects.filter(pk__in={*flags, *quarantines, *absences})
    nothing = Count(0, is_exact=True)

    def of(counts: Mapping[int, Count], row: Environment) -> Count:
        return counts.get(row.pk, nothing)

    return [
        Attention(row, of(flags, row), of(quarantines, row), of(absences, row))
        for row in environments
    ]


def _per_environment(tasks: QuerySet[Task]) -> dict[int, Count]:
    """Return how many of the newest MAX_COUNTED tasks each environment has."""
    newest = list(tasks.order_by("-pk").values_list("environment", flat=True)[: MAX_COUNTED + 1])
    counts, is_all = Counter(newest[:MAX_COUNTED]), len(newest) <= MAX_COUNTED
    return {
        pk: Count(count, is_all, is_over=count == MAX_COUNTED and newest[-1] == pk)
        for pk, count in counts.items()
    }


def _totals(environment: Environment, most: int) -> tuple[Count, TaskStatistics | None]:
    """Return how many tasks were attempted, counted up to `most`, and the totals of `Overview`."""
    is_served = Q(Exists(Task.objects.filter(is_in_state(SERVED), pk=OuterRef("task"))))
    of_served = TaskStatistics.objects.filter(is_served, environment=environment, by="all")
    count = of_served.filter(attempts__gt=0).order_by()[: most + 1].count()
    if count > most or not count:
        return Count(min(count, most), is_exact=count <= most, is_over=count > most), None
    sums = of_served.aggregate(
        **{name: Sum(name) for name in ("attempts", "successes", *COUNTED_PARTS)}
    )
    counts = {name: value or 0 for name, value in sums.items()}
    attempts = counts["attempts"]
    total = TaskStatistics(**counts, rate=counts["successes"] / attempts if attempts else 0.0)
    return Count(count, is_exact=True), total
