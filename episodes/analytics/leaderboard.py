"""Leaderboards: how well models, runs or kinds of players did at the tasks of an environment or of one of its splits.

Models and runs by the environment's own definition are added up from TaskStatistics, which the recorder updates, so
that all attempts count. By another definition, and for kinds of players, the newest episodes are read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, Literal, NamedTuple

from django.db.models import Case, Count, F, FloatField, Max, Min, Q, QuerySet, Sum, Value, When

from environments.models import Environment, Split, Task, TaskStatistics
from environments.scoring.attempt_figures import Figures
from environments.scoring.convention import CONVENTION_PARTS, Convention, coverage_of, kinds_counted
from environments.scoring.definition import Definition, definition_of
from environments.tasks.split_indexes import served
from episodes.analytics.figures import PassRate, pass_rates
from episodes.analytics.players import people_in
from episodes.analytics.scopes import MAX_ENDINGS, filtered, floor_of
from episodes.attempts.endings import bounded, rows_of
from episodes.attempts.rule import ENDED, KIND
from episodes.attempts.summary import EndedReturn, returns_counted
from episodes.models import Episode, Run
from episodes.models.privacy import visible_runs

By = Literal["model", "run", "player"]
MAX_SQUARED = 1e100
"""Greatest total of a task that is squared; squares of larger ones overflow, so there is no standard error then."""

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
    def tasks(self) -> int:
        return sum(cell.tasks for cell in self.cells)

    @property
    def mean(self) -> float | None:
        scored = self.sum("scored")
        return self.sum("total") / scored if scored else None

    @property
    def error(self) -> float | None:
        """Standard error of the mean, a ratio of sums with each task as one observation; None below two tasks."""
        mean, scored = self.mean, self.sum("scored")
        if mean is None or self.tasks < 2 or max(cell.largest for cell in self.cells) > MAX_SQUARED:
            return None
        squares = self.sum("total_squared") - 2 * mean * self.sum("total_scored") + mean**2 * self.sum("scored_squared")
        return sqrt(max(0.0, squares) * self.tasks / (self.tasks - 1)) / scored


def counted(environment: Environment, split: Split | None, by: Literal["model", "run"]) -> dict[str, LeaderboardResult]:
    """Return the results by name over all rollouts, by the environment's own definition. Two queries."""
    of_environment = TaskStatistics.objects.filter(environment=environment, by="all")
    tasks: QuerySet[Any] = of_environment if split is None else served(split)
    total = Case(When(return_total__range=_SMALL, then=F("return_total")), default=Value(0.0))
    scored = F("scored") * Value(1.0, FloatField())
    chosen = TaskStatistics.objects.filter(by=by, task__in=tasks.values("task")).order_by()
    rows = (
        chosen.filter(attempts__gt=0)
        .values_list("key", "attempts", "successes")
        .annotate(
            a=Count("pk"),
            b=Sum("scored"),
            c=Sum("return_total"),
            d=Sum(total * total),
            e=Sum(total * scored),
            f=Sum(scored * scored),
            g=Max("return_total"),
            h=Min("return_total"),
        )
    )
    found: dict[str, LeaderboardResult] = defaultdict(LeaderboardResult)
    for row in rows:
        key, *values, high, low = row
        found[key].cells.append(Cell._make([*values, max(abs(high), abs(low))]))
    convention = Convention.from_code(environment.convention)
    sums = chosen.values_list("key").annotate(*(Sum(name) for name in ("attempts", *CONVENTION_PARTS)))
    for key, attempts, *counts in sums:
        kinds = dict(zip(CONVENTION_PARTS, counts, strict=True))
        found[key].kinds.update(kinds_counted(attempts, kinds, convention))
    return found


def read(
    episodes: QuerySet[Episode], split: Split | None, by: By, definition: Definition
) -> dict[str, LeaderboardResult]:
    """Return the results by name over some thousand episodes; episodes without a name are left out. One query."""
    chosen = episodes if split is None else episodes.filter(task__in=served(split).values("task"))
    return _results(endings_by_task(chosen, by, definition), definition)


def endings_by_task(
    episodes: QuerySet[Episode], by: By, definition: Definition
) -> dict[tuple[str, int], list[EndedReturn]]:
    """Return the endings of each name at each task; episodes without a name are left out. One query."""
    columns = (_KEYS[by], "task", KIND, definition.column)
    if by != "player":  # as in TaskStatistics, which leave people out
        episodes = episodes.filter(~Q(player="human"))
    tasks: dict[tuple[str, int], list[EndedReturn]] = defaultdict(list)
    for key, task, kind, value in rows_of(episodes.filter(ENDED).order_by().values_list(*columns)):
        if key:
            tasks[key, task].append((kind, None if value is None else bounded(value)))
    return tasks


