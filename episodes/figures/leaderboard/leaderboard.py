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
from environments.tasks.split_indexes import served
from episodes.figures.leaderboard.leaderboard_results import (
    By,
    EndingsByTask,
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
    tasks: int
    """Tasks that were attempted."""
    tasks_share: float | None
    """Share of all tasks that were attempted, 0 to 1; None if the number of tasks is not known."""
    passes: Sequence[PassRate]
    """Unbiased pass@k for k = 1, 2, 4, …, as far as any task has so many attempts."""

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
    def has_people(self) -> bool:
        """Return whether a person has an attempt, so that it can be limited to shared tasks, or it
        is."""
        return self.is_shared or any(row.is_human and row.n for row in self.rows)


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
            board = replace(self, split=test)._result() if test else None
            if board and any(row.n for row in board.rows):
                return board
        return self._result()

    def _result(self) -> Leaderboard:
        environment, viewer, by = self.environment, self.viewer, self.by
        definition = self.definition or definition_of(environment)
        floor, shared_tasks = 0, None
        people: EndingsByTask = endings_by_task(
            self._within(people_in(environment, viewer)), "player", definition
        )
        if by != "player" and definition == definition_of(environment):
            tasks_of_people = tasks_attempted(people, definition) if self.is_shared else None
            results, shared_tasks = stored_results(environment, self.split, by, tasks_of_people)
        else:
            own = Episode.objects.in_figures_for(viewer).filter(environment=environment)
            floor = floor_of(filtered(own, environment.name, own))
            endings: EndingsByTask = endings_by_task(
                self._within(own.filter(pk__gt=floor)), by, definition
            )
            if self.is_shared:
                others = {
                    place: kinds
                    for place, kinds in endings.items()
                    if by != "player" or place[0] != "human"
                }
                shared_tasks = tasks_attempted(people, definition) & tasks_attempted(
                    others, definition
                )
                endings = at_tasks(endings, shared_tasks)
            results = results_of(endings, definition)
        if by == "run":
            runs = Run.objects.seen_by(viewer).filter(among("name", list(results)))
            ids = dict(runs.order_by("-pk").values_list("name", "pk"))
            results = {key: result for key, result in results.items() if key in ids}
            if self.split is None and not self.are_together:
                first = _split_of_runs(environment, list(ids.values()), viewer)
                if first is not None:
                    return replace(self, split=first)._result()
        of_people = {}
        if by != "player":
            of_people = results_of(
                people if shared_tasks is None else at_tasks(people, shared_tasks), definition
            )
        tasks = self._task_count() if shared_tasks is None else len(shared_tasks)
        each = [(key, result, by == "player" and key == "human") for key, result in results.items()]
        each += [(key, result, True) for key, result in of_people.items()]
        rows = [
            LeaderboardRow(
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
                passes=pass_rates(
                    [(cell.attempts, cell.successes, cell.tasks) for cell in result.cells]
                ),
            )
            for key, result, is_human in each
        ]
        rows_by_mean = sorted(
            (row for row in rows if row.is_listed),
            key=lambda row: (row.mean is None, -(row.mean or 0.0), -row.n, row.key),
        )
        note = ""
        if floor:
            note = f"Only the newest {MAX_ENDINGS:,} episodes of {environment.name} are counted."
        elif environment.counted != environment.definition:
            note = "The definition of return and success has changed; results are being recounted."
        return Leaderboard(
            environment=environment,
            split=self.split,
            by=by,
            definition=definition,
            rows=[
                row for place, row in enumerate(rows_by_mean) if place < MAX_ROWS or row.is_human
            ],
            tasks=tasks,
            is_shared=self.is_shared,
            is_bounded=floor > 0,
            note=note,
        )

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
