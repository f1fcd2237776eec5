"""Paired comparison of two or more runs on the tasks that they share, each task once, so that no
run gains by easier tasks.

RunTask holds what a run reached at its tasks; endings that the follower has not reached yet are
read one by one.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db import connection

from environments.models import Split
from environments.scoring.convention import Coverage, coverage_of, coverages_together
from environments.scoring.definition import Definition, Definitions
from environments.scoring.returns import MAX_RETURN
from environments.scoring.task_buckets import Z_95
from environments.wire import NO_NUMBER
from episodes.attempts.rule import ENDED
from episodes.figures.comparison.paired_statistics import PairedEvidence, evidence_of
from episodes.figures.figures import mean_and_deviation
from episodes.figures.scopes import MAX_ENDINGS
from episodes.figures.summary_cover import STILL_COUNTED
from episodes.models import Episode, Run
from episodes.rollups.progress import followed_to
from episodes.rollups.run_tasks import RunTasksPart

MAX_TASKS = 20_000
"""Rows of each run that are read, those of the tasks that were created first: so many take about 40
ms. A task has one row, and one more for each kind of ending that is counted apart."""

_BOUNDED = (
    "CASE WHEN {value} > {most} THEN {most} WHEN {value} < -{most} THEN -{most} ELSE {value} END"
)
_KIND = (
    "CASE WHEN e.cause IN ('finished', 'abandoned') THEN '' ELSE e.cause END"
    " || CASE WHEN e.cause IN ('finished', 'abandoned', 'expired')"
    f" AND e.detail LIKE '%%{NO_NUMBER}%%' THEN '_nan' ELSE '' END"
)
# one statement, so that the follower cannot move an ending from one half to the other between two
_SIDES = """
    SELECT t.task_id, {environment}, t.kind, t.attempts, {scored}, {total} FROM (
        SELECT * FROM episodes_runtask
        WHERE run_id = %s {of_rows} AND (SELECT end_number FROM episodes_progress WHERE name = %s) > 0
        ORDER BY task_id LIMIT %s
    ) AS t {tasks}
    UNION ALL
    SELECT e.task_id, e.environment_id, {kind}, 1,
        CASE WHEN {value} IS NULL THEN 0 ELSE 1 END, COALESCE({bounded}, 0.0)
    FROM episodes_episode AS e
    WHERE e.run_id = %s {of_episodes} AND {is_rollout} AND e.end_number > %s
        AND e.end_number > COALESCE((SELECT end_number FROM episodes_progress WHERE name = %s), 0)
"""
_TASKS = "LEFT JOIN environments_task AS k ON k.id = t.task_id"


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
    """Half the width of the difference's 95 % interval, with tasks as observations; None below two
    tasks."""
    wins: int
    """Tasks at which its mean is above the first run's."""
    losses: int
    """Tasks at which its mean is below the first run's."""
    ties: int
    """Tasks at which both means are equal."""


@dataclass(frozen=True, slots=True)
class Pairing:
    definition: Definitions
    """The definition of the attempts, or the definitions of their environments where these
    differ."""
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
    missing: str
    """A sentence about older episodes that are not counted yet; empty if none are missing."""


class RunTotals(NamedTuple):
    """What a run reached at its tasks."""

    tasks: dict[int, tuple[int, float]]
    """By task: the number of attempts that have a return, one or more, and the sum of their
    returns."""
    kinds: dict[int, dict[str, int]]
    """Number of rollouts by environment and kind of ending; "" for those that finished or were
    abandoned."""
    is_bounded: bool


_OF_REVISIONS = """
    SELECT e.task_id, e.environment_id, {kind}, COUNT(*), COUNT({value}), COALESCE(SUM({bounded}), 0.0)
    FROM episodes_episode AS e
    WHERE e.run_id = %s {of_episodes} AND {is_rollout} AND e.end_number > %s AND e.revision_id IN ({revisions})
    GROUP BY 1, 2, 3 ORDER BY 1 LIMIT %s
"""


