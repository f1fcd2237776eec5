"""Paired: two or more runs on the tasks that they share, each task once, so that no run gains by easier tasks.

What a run reached at its tasks stands in RunTask; endings that nothing has followed yet are read one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection

from episodes.analytics.definition import Definition
from episodes.analytics.scope import MOST_ENDINGS
from episodes.endings import bounded, last_end
from episodes.follower.run_tasks import RunTasksPart
from episodes.models import Progress, Run
from episodes.statistics import FAILURES

Z = 1.96
"""Of a 95 % interval."""
MOST_TASKS = 20_000
"""Of each run, those that were made first: to read so many takes some 40 ms."""

# one statement, so that the follower moves no ending from one half to the other in between
_SIDES = """
    SELECT task_id, scored_{name}, total_{name} FROM (
        SELECT * FROM episodes_runtask
        WHERE run_id = %s AND (SELECT end_number FROM episodes_progress WHERE name = %s) > 0
        ORDER BY task_id LIMIT %s
    ) AS t
    UNION ALL
    SELECT e.task_id, 1, e.return_{name} FROM episodes_episode AS e
    WHERE e.run_id = %s AND e.status = 'ended' AND NOT e.is_probe AND e.cause NOT IN ({failures})
        AND e.return_{name} IS NOT NULL AND e.end_number > %s
        AND e.end_number > COALESCE((SELECT end_number FROM episodes_progress WHERE name = %s), 0)
"""


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
    """Whether a run has more than MOST_TASKS tasks, of which the others were left out."""
    is_behind: bool
    """Whether older endings are missing, for they have not been counted yet."""


def paired(runs: Sequence[Run], definition: Definition) -> Pairing:
    """Of attempts that have a return, by the definition. A query for each run, and three more."""
    floor = max(0, last_end() - MOST_ENDINGS)
    found = [_sides(run, definition, floor) for run in runs]
    shared = set(found[0]).intersection(*found[1:]) if found else set()
    tasks = [PairedTask(task, [sides[task] for sides in found]) for task in shared]
    tasks.sort(key=lambda one: (-abs(one.difference), one.task))
    versus = [_versus(run, place, tasks) for place, run in enumerate(runs)] if tasks else []
    is_bounded = any(len(sides) >= MOST_TASKS for sides in found)
    return Pairing(versus, tasks, [len(sides) for sides in found], is_bounded, _followed_to() < floor)


def _sides(run: Run, definition: Definition, floor: int) -> dict[int, Side]:
    """By task. `floor`: endings up to it count only where they have been followed. One query."""
    failures = ", ".join(f"'{cause}'" for cause in FAILURES)
    sql = _SIDES.format(name=definition.return_, failures=failures)
    totals = dict[int, tuple[int, float]]()
    with connection.cursor() as cursor:
        cursor.execute(sql, [run.pk, RunTasksPart.name, MOST_TASKS, run.pk, floor, RunTasksPart.name])
        for task, scored, total in cursor.fetchall():
            n, before = totals.get(task, (0, 0.0))
            totals[task] = n + scored, before + (bounded(total) if scored == 1 else total)  # a sum is of bounded ones
    return {task: Side(n, total / n) for task, (n, total) in totals.items() if n}


def _followed_to() -> int:
    return max(0, Progress.objects.filter(name=RunTasksPart.name).values_list("end_number", flat=True).first() or 0)


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