def _results(
    tasks: Mapping[tuple[str, int], list[EndedReturn]], definition: Definition
) -> dict[str, LeaderboardResult]:
    found: dict[str, LeaderboardResult] = defaultdict(LeaderboardResult)
    for (key, _), endings in tasks.items():
        found[key].kinds.update(kind for kind, _ in endings)
        if returns := returns_counted(endings, definition.convention):
            values = [value for value in returns if value is not None]
            total, scored = sum(values), len(values)
            small = total if abs(total) <= MAX_SQUARED else 0.0
            successes = sum(value > definition.threshold for value in values)
            squares = (small**2, small * scored, float(scored**2))
            found[key].cells.append(Cell(len(returns), successes, 1, scored, total, *squares, abs(total)))
    return found


MAX_ROWS = 200
MAX_TASKS = 100_000
"""Tasks of an environment that are counted; if there are more, their number is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderboardRow(Figures):
    """Figures of a model, a run, or a kind of player."""

    key: str
    """Name of the model or run; "agent", "human" or "script"."""
    is_human: bool
    error: float | None
    """Standard error of the mean, clustered by task because attempts at one task are alike; None below two tasks."""
    tasks: int
    """Tasks that were attempted."""
    tasks_share: float | None
    """Share of all tasks that were attempted, 0 to 1; None if the number of tasks is not known."""
    passes: Sequence[PassRate]
    """Unbiased pass@k for k = 1, 2, 4, …, as far as any task has so many attempts."""

    @property
    def is_listed(self) -> bool:
        """Return whether there is anything to show: an attempt, or a rollout of agents that was left out."""
        return bool(self.n or (self.coverage.rollouts and not self.is_human))


@dataclass(frozen=True, slots=True)
class Leaderboard:
    environment: Environment
    split: Split | None
    by: By
    definition: Definition
    rows: Sequence[LeaderboardRow]
    """Best mean first: MAX_ROWS at most, and always the row of people, whatever the other rows are by."""
    tasks: int | None
    """Number of tasks; None if they are not listed or too many to count."""
    is_bounded: bool
    """Whether only the newest episodes were read."""
    note: str
    """A sentence for the page next to the leaderboard; may be empty."""


def leaderboard(
    environment: Environment,
    split: Split | None = None,
    by: By = "model",
    definition: Definition | None = None,
    hidden: frozenset[int] = frozenset(),
) -> Leaderboard:
    """Return a leaderboard. `definition`: None for the environment's own. Five queries at most.

    `hidden`: ids of environments that do not exist for the reader; by run, runs that played there have no row.
    """
    chosen = definition or definition_of(environment)
    tasks, bound = _tasks(environment, split), 0
    if by != "player" and chosen == definition_of(environment):
        results = counted(environment, split, by)
    else:
        own = Episode.objects.filter(environment=environment)
        bound = floor_of(filtered(own, environment.name, own))
        results = read(own.filter(pk__gt=bound), split, by, chosen)
    if hidden and by == "run":
        seen = set(Run.objects.filter(visible_runs(hidden), name__in=list(results)).values_list("name", flat=True))
        results = {key: found for key, found in results.items() if key in seen}
    of_people = {} if by == "player" else read(people_in(environment), split, "player", chosen)
    each = [(key, found, by == "player" and key == "human") for key, found in results.items()]
    each += [(key, found, True) for key, found in of_people.items()]
    rows = [_row(key, found, tasks, chosen, is_human=is_human) for key, found, is_human in each]
    return Leaderboard(
        environment=environment,
        split=split,
        by=by,
        definition=chosen,
        rows=_best([row for row in rows if row.is_listed]),
        tasks=tasks,
        is_bounded=bound > 0,
        note=_note(environment, is_bounded=bound > 0),
    )


def _best(rows: Sequence[LeaderboardRow]) -> list[LeaderboardRow]:
    """Return the MAX_ROWS rows with the best means, and that of people even if it is not one of them."""
    ranked = sorted(rows, key=lambda row: (row.mean is None, -(row.mean or 0.0), -row.n, row.key))
    return [row for place, row in enumerate(ranked) if place < MAX_ROWS or row.is_human]


def _row(
    key: str, result: LeaderboardResult, tasks: int | None, definition: Definition, *, is_human: bool
) -> LeaderboardRow:
    return LeaderboardRow(
        key=key,
        is_human=is_human,
        coverage=coverage_of(result.kinds, definition.convention),
        n=result.attempts,
        scored=int(result.sum("scored")),
        mean=result.mean,
        error=result.error,
        successes=result.successes,
        tasks=result.tasks,
        tasks_share=min(1.0, result.tasks / tasks) if tasks else None,
        passes=pass_rates([(cell.attempts, cell.successes, cell.tasks) for cell in result.cells]),
    )


def _tasks(environment: Environment, split: Split | None) -> int | None:
    """Return the number of tasks, or None if it is not known. One query."""
    if split is not None:
        return served(split).values("task").distinct().count() or None
    ids = Task.objects.filter(environment=environment).order_by("pk").values("pk")[: MAX_TASKS + 1]
    count = ids.count()
    return count if count <= MAX_TASKS and not environment.is_procedural else None


def _note(environment: Environment, *, is_bounded: bool) -> str:
    if is_bounded:
        return f"Only the newest {MAX_ENDINGS:,} episodes of {environment.name} are counted."
    if environment.counted != environment.definition:
        return "The definition of return and success has changed; results are being recounted."
    return ""
