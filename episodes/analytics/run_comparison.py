"""Paired comparison of two or more runs on the tasks that they share, each task once, so that no run gains by easier
tasks.

RunTask holds what a run reached at its tasks; endings that the follower has not reached yet are read one by one.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db import connection

from environments.scoring.definition import Definition
from episodes.analytics.figures import mean_and_deviation
from episodes.analytics.scopes import MAX_ENDINGS
from episodes.attempts.endings import MAX_RETURN
from episodes.models import Episode, Run
from episodes.rollups.progress import followed_to, last_end
from episodes.rollups.run_tasks import RunTasksPart

Z = 1.96
"""Standard errors on each side of a 95 % interval."""
MAX_TASKS = 20_000
"""Tasks of each run that are read, those that were created first: so many take about 40 ms."""

_BOUNDED = "CASE WHEN {value} > {most} THEN {most} WHEN {value} < -{most} THEN -{most} ELSE {value} END"
# one statement, so that the follower cannot move an ending from one half to the other between two
_SIDES = """
    SELECT task_id, scored_{name}, total_{name} FROM (
        SELECT * FROM episodes_runtask
        WHERE run_id = %s AND (SELECT end_number FROM episodes_progress WHERE name = %s) > 0
        ORDER BY task_id LIMIT %s
    ) AS t
    UNION ALL
    SELECT e.task_id, 1, {bounded} FROM episodes_episode AS e
    WHERE e.run_id = %s AND {is_attempt}
        AND e.return_{name} IS NOT NULL AND e.end_number > %s
        AND e.end_number > COALESCE((SELECT end_number FROM episodes_progress WHERE name = %s), 0)
"""


class Side(NamedTuple):
    """The results of one run at one task."""

    n: int
    """Attempts that have a return."""
    mean: float
    """Mean return of the attempts."""


class PairedTask(NamedTuple):
    task: int
    sides: Sequence[Side]
    """One side for each run, in order."""
    difference: float
    """Mean return of the last run minus that of the first."""


@dataclass(frozen=True, slots=True)
class Versus:
    """One run compared with the first, over the tasks that all runs share."""

    run: Run
    mean: float
    """Mean of its means by task, so that every task counts once."""
    n: int
    """Number of attempts at the shared tasks."""
    difference: float
    """Mean of the run minus that of the first run; 0 for the first."""
    reach: float | None
    """Half the width of the difference's 95 % interval, with tasks as observations; None below two tasks."""
    wins: int
    """Tasks at which its mean is above the first run's."""
    losses: int
    """Tasks at which its mean is below the first run's."""
    ties: int
    """Tasks at which both means are equal."""


@dataclass(frozen=True, slots=True)
class Pairing:
    versus: Sequence[Versus]
    """One comparison for each run, in order; empty without a shared task."""
    tasks: Sequence[PairedTask]
    """The shared tasks with the largest differences, the largest first."""
    shared: int
    """Number of tasks that all runs attempted."""
    attempted: Sequence[int]
    """Number of tasks of each run, in order."""
    is_bounded: bool
    """Whether a run has MAX_TASKS tasks or more, beyond which tasks are left out."""
    is_behind: bool
    """Whether older endings are missing because they have not been counted yet."""


Totals = dict[int, tuple[int, float]]
"""By task: the number of attempts that have a return, one or more, and the sum of their returns."""


_OF_REVISIONS = """
    SELECT e.task_id, COUNT(*), SUM({bounded}) FROM episodes_episode AS e
    WHERE e.run_id = %s AND {is_attempt} AND e.return_{name} IS NOT NULL AND e.end_number > %s
        AND e.revision_id IN ({revisions})
    GROUP BY e.task_id ORDER BY e.task_id LIMIT %s
"""


