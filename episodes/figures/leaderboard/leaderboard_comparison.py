"""Two models of a leaderboard compared on the tasks that both attempted, each task once, so that
neither gains by easier tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar, Literal, NamedTuple, Self

from environments.filtering.parameters import BadFilter, any_text, chosen, given
from environments.models import Environment, Split
from episodes.figures.comparison.comparison_query import TASKS
from episodes.figures.comparison.measures import MEASURE_BY_NAME, Measure
from episodes.figures.comparison.paired_statistics import PairedEvidence, evidence_of
from episodes.figures.comparison.run_comparison import difference_of
from episodes.figures.comparison.success_test import exact_test, largest_significant
from episodes.figures.leaderboard.leaderboard_results import TaskCounts, counts_of_models
from episodes.figures.run_splits import SplitChoice, are_together_in, split_named

_MEASURES: tuple[Literal["success", "return"], ...] = ("success", "return")


class TaskPair(NamedTuple):
    """The attempts of both at one task."""

    task: int
    first: TaskCounts
    second: TaskCounts
    is_significant: bool = False
    """Whether the rates of success differ by more than chance, with all shared tasks tested."""

    @property
    def difference(self) -> float:
        """Return the second's rate of success minus the first's."""
        return difference_of(self.second.rate, self.first.rate)

    @property
    def p(self) -> float:
        """How likely rates of success at least so different are by chance."""
        return exact_test(
            self.second.successes, self.second.attempts, self.first.successes, self.first.attempts
        )


class ComparedMeasure(NamedTuple):
    """Both by success or by return, over the tasks at which both have it."""

    measure: Measure
    first: float
    second: float
    evidence: PairedEvidence


@dataclass(frozen=True, slots=True)
class LeaderboardComparison:
    pairs: Sequence[TaskPair]
    """The tasks that both attempted."""
    measures: Sequence[ComparedMeasure]
    """Those that both have at two shared tasks or more."""
    different: Sequence[TaskPair]
    """The shared tasks at which the rates of success differ: first those with a significant
    difference, and of these and the others those with the largest."""

    @property
    def worse(self) -> list[TaskPair]:
        """Those of `different` at which the second succeeds less often."""
        return [pair for pair in self.different if pair.difference < 0]


@dataclass(frozen=True, slots=True)
class LeaderboardComparisonQuery:
    environment: Environment
    split: Split | None
    """None: the tasks of all splits."""
    first: str
    second: str
    is_worse_only: bool
    """Whether only the tasks are listed at which the second is worse."""

    PARAMETERS: ClassVar = (*SplitChoice.PARAMETERS, "first", "second", "tasks")

    @classmethod
    def parse(cls, parameters: Mapping[str, str], environment: Environment) -> Self:
        """Return the query in an address. Raises: BadFilter."""
        tasks = given(parameters, "tasks", chosen(TASKS))
        split = split_named(environment, given(parameters, "split", any_text))
        are_together_in(parameters)
        first, second = (given(parameters, name, any_text) or "" for name in ("first", "second"))
        if not (first and second):
            raise BadFilter("second", second, "name two models, as first= and second=")
        if first == second:
            reason = "it is the model that it is compared with; choose another one"
            raise BadFilter("second", second, reason)
        return cls(environment, split, first, second, is_worse_only=tasks is not None)

    def result(self) -> LeaderboardComparison:
        """Return the comparison by the definition of the environment. One query. Raises:
        BadFilter."""
        counts = counts_of_models(self.environment, self.split, (self.first, self.second))
        for parameter, name in (("first", self.first), ("second", self.second)):
            if not counts[name]:
                raise BadFilter(parameter, name, "no model of that name has an attempt here")
        first, second = counts[self.first], counts[self.second]
        shared_tasks = sorted(first.keys() & second.keys())
        pairs = [TaskPair(task, first[task], second[task]) for task in shared_tasks]
        largest = largest_significant([pair.p for pair in pairs])
        different = [
            pair._replace(is_significant=pair.p <= largest) for pair in pairs if pair.difference
        ]
        different.sort(key=lambda pair: (not pair.is_significant, -abs(pair.difference)))
        return LeaderboardComparison(pairs, _measures(pairs), different)


def _measures(pairs: Sequence[TaskPair]) -> list[ComparedMeasure]:
    measures = []
    for name in _MEASURES:
        values = [
            (first, second)
            for pair in pairs
            if (first := pair.first.figure(name)) is not None
            and (second := pair.second.figure(name)) is not None
        ]
        if len(values) > 1:
            firsts, seconds = zip(*values, strict=True)
            evidence = evidence_of([difference_of(second, first) for first, second in values])
            measure = MEASURE_BY_NAME[name]
            measures.append(ComparedMeasure(measure, fmean(firsts), fmean(seconds), evidence))
    return measures
