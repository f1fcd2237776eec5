"""Paired: two or more runs on the tasks that they share, each task once, so that no run gains by easier tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Avg, Count, Q, QuerySet

from episodes.analytics.definition import Definition
from episodes.analytics.scope import filtered, floor_of
from episodes.endings import bounded, rows_of
from episodes.models import Episode, Run
from episodes.statistics import FAILURES

Z = 1.96
"""Of a 95 % interval."""


@dataclass(frozen=True, slots=True)
class Side:
    """One run at one task."""

    n: int
    """Attempts that have a return."""
    mean: float


@dataclass(frozen=True, slots=True)
class PairedTask:
    task: int
    sides: Sequence[Side]
    """Of the runs, in order."""

    @property
    def difference(self) -> float:
        """Mean return of the last run minus that of the first."""
        return self.sides[-1].mean - self.sides[0].mean


@dataclass(frozen=True, slots=True)
class Versus:
    """One run beside the first, over the tasks that all of them share."""

    run: Run
    mean: float
    """Of its means by task: every task counts once."""
    n: int
    """Attempts at those tasks."""
    difference: float
    """Its mean minus the first run's; 0 for the first."""
    reach: float | None
    """Half of the difference's 95 % interval, the tasks being the observations; None below two tasks."""
    wins: int
    """Tasks at which its mean is above the first's."""
    losses: int
    ties: int


@dataclass(frozen=True, slots=True)
class Pairing:
    versus: Sequence[Versus]
    """Of each run in order; empty without a shared task."""
    tasks: Sequence[PairedTask]
    """Largest difference first."""
    attempted: Sequence[int]
    """Tasks of each run."""
    is_bounded: bool
    """Whether a run has more than MOST_ENDINGS episodes, of which the newest were read."""


def paired(runs: Sequence[Run], definition: Definition) -> Pairing:
    """Of attempts that have a return, by the definition. Two queries for each run."""
    floors = [floor_of(filtered(_of(run), run.name, _of(run))) for run in runs]
    found = [_sides(_of(run).filter(pk__gt=floor), definition) for run, floor in zip(runs, floors, strict=True)]
    shared = set(found[0]).intersection(*found[1:]) if found else set()
    tasks = [PairedTask(task, [sides[task] for sides in found]) for task in shared]
    tasks.sort(key=lambda one: (-abs(one.difference), one.task))
    versus = [_versus(run, place, tasks) for place, run in enumerate(runs)] if tasks else []
    return Pairing(versus, tasks, [len(sides) for sides in found], any(floors))


def _of(run: Run) -> QuerySet[Episode]:
    return Episode.objects.filter(run=run)


def _sides(episodes: QuerySet[Episode], definition: Definition) -> dict[int, Side]:
    column = definition.column
    attempts = episodes.filter(~Q(cause__in=FAILURES), status="ended", is_probe=False, **{f"{column}__isnull": False})
    rows = attempts.order_by().values_list("task").annotate(n=Count("pk"), mean=Avg(column))
    return {task: Side(n, bounded(mean)) for task, n, mean in rows_of(rows)}


def _versus(run: Run, place: int, tasks: Sequence[PairedTask]) -> Versus:
    differences = [task.sides[place].mean - task.sides[0].mean for task in tasks]
    count, difference = len(tasks), sum(differences) / len(tasks)
    variance = sum((one - difference) ** 2 for one in differences) / (count - 1) if count > 1 else math.nan
    return Versus(
        run=run,
        mean=sum(task.sides[place].mean for task in tasks) / count,
        n=sum(task.sides[place].n for task in tasks),
        difference=difference,
        reach=Z * math.sqrt(variance / count) if count > 1 and place else None,
        wins=sum(one > 0 for one in differences),
        losses=sum(one < 0 for one in differences),
        ties=sum(one == 0 for one in differences),
    )
