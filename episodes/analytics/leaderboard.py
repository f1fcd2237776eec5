"""Leaderboards: how well models, runs or kinds of players did at the tasks of an environment or of
one of its splits.

Models and runs by the environment's own definition are added up from TaskStatistics, which the
recorder updates, so that all attempts count. By another definition, and for kinds of players, the
newest episodes are read.

People and agents rarely play the same tasks, so a leaderboard can be limited to the tasks that both
attempted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from environments.database.json_rows import among
from environments.models import Environment, Split, Task, Viewer
from environments.scoring.attempt_figures import Figures
from environments.scoring.convention import coverage_of
from environments.scoring.definition import Definition, definition_of
from environments.tasks.split_indexes import served
from episodes.analytics.figures import PassRate, pass_rates
from episodes.analytics.leaderboard_results import (
    By,
    EndingsByTask,
    LeaderboardResult,
    at_tasks,
    counted,
    endings_by_task,
    results_of,
    tasks_attempted,
)
from episodes.analytics.players import people_in
from episodes.analytics.run_splits import SplitChoice, splits_of
from episodes.analytics.scopes import MAX_ENDINGS, filtered, floor_of
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


def _within(episodes: QuerySet[Episode], split: Split | None) -> QuerySet[Episode]:
    return episodes if split is None else episodes.filter(task__in=served(split).values("task"))


def leaderboard(
    environment: Environment,
    viewer: Viewer,
    split: Split | None = None,
    by: By = "model",
    definition: Definition | None = None,
    *,
    is_shared: bool = False,
    are_together: bool = False,
) -> Leaderboard:
    """Return a leaderboard. `definition`: None for the environment's own. Five queries at most,
    twelve by run.

    By run, runs that do not exist for the viewer have no row. Neither are studies counted that do
    not exist for them. `is_shared`: count only the tasks that people and another row attempted.
    `are_together`: by run, count all tasks though a run played several splits. Otherwise the
    leaderboard is that of
    the first split that the newest such run played.
    """
    chosen = definition or definition_of(environment)
    bound, shared = 0, None
    people: EndingsByTask = endings_by_task(
        _within(people_in(environment, viewer), split), "player", chosen
    )
    if by != "player" and chosen == definition_of(environment):
        results, shared = counted(
            environment, split, by, tasks_attempted(people, chosen) if is_shared else None
        )
    else:
        own = Episode.objects.in_figures_for(viewer).filter(environment=environment)
        bound = floor_of(filtered(own, environment.name, own))
        endings: EndingsByTask = endings_by_task(
            _within(own.filter(pk__gt=bound), split), by, chosen
        )
        if is_shared:
            others = {
                place: found
                for place, found in endings.items()
                if by != "player" or place[0] != "human"
            }
            shared = tasks_attempted(people, chosen) & tasks_attempted(others, chosen)
            endings = at_tasks(endings, shared)
        results = results_of(endings, chosen)
    if by == "run":
        runs = Run.objects.seen_by(viewer).filter(among("name", list(results)))
        seen = dict(runs.order_by("-pk").values_list("name", "pk"))
        results = {key: found for key, found in results.items() if key in seen}
        if (
            split is None
            and not are_together
            and (first := _split_of_runs(environment, list(seen.values())))
        ):
            return leaderboard(environment, viewer, first, by, definition, is_shared=is_shared)
    of_people = (
        {}
        if by == "player"
        else results_of(people if shared is None else at_tasks(people, shared), chosen)
    )
    tasks = _tasks(environment, split) if shared is None else len(shared)
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
        is_shared=is_shared,
        is_bounded=bound > 0,
        note=_note(environment, is_bounded=bound > 0),
    )


def _split_of_runs(environment: Environment, runs: Sequence[int]) -> Split | None:
    """Return the first split that the newest run with several splits here played; None if there is
    no such run.

    `runs`: ids, newest first, of which MAX_ROWS are looked at. Two queries.
    """
    played = splits_of(runs[:MAX_ROWS])
    here = (
        [one for one in played.get(run, ()) if one.environment_id == environment.pk]
        for run in runs[:MAX_ROWS]
    )
    return next(filter(None, map(SplitChoice().of, here)), None)


def _best(rows: Sequence[LeaderboardRow]) -> list[LeaderboardRow]:
    """Return the MAX_ROWS rows with the best means, and that of people even if it is not one of
    them."""
    ranked = sorted(rows, key=lambda row: (row.mean is None, -(row.mean or 0.0), -row.n, row.key))
    return [row for place, row in enumerate(ranked) if place < MAX_ROWS or row.is_human]


def _row(
    key: str,
    result: LeaderboardResult,
    tasks: int | None,
    definition: Definition,
    *,
    is_human: bool,
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
