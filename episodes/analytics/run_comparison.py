"""Paired comparison of two or more runs on the tasks that they share, each task once, so that no run gains by easier
tasks.

RunTask holds what a run reached at its tasks; endings that the follower has not reached yet are read one by one.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db import connection

from environments.scoring.convention import Coverage, coverage_of
from environments.scoring.definition import Definition
from environments.scoring.task_buckets import Z_95
from episodes.analytics.figures import mean_and_deviation
from episodes.analytics.paired_statistics import PairedEvidence, evidence_of
from episodes.analytics.scopes import MAX_ENDINGS
from episodes.attempts.endings import MAX_RETURN
from episodes.models import Episode, Run
from episodes.rollups.progress import followed_to, last_end
from episodes.rollups.run_tasks import RunTasksPart

MAX_TASKS = 20_000
"""Rows of each run that are read, those of the tasks that were created first: so many take about 40 ms. A task has one
row, and one more for each kind of ending that is counted apart."""

_BOUNDED = "CASE WHEN {value} > {most} THEN {most} WHEN {value} < -{most} THEN -{most} ELSE {value} END"
_KIND = "CASE WHEN e.cause IN ('finished', 'abandoned') THEN '' ELSE e.cause END"
# one statement, so that the follower cannot move an ending from one half to the other between two
_SIDES = """
    SELECT task_id, kind, attempts, scored_{name}, total_{name} FROM (
        SELECT * FROM episodes_runtask
        WHERE run_id = %s AND (SELECT end_number FROM episodes_progress WHERE name = %s) > 0
        ORDER BY task_id LIMIT %s
    ) AS t
    UNION ALL
    SELECT e.task_id, {kind}, 1,
        CASE WHEN e.return_{name} IS NULL THEN 0 ELSE 1 END, COALESCE({bounded}, 0.0)
    FROM episodes_episode AS e
    WHERE e.run_id = %s AND {is_rollout} AND e.end_number > %s
        AND e.end_number > COALESCE((SELECT end_number FROM episodes_progress WHERE name = %s), 0)
"""


class Side(NamedTuple):
    """The results of one run at one task."""

    scored: int
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
    scored: int
    """Number of attempts at the shared tasks that have a return."""
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
    evidence: PairedEvidence | None
    """What the differences between two runs say; None for more runs, or below two shared tasks."""
    shared: int
    """Number of tasks that all runs attempted."""
    attempted: Sequence[int]
    """Number of tasks of each run, in order."""
    coverage: Sequence[Coverage]
    """Coverage of each run's rollouts at all of its tasks, in order."""
    is_bounded: bool
    """Whether a run has MAX_TASKS rows or more, beyond which tasks are left out."""
    is_behind: bool
    """Whether older endings are missing because they have not been counted yet."""


class RunTotals(NamedTuple):
    """What a run reached at its tasks."""

    tasks: dict[int, tuple[int, float]]
    """By task: the number of attempts that have a return, one or more, and the sum of their returns."""
    kinds: dict[str, int]
    """Number of rollouts by kind of ending; "" for those that finished or were abandoned."""
    is_bounded: bool


_OF_REVISIONS = """
    SELECT e.task_id, {kind}, COUNT(*), COUNT(e.return_{name}), COALESCE(SUM({bounded}), 0.0)
    FROM episodes_episode AS e
    WHERE e.run_id = %s AND {is_rollout} AND e.end_number > %s AND e.revision_id IN ({revisions})
    GROUP BY 1, 2 ORDER BY 1 LIMIT %s
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
    shared = sorted(set(found[0].tasks).intersection(*(one.tasks for one in found[1:]))) if found else []
    # by run, then by task: a run may have thousands
    sides = [[totals.tasks[task] for task in shared] for totals in found]
    means = [[total / scored for scored, total in of_run] for of_run in sides]
    differences = [difference_of(last, first) for first, last in zip(means[0], means[-1], strict=True)]
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
        evidence=evidence_of(differences) if len(runs) == 2 and len(shared) > 1 else None,
        shared=len(shared),
        attempted=[len(totals.tasks) for totals in found],
        coverage=[coverage_of(totals.kinds, definition.convention) for totals in found],
        is_bounded=any(totals.is_bounded for totals in found),
        is_behind=followed_to(RunTasksPart.name) < floor,
    )


def _totals(run: Run, definition: Definition, floor: int) -> RunTotals:
    """Return what a run reached by task. One query.

    Endings up to `floor` count only if the follower has reached them.
    """
    name = definition.return_
    bounded = _BOUNDED.format(value=f"e.return_{name}", most=MAX_RETURN)
    is_rollout = Episode.objects.rollouts().condition_sql("e")
    part = RunTasksPart.name
    with connection.cursor() as cursor:
        sql = _SIDES.format(name=name, kind=_KIND, bounded=bounded, is_rollout=is_rollout)
        cursor.execute(sql, [run.pk, part, MAX_TASKS, run.pk, floor, part])
        return _added(cursor.fetchall(), definition)


def _totals_of_revisions(run: Run, definition: Definition, floor: int, revisions: Sequence[int]) -> RunTotals:
    """Return what a run reached by task with these revisions of environments, in the endings after `floor`."""
    name = definition.return_
    bounded = _BOUNDED.format(value=f"e.return_{name}", most=MAX_RETURN)
    is_rollout = Episode.objects.rollouts().condition_sql("e")
    ids = ", ".join(str(int(pk)) for pk in revisions)
    sql = _OF_REVISIONS.format(name=name, kind=_KIND, bounded=bounded, is_rollout=is_rollout, revisions=ids)
    with connection.cursor() as cursor:
        cursor.execute(sql, [run.pk, floor, MAX_TASKS])
        return _added(cursor.fetchall(), definition)


def _added(rows: Sequence[tuple[int, str, int, int, float]], definition: Definition) -> RunTotals:
    """Add up rows in which a task may occur more than once, or without a return."""
    treatments = definition.convention.treatments
    tasks: dict[int, tuple[int, float]] = {}
    kinds: dict[str, int] = defaultdict(int)
    for task, kind, attempts, scored, total in rows:
        kinds[kind] += attempts
        if kind:
            treatment = treatments.get(kind, "keep")
            if treatment == "out":
                continue
            if treatment == "zero":
                scored, total = attempts, 0.0
        if scored:
            before, returns = tasks.get(task, (0, 0.0))
            tasks[task] = before + scored, returns + total
    return RunTotals(tasks, kinds, len(rows) >= MAX_TASKS)


def difference_of(mean: float, base: float) -> float:
    """Return `mean - base`, and 0 if they differ only because floats were added in another order."""
    return 0.0 if math.isclose(mean, base, rel_tol=1e-12, abs_tol=1e-12) else mean - base


def _versus(run: Run, sides: Sequence[tuple[int, float]], means: Sequence[float], *, first: Sequence[float]) -> Versus:
    """Compare the means of a run by task with those of the `first` run."""
    differences = [difference_of(mean, base) for mean, base in zip(means, first, strict=True)]
    count = len(means)
    difference, deviation = mean_and_deviation(differences)
    return Versus(
        run=run,
        mean=sum(means) / count,
        scored=sum([scored for scored, _ in sides]),
        difference=difference,
        reach=Z_95 * deviation / math.sqrt(count - 1) if count > 1 and means is not first else None,
        wins=sum([one > 0 for one in differences]),
        losses=sum([one < 0 for one in differences]),
        ties=differences.count(0),
    )
