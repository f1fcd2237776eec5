"""Paired comparison of two or more runs by several measures on the tasks that they share, each task
once, so that no run gains by easier tasks."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from django.db.models import Case, Count, F, FloatField, Q, QuerySet, Sum, Value, When

from environments.scoring.convention import Coverage, coverage_of, coverages_together
from environments.scoring.definition import Definitions
from environments.scoring.returns import MAX_RETURN
from environments.scoring.success_interval import Z_95
from episodes.attempts.conventions import ConventionsInForce
from episodes.attempts.endings import rows_of
from episodes.attempts.rule import FAILURES, KIND
from episodes.figures.comparison.compared_episodes import ComparedEpisodes
from episodes.figures.comparison.measures import MEASURES, Measure
from episodes.figures.comparison.paired_statistics import (
    MAX_RESAMPLED,
    PairedEvidence,
    evidence_of,
)
from episodes.figures.comparison.success_test import exact_test, largest_significant
from episodes.figures.scope_figures import mean_and_deviation
from episodes.models import Episode, Rollout, Run
from episodes.uploads.matching import CERTAIN

MAX_TASKS = 20_000
"""Rows of each run that are read, those of the tasks that were created first: so many take about 40
ms. A task has one row, and one more for each kind of ending that is counted apart."""

MAX_IN_ORDER = 3
"""Runs of which the first is the baseline: somebody who compares few names them in order."""
NO_TALLIES = ((0, 0.0),) * len(MEASURES)


Tally = tuple[int, float]
"""Number of attempts that have a measure, and the sum of it."""


class RunFigure(NamedTuple):
    """One run by one measure, over the tasks at which all runs have it."""

    run: Run
    measure: Measure
    mean: float
    """Mean of its means by task, so that every task counts once."""
    reach: float | None
    """Half the width of the mean's 95 % interval, with tasks as observations; None below two
    tasks."""
    attempts: int
    """Number of attempts at these tasks that have the measure."""
    evidence: PairedEvidence | None
    """What the differences from the baseline say; None for the baseline, and below two tasks."""

    @property
    def verdict(self) -> str:
        """Return "worse" or "better" if it differs clearly from the baseline, else an empty
        text."""
        if self.evidence is None or not self.evidence.is_significant:
            return ""
        return "worse" if (self.evidence.difference < 0) != self.measure.is_cost else "better"

    @property
    def words(self) -> str:
        """Return how it differs from the baseline."""
        if not self.verdict or self.evidence is None:
            return "not significant"
        return self.measure.less if self.evidence.difference < 0 else self.measure.more


@dataclass(frozen=True, slots=True)
class RunsByMeasure:
    measure: Measure
    tasks: int
    """Number of tasks at which all runs have it, one or more."""
    runs: Sequence[RunFigure]

    @property
    def is_regression(self) -> bool:
        return any(figure.verdict == "worse" for figure in self.runs)


class TaskFigure(NamedTuple):
    """One task by one measure."""

    measure: Measure
    means: Sequence[float]
    """By run; empty if a run lacks the measure."""
    baseline: int
    """Place of the baseline among the runs."""

    @property
    def own(self) -> float:
        """Return the mean of the baseline."""
        return self.means[self.baseline]

    @property
    def _others(self) -> list[float]:
        return [mean for place, mean in enumerate(self.means) if place != self.baseline]

    @property
    def lowest(self) -> float:
        """Return the lowest mean of another run."""
        return min(self._others)

    @property
    def highest(self) -> float:
        return max(self._others)

    @property
    def difference(self) -> float | None:
        """Return the mean of the other runs minus the baseline's; None if a run lacks the
        measure."""
        return difference_of(fmean(self._others), self.own) if self.means else None

    @property
    def gain(self) -> float:
        """Return the difference with a sign that is below 0 if the other runs are worse."""
        difference = self.difference or 0.0
        return -difference if self.measure.is_cost else difference


class PairedTask(NamedTuple):
    task: int
    tallies: Sequence[Sequence[Tally]]
    """By measure, then by run; the tally of success counts all attempts."""
    means: Sequence[Sequence[float]]
    """By measure, then by run; empty for a measure that a run lacks."""
    baseline: int
    """Place of the baseline among the runs."""
    is_significant: bool = False
    """Whether success differs by more than chance, among as many tasks as are compared."""

    @property
    def attempts(self) -> list[int]:
        """Return the attempts of each run."""
        return [count for count, _ in self.tallies[0]]

    @property
    def p(self) -> float:
        """How likely rates of success at least as different as those of the baseline and of the
        other runs together are by chance."""
        attempts, successes = map(sum, zip(*self.tallies[0], strict=True))
        own_attempts, own_successes = self.tallies[0][self.baseline]
        return exact_test(
            int(successes - own_successes),
            int(attempts - own_attempts),
            int(own_successes),
            own_attempts,
        )

    @property
    def is_worse(self) -> bool:
        """Whether the other runs are worse than the baseline by success, or by return where success
        is equal."""
        success, return_, *_ = self.figures
        return (success.gain, return_.gain) < (0.0, 0.0)

    @property
    def figures(self) -> list[TaskFigure]:
        return [
            TaskFigure(measure, means, self.baseline)
            for measure, means in zip(MEASURES, self.means, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Pairing:
    definition: Definitions
    """The definition of the attempts, or the definitions of their environments where these
    differ."""
    baseline: int
    """Place of the run with which the others are compared."""
    measures: Sequence[RunsByMeasure]
    """Those that all runs have at a shared task: first those by which a run is worse, in the order
    of MEASURES."""
    tasks: Sequence[PairedTask]
    """Shared tasks, first those at which the other runs are significantly worse than the baseline,
    then others at which they are, by success and by the other measures."""
    worse: int
    """Number of shared tasks at which the other runs are worse than the baseline."""
    significant: int
    """Number of shared tasks at which success differs by more than chance."""
    shared: int
    """Number of tasks that all runs attempted."""
    attempted: Sequence[int]
    """Number of tasks of each run, in order."""
    coverage: Sequence[Coverage]
    """Coverage of each run's rollouts at all of its tasks, in order."""
    is_bounded: bool
    """Whether a run has MAX_TASKS rows or more, beyond which tasks are left out."""