def paired(
    runs: Sequence[Run],
    definitions: Definitions,
    most: int,
    revisions: Sequence[int] = (),
    split: Split | None = None,
) -> Pairing:
    """Compare one run or more by their attempts that have a return, each task by the definition of
    its environment.

    The result has `most` tasks at most. `revisions`: ids of the revisions whose episodes count, of
    which the newest MAX_ENDINGS endings are read; empty: all. `split`: of which alone attempts
    count. One query for each run, and three more.
    """
    endings = Episode.objects.filter(ENDED, end_number__gt=0).order_by("-end_number")
    numbers = endings.values_list("end_number", flat=True)
    floor = next(iter(numbers[MAX_ENDINGS : MAX_ENDINGS + 1]), 0) or 0
    totals_by_run = [_totals(run, definitions, floor, revisions, split) for run in runs]
    tasks = sorted(set.intersection(*(set(totals.tasks) for totals in totals_by_run)))
    # by run, then by task: a run may have thousands
    sides = [[totals.tasks[task] for task in tasks] for totals in totals_by_run]
    means = [[total / scored for scored, total in of_run] for of_run in sides]
    differences = [
        difference_of(last, first) for first, last in zip(means[0], means[-1], strict=True)
    ]
    places = heapq.nsmallest(most, range(len(tasks)), key=lambda place: -abs(differences[place]))
    return Pairing(
        definition=definitions.among({pk for totals in totals_by_run for pk in totals.kinds}),
        versus=[
            _versus(run, of_run, mean, first=means[0])
            for run, of_run, mean in zip(runs, sides, means, strict=True)
            if tasks
        ],
        tasks=[
            PairedTask(
                tasks[place],
                [
                    Side(of_run[place][0], mean[place])
                    for of_run, mean in zip(sides, means, strict=True)
                ],
                differences[place],
            )
            for place in places
        ],
        evidence=evidence_of(differences) if len(runs) == 2 and len(tasks) > 1 else None,
        shared=len(tasks),
        attempted=[len(totals.tasks) for totals in totals_by_run],
        coverage=[
            coverages_together(
                [
                    coverage_of(counts, definitions.of(pk).convention)
                    for pk, counts in totals.kinds.items()
                ]
            )
            for totals in totals_by_run
        ],
        is_bounded=any(totals.is_bounded for totals in totals_by_run),
        missing=STILL_COUNTED if followed_to(RunTasksPart.name) < floor else "",
    )


def _totals(
    run: Run, definitions: Definitions, floor: int, revisions: Sequence[int], split: Split | None
) -> RunTotals:
    """Return what a run reached by task, with these revisions of environments in the endings after
    `floor`. Without revisions, endings up to `floor` count if the follower has reached them. One
    query."""
    value, part = _column(definitions, "e.environment_id", "e.return_"), RunTasksPart.name
    is_alone = isinstance(definitions, Definition)
    sql = _OF_REVISIONS if revisions else _SIDES
    values: Sequence[int | str] = [run.pk, part, MAX_TASKS, run.pk, floor, part]
    if revisions:
        values = [run.pk, floor, MAX_TASKS]
    sql = sql.format(
        environment="0" if is_alone else "k.environment_id",
        scored=_column(definitions, "k.environment_id", "t.scored_"),
        total=_column(definitions, "k.environment_id", "t.total_"),
        tasks="" if is_alone else _TASKS,
        kind=_KIND,
        value=value,
        bounded=_BOUNDED.format(value=value, most=MAX_RETURN),
        is_rollout=Episode.objects.rollouts().condition_sql("e"),
        revisions=", ".join(str(int(pk)) for pk in revisions),
        of_rows=_of_split("split_id", split),
        of_episodes=_of_split("e.split_id", split),
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return _added(cursor.fetchall(), definitions)


def _of_split(column: str, split: Split | None) -> str:
    """Return the condition on rows of one split as SQL; empty for None."""
    return "" if split is None else f"AND {column} = {int(split.pk)}"


def _column(definitions: Definitions, environment: str, prefix: str) -> str:
    """Return the column that holds the return, as SQL that compares the column `environment` where
    they differ."""
    if isinstance(definitions, Definition):
        return f"{prefix}{definitions.return_}"
    by_return = {name: ", ".join(map(str, ids)) for name, ids in definitions.by_return.items()}
    whens = " ".join(
        f"WHEN {environment} IN ({ids}) THEN {prefix}{name}" for name, ids in by_return.items()
    )
    return f"CASE {whens} ELSE {prefix}{definitions.other.return_} END"


def _added(
    rows: Sequence[tuple[int, int | None, str, int, int, float]], definitions: Definitions
) -> RunTotals:
    """Add up rows in which a task may occur more than once, or without a return."""
    tasks: dict[int, tuple[int, float]] = {}
    kinds: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for task, environment, kind, attempts, scored, total in rows:
        kinds[environment or 0][kind] += attempts
        if kind:
            treatment = definitions.of(environment).convention.treatments.get(kind, "keep")
            if treatment == "out":
                continue
            if treatment == "zero":
                scored, total = attempts, 0.0
        if scored:
            before, returns = tasks.get(task, (0, 0.0))
            tasks[task] = before + scored, returns + total
    return RunTotals(tasks, kinds, len(rows) >= MAX_TASKS)


def difference_of(mean: float, base: float) -> float:
    """Return `mean - base`, and 0 if they differ only because floats were added in another
    order."""
    return 0.0 if math.isclose(mean, base, rel_tol=1e-12, abs_tol=1e-12) else mean - base


def _versus(
    run: Run, sides: Sequence[tuple[int, float]], means: Sequence[float], *, first: Sequence[float]
) -> Versus:
    """Compare the means of a run by task with those of the `first` run."""
    differences = [difference_of(mean, base) for mean, base in zip(means, first, strict=True)]
    count = len(means)
    difference, deviation = mean_and_deviation(differences)
    has_reach = count > 1 and means is not first
    return Versus(
        run=run,
        mean=sum(means) / count,
        scored=sum([attempts for attempts, _ in sides]),
        difference=difference,
        reach=Z_95 * deviation / math.sqrt(count - 1) if has_reach else None,
        wins=sum(value > 0 for value in differences),
        losses=sum(value < 0 for value in differences),
        ties=differences.count(0),
    )
