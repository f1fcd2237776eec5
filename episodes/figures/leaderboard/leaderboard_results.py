"""The results behind leaderboards, as sums by name: from TaskStatistics over all attempts, or from
read episodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, Literal, NamedTuple, Self

from django.db.models import Case, Count, F, FloatField, Max, Min, Q, QuerySet, Sum, Value, When

from environments.database.json_rows import among
from environments.models import Environment, Split, TaskStatistics
from environments.scoring.convention import COUNTED_PARTS, Convention, kinds_counted
from environments.scoring.definition import Definition
from environments.tasks.split_indexes import served
from episodes.attempts.endings import rows_of
from episodes.attempts.rule import ENDED, KIND
from episodes.attempts.summary import EndedReturn, returns_counted
from episodes.models import Episode

By = Literal["model", "run", "player"]
MAX_SQUARED = 1e100
"""Greatest total of a task that is squared; squares of larger ones overflow, so there is no
standard error then."""

_KEYS = {"model": "model", "run": "run__name", "player": "player"}
_SMALL = -MAX_SQUARED, MAX_SQUARED


class Cell(NamedTuple):
    """Tasks that have the same number of attempts and of successes."""

    attempts: int
    """Attempts at each of the tasks."""
    successes: int
    """Successes at each of the tasks."""
    tasks: int
    """Number of tasks."""
    scored: int
    """Attempts at all of the tasks that have a return."""
    total: float
    """Sum of the returns at all of the tasks."""
    total_squared: float
    """Sum over the tasks of total**2."""
    total_scored: float
    """Sum over the tasks of total * scored."""
    scored_squared: float
    """Sum over the tasks of scored**2."""
    largest: float
    """Greatest total of a task without its sign."""


@dataclass(slots=True)
class LeaderboardResult:
    """The results of a model, run or kind of player, as sums from which its row is computed."""

    cells: list[Cell] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    """Rollouts by kind of ending; "" for those that finished or were abandoned."""

    def sum(self, name: str) -> float:
        return float(sum(getattr(cell, name) for cell in self.cells))

    @property
    def attempts(self) -> int:
        return sum(cell.attempts * cell.tasks for cell in self.cells)

    @property
    def successes(self) -> int:
        return sum(cell.successes * cell.tasks for cell in self.cells)

    @property
    def success_variance(self) -> float:
        """Squared standard error of the success rate with each task as one observation."""
        attempts = max(1, self.attempts)
        rate = self.successes / attempts
        return sum(
            (cell.successes - rate * cell.attempts) ** 2 * cell.tasks / attempts**2
            for cell in self.cells
        )

    @property
    def tasks(self) -> int:
        return sum(cell.tasks for cell in self.cells)

    @property
    def mean(self) -> float | None:
        scored = self.sum("scored")
        return self.sum("total") / scored if scored else None

    @property
    def error(self) -> float | None:
        """Standard error of the mean, a ratio of sums with each task as one observation; None below
        two tasks."""
        mean, scored = self.mean, self.sum("scored")
        if mean is None or self.tasks < 2 or max(cell.largest for cell in self.cells) > MAX_SQUARED:
            return None
        squares = (
            self.sum("total_squared")
            - 2 * mean * self.sum("total_scored")
            + mean**2 * self.sum("scored_squared")
        )
        return sqrt(max(0.0, squares) * self.tasks / (self.tasks - 1)) / scored


class TaskCounts(NamedTuple):
    """The attempts of one player at one task."""

    attempts: int
    successes: int
    scored: int
    """Attempts that have a return."""
    total: float
    """Sum of their returns."""

    @classmethod
    def of(cls, endings: Iterable[EndedReturn], definition: Definition) -> Self:
        returns = returns_counted(endings, definition.convention)
        values = [value for value in returns if value is not None]
        return cls(len(returns), sum(map(definition.is_success, values)), len(values), sum(values))

    @property
    def rate(self) -> float:
        """Rate of success; 0 without attempts."""
        return self.successes / self.attempts if self.attempts else 0.0

    def figure(self, score: Literal["success", "return"]) -> float | None:
        """Return the success rate or the mean return; None if there is none."""
        if score == "success":
            return self.rate if self.attempts else None
        return self.total / self.scored if self.scored else None


EndingsByTask = Mapping[tuple[str, int], list[EndedReturn]]
"""Name of a row and id of a task -> the endings there."""


def stored_results(
    environment: Environment,
    split: Split | None,
    by: Literal["model", "run"],
    among_people: Collection[int] | None,
) -> tuple[dict[str, LeaderboardResult], frozenset[int] | None]:
    """Return the results by name over all rollouts, by the environment's own definition, and the
    tasks they rest on.

    `among_people`: the tasks that people attempted, which then limit the results to those that
    others attempted, too; None: all tasks. Two queries at most.
    """
    statistics, shared_tasks = TaskStatistics.objects.filter(by=by).order_by(), None
    if among_people is None:
        statistics = statistics.filter(task__in=_tasks_of(environment, split))
    else:
        both = statistics.filter(among("task", among_people), attempts__gt=0)
        shared_tasks = frozenset(both.values_list("task", flat=True))
        statistics = statistics.filter(among("task", shared_tasks))
    total = Case(When(return_total__range=_SMALL, then=F("return_total")), default=Value(0.0))
    return_count = F("scored") * Value(1.0, FloatField())
    rows = statistics.values_list("key", "attempts", "successes").annotate(
        tasks=Count("pk"),
        returns=Sum("scored"),
        total=Sum("return_total"),
        total_squared=Sum(total * total),
        total_scored=Sum(total * return_count),
        scored_squared=Sum(return_count * return_count),
        high=Max("return_total"),
        low=Min("return_total"),
        **{f"of_{name}": Sum(name) for name in COUNTED_PARTS},
    )
    results: dict[str, LeaderboardResult] = defaultdict(LeaderboardResult)
    parts = len(COUNTED_PARTS)
    for row in rows_of(rows):
        key, *values, high, low = row[:-parts]
        cell = Cell._make([*values, max(abs(high), abs(low))])
        if cell.attempts:
            results[key].cells.append(cell)
        results[key].kinds.update(dict(zip(COUNTED_PARTS, map(int, row[-parts:]), strict=True)))
    convention = Convention.from_code(environment.convention)
    for result in results.values():
        result.kinds = Counter(kinds_counted(result.attempts, result.kinds, convention))
    return results, shared_tasks


def _tasks_of(environment: Environment, split: Split | None) -> QuerySet[Any, Any]:
    """Return a subquery of the ids of the tasks of the split, or those with statistics in the
    environment."""
    of_environment = TaskStatistics.objects.filter(environment=environment, by="all")
    tasks: QuerySet[Any] = of_environment if split is None else served(split)
    return tasks.values("task")


def counts_of_models(
    environment: Environment, split: Split | None, names: Collection[str]
) -> dict[str, dict[int, TaskCounts]]:
    """Return the attempts of each of these models by task, by the environment's own definition. One
    query."""
    rows = TaskStatistics.objects.filter(by="model", key__in=names, attempts__gt=0).order_by()
    columns = ("key", "task", "attempts", "successes", "scored", "return_total")
    counts: dict[str, dict[int, TaskCounts]] = {name: {} for name in names}
    of_tasks = rows.filter(task__in=_tasks_of(environment, split)).values_list(*columns)
    for name, task, *numbers in of_tasks:
        counts[name][task] = TaskCounts(*numbers)
    return counts


def endings_by_task(
    episodes: QuerySet[Episode], by: By, definition: Definition, *, has_nameless: bool = False
) -> dict[tuple[str, int], list[EndedReturn]]:
    """Return the endings of each name at each task. One query.

    `has_nameless`: with episodes without a name, by the empty name; else they are left out.
    """
    columns = (_KEYS[by], "task", KIND, definition.column)
    if by != "player":  # as in TaskStatistics, which leave people out
        episodes = episodes.filter(~Q(player="human"))
    tasks: dict[tuple[str, int], list[EndedReturn]] = defaultdict(list)
    for key, task, kind, value in rows_of(episodes.filter(ENDED).order_by().values_list(*columns)):
        if key or has_nameless:
            tasks[key or "", task].append((kind, value))
    return tasks


def tasks_attempted(endings: EndingsByTask, definition: Definition) -> frozenset[int]:
    """Return the tasks with an attempt that counts."""
    return frozenset(
        task for (_, task), some in endings.items() if returns_counted(some, definition.convention)
    )


def at_tasks(endings: EndingsByTask, tasks: Collection[int]) -> EndingsByTask:
    """Return the endings at these tasks alone."""
    return {place: some for place, some in endings.items() if place[1] in tasks}


def results_of(tasks: EndingsByTask, definition: Definition) -> dict[str, LeaderboardResult]:
    """Return the results by name."""
    results: dict[str, LeaderboardResult] = defaultdict(LeaderboardResult)
    for (key, _), endings in tasks.items():
        results[key].kinds.update(kind for kind, _ in endings)
        if returns := returns_counted(endings, definition.convention):
            values = [value for value in returns if value is not None]
            total, returns_count = sum(values), len(values)
            small = total if abs(total) <= MAX_SQUARED else 0.0
            successes = sum(map(definition.is_success, values))
            squares = (small**2, small * returns_count, float(returns_count**2))
            results[key].cells.append(
                Cell(len(returns), successes, 1, returns_count, total, *squares, abs(total))
            )
    return results