class TaskTotals(NamedTuple):
    """What a run reached at its tasks."""

    tasks: dict[int, list[Tally]]
    """By task, then by measure."""
    kinds: dict[int, dict[str, int]]
    """Number of rollouts by environment and kind of ending."""
    is_bounded: bool


def pairing_of(
    runs: Sequence[Run],
    definitions: Definitions,
    most: int,
    episodes: ComparedEpisodes | None = None,
    *,
    baseline: int | None = None,
    is_worse_only: bool = False,
) -> Pairing:
    """Compare one run or more by their attempts, each task by the definition of its environment.

    `baseline`: place of the run with which the others are compared; None: of up to MAX_IN_ORDER
    runs the first, of more the one that succeeds most often. The result has `most` tasks at most,
    with `is_worse_only` of those at which the others are worse. Two queries for each run, and two
    more.
    """
    episodes = episodes or ComparedEpisodes()
    has_tokens = Rollout.objects.filter(episode__isnull=False).exists()
    totals_by_run = [_totals(run, definitions, episodes, has_tokens=has_tokens) for run in runs]
    shared_tasks = sorted(set.intersection(*(set(totals.tasks) for totals in totals_by_run)))
    tasks = [
        _paired_task(task, [totals.tasks[task] for totals in totals_by_run], baseline or 0)
        for task in shared_tasks
    ]
    if baseline is None and len(runs) > MAX_IN_ORDER and tasks:
        baseline = _best(tasks)
        tasks = [task._replace(baseline=baseline) for task in tasks]
    baseline = baseline or 0
    measures = [
        measure
        for place in range(len(MEASURES))
        if (measure := _by_measure(place, runs, tasks, baseline)) is not None
    ]
    largest = largest_significant([task.p for task in tasks])
    tasks = [task._replace(is_significant=task.p <= largest) for task in tasks]
    worse = [task for task in tasks if task.is_worse]
    return Pairing(
        definition=definitions.among({pk for totals in totals_by_run for pk in totals.kinds}),
        baseline=baseline,
        measures=sorted(measures, key=lambda measure: not measure.is_regression),
        tasks=heapq.nsmallest(
            most,
            worse if is_worse_only else tasks,
            key=lambda task: [
                not (task.is_worse and task.is_significant),
                *(figure.gain for figure in task.figures),
            ],
        ),
        worse=len(worse),
        significant=sum(task.is_significant for task in tasks),
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
    )


