"""Leaderboards: how well models, runs or kinds of players did at the tasks of an environment or of
one of its splits.

Models and runs by the environment's own definition are added up from TaskStatistics, which the
recorder updates, so that all attempts count. By another definition, and for kinds of players, the
newest episodes are read.

People and agents rarely play the same tasks, so a leaderboard can be limited to the tasks that both
attempted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, get_args

from django.db.models import QuerySet

from environments.database.json_rows import among
from environments.filtering.parameters import any_text, chosen, definition_in, given
from environments.models import Environment, Split, Task, Viewer
from environments.scoring.attempt_figures import Figures
from environments.scoring.convention import coverage_of
from environments.scoring.definition import DEFINITION_PARAMETERS, Definition, definition_of
from environments.scoring.success_interval import Z_95, Interval, interval_over_tasks
from environments.tasks.split_indexes import served
from episodes.figures.leaderboard.leaderboard_results import (
    By,
    EndingsByTask,
    LeaderboardResult,
    at_tasks,
    endings_by_task,
    results_of,
    stored_results,
    tasks_attempted,
)
from episodes.figures.pass_at_k import PassRate, pass_rates
from episodes.figures.players import people_in
from episodes.figures.run_splits import SplitChoice, are_together_in, split_named, splits_of
from episodes.figures.scopes import MAX_ENDINGS, filtered, floor_of
from episodes.models import Episode, Run

TASKS = ("all", "shared")
"""Which tasks a leaderboard counts: all, or those that people and another row attempted."""
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
    """Standard error of the mean, clustered by task because attempts at one task are alike; None
    below two tasks."""
    success_variance: float
    """Squared standard error of the success rate, clustered in the same way."""
    tasks: int
    """Tasks that were attempted."""
    tasks_share: float | None
    """Share of all tasks that were attempted, 0 to 1; None if the number of tasks is not known."""
    passes: Sequence[PassRate]
    """Unbiased pass@k for k = 1, 2, 4, …, as far as any task has so many attempts."""

    @property
    def interval(self) -> Interval:
        """95 % interval of the success rate, as suites have it; 0 to 1 without attempts."""
        return interval_over_tasks(self.success or 0.0, self.success_variance, self.tasks, self.n)

    @property
    def mean_interval(self) -> Interval | None:
        """95 % interval of the mean return, with every task as one observation."""
        if self.mean is None or self.error is None:
            return None
        return Interval(self.mean - Z_95 * self.error, self.mean + Z_95 * self.error)

    @property
    def is_listed(self) -> bool:
        """Return whether there is anything to show: an attempt, or a rollout of agents that was
        left out."""
        return bool(self.n or (self.coverage.rollouts and not self.is_human))


@dataclass(frozen=True, slots=True)
class Leaderboard:
    environment: Environment
    split: Split | None
    by: By
    definition: Definition
    rows: Sequence[LeaderboardRow]
    """Best mean first: MAX_ROWS at most, and always the row of people, whatever the other rows are
    by."""
    tasks: int | None
    """Number of tasks; None if they are not listed or too many to count."""
    is_shared: bool
    """Whether only the tasks count that people and another row attempted."""
    is_bounded: bool
    """Whether only the newest episodes were read."""
    note: str
    """A sentence for the page next to the leaderboard; may be empty."""

    @property
    def contradiction(self) -> tuple[LeaderboardRow, LeaderboardRow] | None:
        """The row with the best mean return that succeeds clearly less often than one with a lower
        mean, and of those the one that succeeds most often; None if no row does."""
        rows = [row for row in self.rows if row.n and not row.is_human]
        for row in rows:
            better = [
                other
                for other in rows
                if (other.mean or 0.0) < (row.mean or 0.0)
                and other.interval.low > row.interval.high
            ]
            if better:
                return row, max(better, key=lambda other: other.success or 0.0)
        return None

    @property
    def has_people(self) -> bool:
        """Return whether a person has an attempt, so that it can be limited to shared tasks, or it
        is."""
        return self.is_shared or any(row.is_human and row.n for row in self.rows)


@dataclass(frozen=True, slots=True)
class _Results:
    by_name: Mapping[str, LeaderboardResult]
    people: Mapping[str, LeaderboardResult]
    """Those of people, where rows stand for something else."""
    tasks: frozenset[int] | None
    """The tasks that count; None: all."""
    is_bounded: bool
    """Whether only the newest episodes were read."""


@dataclass(frozen=True, slots=True)
class LeaderboardQuery:
    environment: Environment
    viewer: Viewer
    """Who looks. By run, runs that do not exist for them have no row; neither are studies counted
    that do not exist for them."""
    split: Split | None = None
    by: By = "model"
    definition: Definition | None = None
    """None for the environment's own."""
    is_shared: bool = False
    """Whether only the tasks count that people and another row attempted."""
    are_together: bool = False
    """Whether all tasks count. Otherwise, without `split`, the leaderboard is that of the test split
    if it has attempts; by run that of the first split that the newest run with several played."""

    PARAMETERS: ClassVar = (*SplitChoice.PARAMETERS, "by", "tasks", *DEFINITION_PARAMETERS)

    @classmethod
    def parse(
        cls, parameters: Mapping[str, str], environment: Environment, viewer: Viewer
    ) -> LeaderboardQuery:
        """Return the query in an address. Raises: BadFilter."""
        by: By | None = given(parameters, "by", chosen(get_args(By)))
        return cls(
            environment,
            viewer,
            split_named(environment, given(parameters, "split", any_text)),
            by or "model",
            definition_of(environment, definition_in(parameters)),
            is_shared=given(parameters, "tasks", chosen(TASKS)) == "shared",
            are_together=are_together_in(parameters),
        )

    def result(self) -> Leaderboard:
        """Return the leaderboard. Six queries at most, twelve by run or if the test split has no
        attempts."""
        if self.split is None and not self.are_together and self.by != "run":
            test = self.environment.splits.filter(is_served=True, type="test").first()
            board = replace(self, split=test)._board() if test else None
            if board and any(row.n for row in board.rows):
                return board
        return self._board()

    def _board(self) -> Leaderboard:
        results = self._results()
        if self.by == "run":
            runs = Run.objects.seen_by(self.viewer).filter(among("name", list(results.by_name)))
            ids = dict(runs.order_by("-pk").values_list("name", "pk"))
            if self.split is None and not self.are_together:
                first = _split_of_runs(self.environment, list(ids.values()), self.viewer)
                if first is not None:
                    return replace(self, split=first)._board()
            results = replace(results, by_name={key: results.by_name[key] for key in ids})
        tasks = self._task_count() if results.tasks is None else len(results.tasks)
        note = ""
        if results.is_bounded:
            name = self.environment.name
            note = f"Only the newest {MAX_ENDINGS:,} episodes of {name} are counted."
        elif self.environment.counted != self.environment.definition:
            note = "The definition of return and success has changed; results are being recounted."
        return Leaderboard(
            environment=self.environment,
            split=self.split,
            by=self.by,
            definition=self._definition,
            rows=self._rows(results, tasks),
            tasks=tasks,
            is_shared=self.is_shared,
            is_bounded=results.is_bounded,
            note=note,
        )

    @property
    def _definition(self) -> Definition:
        return self.definition or definition_of(self.environment)

    def _results(self) -> _Results:
        """Return the results of everybody, runs that do not exist for the viewer among them."""
        definition = self._definition
        people: EndingsByTask = endings_by_task(
            self._within(people_in(self.environment, self.viewer)), "player", definition
        )
        tasks, is_bounded = None, False
        if self.by != "player" and definition == definition_of(self.environment):
            tasks_of_people = tasks_attempted(people, definition) if self.is_shared else None
            by_name, tasks = stored_results(self.environment, self.split, self.by, tasks_of_people)
        else:
            own = Episode.objects.in_figures_for(self.viewer).filter(environment=self.environment)
            floor = floor_of(filtered(own, self.environment.name, own))
            is_bounded = floor > 0
            endings: EndingsByTask = endings_by_task(
                self._within(own.filter(pk__gt=floor)), self.by, definition
            )
            if self.is_shared:
                others = {
                    place: kinds
                    for place, kinds in endings.items()
                    if self.by != "player" or place[0] != "human"
                }
                tasks = tasks_attempted(people, definition) & tasks_attempted(others, definition)
                endings = at_tasks(endings, tasks)
            by_name = results_of(endings, definition)
        if self.by == "player":  # people are among them
            people = {}
        elif tasks is not None:
            people = at_tasks(people, tasks)
        return _Results(by_name, results_of(people, definition), tasks, is_bounded)

    def _rows(self, results: _Results, tasks: int | None) -> list[LeaderboardRow]:
        """Return the rows, best mean first. `tasks`: number of tasks, if it is known."""
        each = [
            (key, result, self.by == "player" and key == "human")
            for key, result in results.by_name.items()
        ]
        each += [(key, result, True) for key, result in results.people.items()]
        rows = [
            LeaderboardRow(
                key=key,
                is_human=is_human,
                coverage=coverage_of(result.kinds, self._definition.convention),
                n=result.attempts,
                scored=int(result.sum("scored")),
                mean=result.mean,
                error=result.error,
                successes=result.successes,
                success_variance=result.success_variance,
                tasks=result.tasks,
                tasks_share=min(1.0, result.tasks / tasks) if tasks else None,
                passes=pass_rates(
                    [(cell.attempts, cell.successes, cell.tasks) for cell in result.cells]
                ),
            )
            for key, result, is_human in each
        ]
        rows = [row for row in rows if row.is_listed]
        rows.sort(key=lambda row: (row.mean is None, -(row.mean or 0.0), -row.n, row.key))
        return [row for place, row in enumerate(rows) if place < MAX_ROWS or row.is_human]

    def _within(self, episodes: QuerySet[Episode]) -> QuerySet[Episode]:
        if self.split is None:
            return episodes
        return episodes.filter(task__in=served(self.split).values("task"))

    def _task_count(self) -> int | None:
        """Return the number of tasks, or None if it is not known. One query."""
        if self.split is not None:
            return served(self.split).values("task").distinct().count() or None
        if self.environment.is_procedural:
            return None
        tasks = Task.objects.filter(environment=self.environment).order_by("pk").values("pk")
        count = tasks[: MAX_TASKS + 1].count()
        return count if count <= MAX_TASKS else None


def _split_of_runs(environment: Environment, runs: Sequence[int], viewer: Viewer) -> Split | None:
    """Return the first split that the newest run with several splits here played; None if there is
    no such run.

    `runs`: ids, newest first, of which MAX_ROWS are looked at. Two queries.
    """
    splits_by_run = splits_of(runs[:MAX_ROWS], viewer)
    here = (
        [split for split in splits_by_run.get(run, ()) if split.environment_id == environment.pk]
        for run in runs[:MAX_ROWS]
    )
    return next(filter(None, map(SplitChoice().of, here)), None)
