"""Leaderboard: who did how well at the tasks of an environment or of one of its splits.

Models and runs by the environment's own definition are added up from TaskStatistics, which the recorder keeps, so all
attempts count. By another definition, and for kinds of players, the newest episodes are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from environments.buckets import interval
from environments.curation.indexes import served
from environments.models import Environment, Split, Task
from episodes.analytics.definition import Definition, definition_of
from episodes.analytics.passes import PassRate, pass_rates
from episodes.analytics.players import people_in
from episodes.analytics.results import By, Result, counted, read
from episodes.analytics.scope import MOST_ENDINGS, filtered, floor_of
from episodes.models import Episode

MOST_ROWS = 200
"""Best first."""
MOST_TASKS = 100_000
"""Beyond it the tasks of an environment are not counted."""


@dataclass(frozen=True, slots=True)
class LeaderboardRow:
    """A model, a run, or a kind of player."""

    key: str
    """Name of the model or run; "agent", "human" or "script"."""
    is_human: bool
    n: int
    """Attempts."""
    mean: float | None
    """Of the returns of all attempts that have one; None without any."""
    error: float | None
    """Standard error of the mean, clustered by task, as attempts at one task are alike; None below two tasks."""
    successes: int
    success: float
    """Successes by attempts, 0 to 1."""
    success_low: float
    """Wilson's 95 % interval."""
    success_high: float
    tasks: int
    """That were attempted."""
    coverage: float | None
    """Share of the tasks there are, 0 to 1; None when that is not known."""
    passes: Sequence[PassRate]
    """Unbiased pass@k for k = 1, 2, 4, …, as far as any task has so many attempts."""


@dataclass(frozen=True, slots=True)
class Leaderboard:
    environment: Environment
    split: Split | None
    by: By
    definition: Definition
    rows: Sequence[LeaderboardRow]
    """Best mean first, MOST_ROWS at most and the humans, who have a row of their own, whatever the others are by."""
    tasks: int | None
    """There are; None: not listed, or too many to count."""
    is_bounded: bool
    """Whether only the newest episodes were read."""
    note: str
    """What a page says beside it; empty: nothing."""


def leaderboard(
    environment: Environment, split: Split | None = None, by: By = "model", definition: Definition | None = None
) -> Leaderboard:
    """Five queries at most. `definition`: None for the environment's own."""
    asked = definition or definition_of(environment)
    tasks, bound = _tasks(environment, split), 0
    if by != "player" and asked == definition_of(environment):
        results = counted(environment, split, by)
    else:
        own = Episode.objects.filter(environment=environment)
        bound = floor_of(filtered(own, environment.name, own))
        results = read(own.filter(pk__gt=bound), split, by, asked)
    rows = [_row(key, found, tasks, is_human=by == "player" and key == "human") for key, found in results.items()]
    if by != "player":
        humans = read(people_in(environment), split, "player", asked)
        rows += [_row(key, found, tasks, is_human=True) for key, found in humans.items()]
    return Leaderboard(
        environment=environment,
        split=split,
        by=by,
        definition=asked,
        rows=_best(rows),
        tasks=tasks,
        is_bounded=bound > 0,
        note=_note(environment, is_bounded=bound > 0),
    )


def _best(rows: Sequence[LeaderboardRow]) -> list[LeaderboardRow]:
    """MOST_ROWS by their means, and the humans even when so many are better."""
    ranked = sorted(rows, key=lambda row: (row.mean is None, -(row.mean or 0.0), -row.n, row.key))
    return [row for place, row in enumerate(ranked) if place < MOST_ROWS or row.is_human]


def _row(key: str, result: Result, tasks: int | None, *, is_human: bool) -> LeaderboardRow:
    attempts, successes = result.attempts, result.successes
    low, high = interval(successes, attempts)
    return LeaderboardRow(
        key=key,
        is_human=is_human,
        n=attempts,
        mean=result.mean,
        error=result.error,
        successes=successes,
        success=successes / attempts,
        success_low=low,
        success_high=high,
        tasks=result.tasks,
        coverage=min(1.0, result.tasks / tasks) if tasks else None,
        passes=pass_rates([(cell.attempts, cell.successes, cell.tasks) for cell in result.cells]),
    )


def _tasks(environment: Environment, split: Split | None) -> int | None:
    """One query."""
    if split is not None:
        return served(split).values("task").distinct().count() or None
    ids = Task.objects.filter(environment=environment).order_by("pk").values("pk")[: MOST_TASKS + 1]
    count = ids.count()
    return count if count <= MOST_TASKS and not environment.is_procedural else None


def _note(environment: Environment, *, is_bounded: bool) -> str:
    if is_bounded:
        return f"Only the newest {MOST_ENDINGS:,} episodes of {environment.name} were looked at."
    if environment.counted != environment.definition:
        return "The definition of return and success has changed; results are being counted anew."
    return ""