def _totals(
    run: Run, definitions: Definitions, episodes: ComparedEpisodes, *, has_tokens: bool
) -> TaskTotals:
    """Return what the run reached by task. Two queries at most."""
    value, of_run = definitions.value(), episodes.of(run).order_by()
    bounded_return = Case(
        When(value__gt=MAX_RETURN, then=Value(MAX_RETURN)),
        When(value__lt=-MAX_RETURN, then=Value(-MAX_RETURN)),
        default=F("value"),
        output_field=FloatField(),
    )
    rows = of_run.annotate(value=value, kind=KIND).values_list("task", "environment", "kind")
    rows = rows.annotate(
        count=Count("pk"),
        scored=Count("value"),
        total=Sum(bounded_return),
        successes=Count("pk", filter=Q(value__gt=definitions.bar_value())),
        length=Sum("steps_count"),
    )
    tasks: dict[int, list[Tally]] = {}
    kinds: dict[int, dict[str, int]] = defaultdict(dict)
    counts = rows_of(rows.order_by("task")[:MAX_TASKS])
    for task, environment, kind, count, return_count, total, successes, length in counts:
        kinds[environment][kind] = kinds[environment].get(kind, 0) + count
        definition = definitions.of(environment)
        treatment = definition.convention.treatments.get(kind, "keep")
        if treatment == "out":
            continue
        if treatment == "zero":
            return_count, total, successes = count, 0.0, count * definition.is_success(0.0)
        lengths = (0, 0) if kind in FAILURES else (count, length)
        tallies = (count, successes), (return_count, total or 0.0), lengths, (0, 0)
        tasks[task] = _added(tasks.get(task, NO_TALLIES), tallies)
    if has_tokens:
        for task, tokens in _tokens(of_run, definitions):
            if task in tasks:
                tasks[task] = _added(tasks[task], (*NO_TALLIES[:-1], (1, tokens)))
    return TaskTotals(tasks, kinds, len(counts) >= MAX_TASKS)


def _tokens(episodes: QuerySet[Episode], definitions: Definitions) -> Iterator[tuple[int, int]]:
    """Yield task and reported output tokens of each attempt; of several reports the newest
    counts. One query."""
    attempts = episodes.filter(ConventionsInForce.of_definitions(definitions).attempts)
    reports = attempts.filter(
        rollouts__output_tokens__isnull=False, rollouts__joined_by__in=CERTAIN
    ).order_by("pk", "-rollouts__pk")
    last = None
    for pk, task, tokens in rows_of(reports.values_list("pk", "task", "rollouts__output_tokens")):
        if pk != last:
            yield task, tokens
        last = pk


def _added(first: Sequence[Tally], second: Sequence[Tally]) -> list[Tally]:
    return [
        (count + n, total + more) for (count, total), (n, more) in zip(first, second, strict=True)
    ]


def _best(tasks: Sequence[PairedTask]) -> int:
    """Return the place of the run that succeeds most often, of equal ones that with the highest
    return."""
    count = len(tasks[0].tallies[0])

    def mean(place: int, run: int) -> float:
        return fmean(task.means[place][run] if task.means[place] else 0.0 for task in tasks)

    return max(range(count), key=lambda run: (mean(0, run), mean(1, run)))


def _paired_task(task: int, totals: Sequence[Sequence[Tally]], baseline: int) -> PairedTask:
    """Return a task. `totals`: by run, then by measure."""
    tallies = list(zip(*totals, strict=True))
    means = [
        [total / count for count, total in runs] if all(count for count, _ in runs) else []
        for runs in tallies
    ]
    return PairedTask(task, tallies, means, baseline)


def _by_measure(
    place: int, runs: Sequence[Run], tasks: Sequence[PairedTask], baseline: int
) -> RunsByMeasure | None:
    """Return the runs by the measure at this place; None if no task has it."""
    rows = [task for task in tasks if task.means[place]]
    if not rows:
        return None
    means_by_run = list(zip(*(row.means[place] for row in rows), strict=True))
    most_resampled = MAX_RESAMPLED // max(1, len(runs) - 1)
    figures = list[RunFigure]()
    for number, (run, means) in enumerate(zip(runs, means_by_run, strict=True)):
        differences = list(map(difference_of, means, means_by_run[baseline]))
        mean, deviation = mean_and_deviation(means)
        figures.append(
            RunFigure(
                run=run,
                measure=MEASURES[place],
                mean=mean,
                reach=Z_95 * deviation / math.sqrt(len(rows) - 1) if len(rows) > 1 else None,
                attempts=sum(row.tallies[place][number][0] for row in rows),
                evidence=(
                    evidence_of(differences, most_resampled)
                    if number != baseline and len(rows) > 1
                    else None
                ),
            )
        )
    return RunsByMeasure(MEASURES[place], len(rows), figures)


def difference_of(mean: float, base: float) -> float:
    """Return `mean - base`, and 0 if they differ only because floats were added in another
    order."""
    return 0.0 if math.isclose(mean, base, rel_tol=1e-12, abs_tol=1e-12) else mean - base