def paired(runs: Sequence[Run], definition: Definition, most: int, revisions: Sequence[int] = ()) -> Pairing:
    """Compare runs by their attempts that have a return by the definition; the result has `most` tasks at most.

    `revisions`: ids of the revisions whose episodes count, of which the newest MAX_ENDINGS endings are read; empty:
    all. One query for each run, and three more.
    """
    floor = max(0, last_end() - MAX_ENDINGS)
    if revisions:
        found = [_totals_of_revisions(run, definition, floor, revisions) for run in runs]
    else:
        found = [_totals(run, definition, floor) for run in runs]
    shared = sorted(set(found[0]).intersection(*found[1:])) if found else []
    # by run, then by task: a run may have thousands
    sides = [[totals[task] for task in shared] for totals in found]
    means = [[total / n for n, total in of_run] for of_run in sides]
    differences = [_difference(last, first) for first, last in zip(means[0], means[-1], strict=True)]
    places = heapq.nsmallest(most, range(len(shared)), key=lambda place: -abs(differences[place]))
    return Pairing(
        versus=[_versus(*each, first=means[0]) for each in zip(runs, sides, means, strict=True)] if shared else [],
        tasks=[
            PairedTask(
                shared[place],
                [Side(of_run[place][0], mean[place]) for of_run, mean in zip(sides, means, strict=True)],
                differences[place],
            )
            for place in places
        ],
        shared=len(shared),
        attempted=[len(totals) for totals in found],
        is_bounded=any(len(totals) >= MAX_TASKS for totals in found),
        is_behind=followed_to(RunTasksPart.name) < floor,
    )


def _totals(run: Run, definition: Definition, floor: int) -> Totals:
    """Return what a run reached by task. One query.

    Endings up to `floor` count only if the follower has reached them.
    """
    name = definition.return_
    bounded = _BOUNDED.format(value=f"e.return_{name}", most=MAX_RETURN)
    is_attempt = Episode.objects.attempts().condition_sql("e")
    part = RunTasksPart.name
    with connection.cursor() as cursor:
        sql = _SIDES.format(name=name, bounded=bounded, is_attempt=is_attempt)
        cursor.execute(sql, [run.pk, part, MAX_TASKS, run.pk, floor, part])
        rows = cursor.fetchall()
    found: Totals = {task: (n, total) for task, n, total in rows if n}
    return found if len(found) == len(rows) else _added(rows)


def _totals_of_revisions(run: Run, definition: Definition, floor: int, revisions: Sequence[int]) -> Totals:
    """Return what a run reached by task with these revisions of environments, in the endings after `floor`."""
    name = definition.return_
    bounded = _BOUNDED.format(value=f"e.return_{name}", most=MAX_RETURN)
    is_attempt = Episode.objects.attempts().condition_sql("e")
    ids = ", ".join(str(int(pk)) for pk in revisions)
    sql = _OF_REVISIONS.format(name=name, bounded=bounded, is_attempt=is_attempt, revisions=ids)
    with connection.cursor() as cursor:
        cursor.execute(sql, [run.pk, floor, MAX_TASKS])
        return {task: (n, total) for task, n, total in cursor.fetchall()}


def _added(rows: Iterable[tuple[int, int, float]]) -> Totals:
    """Add up rows in which a task may occur more than once, or without a return."""
    found: Totals = {}
    for task, n, total in rows:
        before, returns = found.get(task, (0, 0.0))
        if n:
            found[task] = before + n, returns + total
    return found


def _difference(mean: float, base: float) -> float:
    """Return `mean - base`, and 0 if they differ only because floats were added in another order."""
    return 0.0 if math.isclose(mean, base, rel_tol=1e-12, abs_tol=1e-12) else mean - base


def _versus(run: Run, sides: Sequence[tuple[int, float]], means: Sequence[float], *, first: Sequence[float]) -> Versus:
    """Compare the means of a run by task with those of the `first` run."""
    differences = [_difference(mean, base) for mean, base in zip(means, first, strict=True)]
    count = len(means)
    difference, deviation = mean_and_deviation(differences)
    return Versus(
        run=run,
        mean=sum(means) / count,
        n=sum([n for n, _ in sides]),
        difference=difference,
        reach=Z * deviation / math.sqrt(count - 1) if count > 1 and means is not first else None,
        wins=sum([one > 0 for one in differences]),
        losses=sum([one < 0 for one in differences]),
        ties=differences.count(0),
    )
