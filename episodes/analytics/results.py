"""Results: what each model, run or kind of player reached at tasks, as sums from which a leaderboard is made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, Literal, NamedTuple

from django.db.models import Case, Count, F, FloatField, Max, Min, QuerySet, Sum, Value, When

from environments.curation.indexes import served
from environments.models import Environment, Split, TaskStatistics
from episodes.analytics.definition import Definition
from episodes.endings import KIND, NO_ATTEMPTS, bounded, rows_of
from episodes.models import Episode

By = Literal["model", "run", "player"]
LARGEST_SQUARED = 1e100
"""Of a task's total; squares of larger ones overflow, and then there is no standard error."""

_KEYS = {"model": "model", "run": "run__name", "player": "player"}
_SMALL = -LARGEST_SQUARED, LARGEST_SQUARED


class Cell(NamedTuple):
    """Tasks with the same number of attempts and successes."""

    attempts: int
    """At each of them, as successes."""
    successes: int
    tasks: int
    scored: int
    """At all of them together, as what follows."""
    total: float
    total_squared: float
    """Sum over the tasks, as the next two: of total**2, total * scored, scored**2."""
    total_scored: float
    scored_squared: float
    largest: float
    """Of the totals, without their signs."""


@dataclass(slots=True)
class Result:
    cells: list[Cell] = field(default_factory=list)

    def sum(self, name: str) -> float:
        return float(sum(getattr(cell, name) for cell in self.cells))

    @property
    def attempts(self) -> int:
        return sum(cell.attempts * cell.tasks for cell in self.cells)

    @property
    def successes(self) -> int:
        return sum(cell.successes * cell.tasks for cell in self.cells)

    @property
    def tasks(self) -> int:
        return sum(cell.tasks for cell in self.cells)

    @property
    def mean(self) -> float | None:
        scored = self.sum("scored")
        return self.sum("total") / scored if scored else None

    @property
    def error(self) -> float | None:
        """Standard error of the mean, a ratio of sums in which each task is one observation; None below two tasks."""
        mean, scored = self.mean, self.sum("scored")
        if mean is None or self.tasks < 2 or max(cell.largest for cell in self.cells) > LARGEST_SQUARED:
            return None
        squares = self.sum("total_squared") - 2 * mean * self.sum("total_scored") + mean**2 * self.sum("scored_squared")
        return sqrt(max(0.0, squares) * self.tasks / (self.tasks - 1)) / scored


def counted(environment: Environment, split: Split | None, by: Literal["model", "run"]) -> dict[str, Result]:
    """By name, of all attempts by the environment's own definition. One query."""
    of_environment = TaskStatistics.objects.filter(environment=environment, by="all")
    tasks: QuerySet[Any] = of_environment if split is None else served(split)
    total = Case(When(return_total__range=_SMALL, then=F("return_total")), default=Value(0.0))
    scored = F("scored") * Value(1.0, FloatField())
    chosen = TaskStatistics.objects.filter(by=by, task__in=tasks.values("task")).order_by()
    rows = chosen.values_list("key", "attempts", "successes").annotate(
        a=Count("pk"),
        b=Sum("scored"),
        c=Sum("return_total"),
        d=Sum(total * total),
        e=Sum(total * scored),
        f=Sum(scored * scored),
        g=Max("return_total"),
        h=Min("return_total"),
    )
    found: dict[str, Result] = defaultdict(Result)
    for row in rows:
        key, *values, high, low = row
        found[key].cells.append(Cell._make([*values, max(abs(high), abs(low))]))
    return found


def read(episodes: QuerySet[Episode], split: Split | None, by: By, definition: Definition) -> dict[str, Result]:
    """By name, of some thousand episodes; those without a name are left out. One query."""
    chosen = episodes if split is None else episodes.filter(task__in=served(split).values("task"))
    columns = (_KEYS[by], "task", KIND, definition.column)
    tasks: dict[tuple[str, int], list[float | None]] = defaultdict(list)
    for key, task, kind, value in rows_of(chosen.filter(status="ended").order_by().values_list(*columns)):
        if key and kind not in NO_ATTEMPTS:
            tasks[key, task].append(None if value is None else bounded(value))
    return _told(tasks, definition.threshold)


def _told(tasks: Mapping[tuple[str, int], list[float | None]], threshold: float) -> dict[str, Result]:
    found: dict[str, Result] = defaultdict(Result)
    for (key, _), returns in tasks.items():
        values = [value for value in returns if value is not None]
        total, scored = sum(values), len(values)
        small = total if abs(total) <= LARGEST_SQUARED else 0.0
        successes = sum(value > threshold for value in values)
        squares = (small**2, small * scored, float(scored**2))
        found[key].cells.append(Cell(len(returns), successes, 1, scored, total, *squares, abs(total)))
    return found
