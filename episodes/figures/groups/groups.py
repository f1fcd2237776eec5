"""Groups: the attempts at one task in one training step of a run, compared as group-relative
training compares them.

An attempt's advantage is (return - mean) / (standard deviation + EPSILON) over the group's attempts
that have a return, with the standard deviation of the population. If all returns are equal, all
advantages are 0 and there is nothing to learn from the group.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import F, QuerySet
from django.db.models.lookups import Exact

from environments.models import Task
from environments.scoring.convention import Coverage, Treatment
from environments.scoring.definition import Definition, Definitions
from episodes.attempts.rule import KIND, kind_of
from episodes.attempts.summary import EndedReturn, coverage_from, returns_counted
from episodes.figures.spreads import Spread, spread_of, spread_of_endings
from episodes.filtering.conditions import Unindexed
from episodes.models import EnvironmentRevision, Episode, Run

MAX_ATTEMPTS = 500
"""Attempts of one group that are read, the newest ones."""
MAX_READ = 50_000
"""Episodes of one training step that are read, the newest ones."""


@dataclass(frozen=True, slots=True)
class Attempt:
    episode: Episode
    value: float | None
    """Return of the episode by the given definition; 0.0 if it counts as 0."""
    mark: Treatment | None
    """How it counts by the convention; None while it runs."""
    advantage: float | None
    """Advantage of the episode; None if it is not counted or has no return."""


@dataclass(frozen=True, slots=True)
class Group:
    attempts: Sequence[Attempt]
    """All members, highest return first; last those without an advantage, which are running or left
    out."""
    spread: Spread
    coverage: Coverage
    is_bounded: bool
    """Whether older attempts are missing."""

    @property
    def pooled(self) -> list[EnvironmentRevision]:
        """One revision for each code that played members, the latest first; empty if it was one
        alone."""
        rows = {
            attempt.episode.revision.code: attempt.episode.revision
            for attempt in self.attempts
            if attempt.episode.revision
        }
        return sorted(rows.values(), key=lambda row: -row.pk) if len(rows) > 1 else []

    @property
    def ends(self) -> tuple[Episode, Episode] | None:
        """The best and the worst attempt; None if no two attempts differ."""
        episodes = [attempt.episode for attempt in self.attempts if attempt.advantage is not None]
        if len(episodes) < 2 or self.spread.is_flat:
            return None
        return episodes[0], episodes[-1]


class GroupLine(NamedTuple):
    """One group in a list of groups."""

    task: int
    episodes: int
    """Episodes, including those that are not counted."""
    coverage: Coverage
    spread: Spread
    returns: Sequence[float]
    """The returns that count, in order of the episodes."""
    definition: Definition
    """By which they count."""

    @property
    def is_mixed(self) -> bool:
        """Return whether two returns differ, so that there is something to learn."""
        return self.spread.scored > 1 and not self.spread.is_flat


class GroupPlace(NamedTuple):
    """Where the group of a task is among the groups of its step."""

    number: int
    """1 for the first; 0 if the task was not played."""
    previous: int | None
    """Task of the group before it."""
    next: int | None


class GroupLines(NamedTuple):
    lines: Sequence[GroupLine]
    """One for each task that was played, in their order."""
    missing: str
    """A sentence about older episodes that are not counted; empty if none are missing."""

    @property
    def with_spread(self) -> int:
        """Number of groups that have two returns or more."""
        return sum(line.spread.scored > 1 for line in self.lines)

    @property
    def flat(self) -> int:
        """Number of those whose returns are all equal."""
        return sum(line.spread.is_flat for line in self.lines)

    def place_of(self, task: int) -> GroupPlace:
        tasks = [line.task for line in self.lines]
        if task not in tasks:
            return GroupPlace(0, None, None)
        at = tasks.index(task)
        before, after = tasks[:at][-1:], tasks[at + 1 :][:1]
        return GroupPlace(at + 1, next(iter(before), None), next(iter(after), None))


def group_of(
    task: Task, run: Run, step: int | None, definition: Definition, revisions: Collection[int] = ()
) -> Group:
    """Return the attempts at `task` in training step `step` of `run`. One query, along the task's
    index.

    `revisions`: ids of the revisions of the environment whose episodes count; empty: those of all.
    """
    rows = Episode.objects.filter(Exact(Unindexed(F("run_id")), run.pk), task=task, run_step=step)
    rows = rows.filter(revision__in=revisions) if revisions else rows
    rows = rows.select_related("environment", "split", "run", "revision").order_by("-pk")
    episodes = list(rows[: MAX_ATTEMPTS + 1])
    is_bounded = len(episodes) > MAX_ATTEMPTS
    episodes = episodes[:MAX_ATTEMPTS]
    endings = [
        (kind_of(episode), episode.returns[definition.return_])
        for episode in episodes
        if episode.status == "ended"
    ]
    spread = spread_of_endings(endings, definition)
    attempts = sorted(
        [_attempt(episode, definition, spread) for episode in episodes],
        key=lambda attempt: (
            attempt.advantage is None,
            -(attempt.value or 0.0),
            attempt.episode.pk,
        ),
    )
    return Group(attempts, spread, coverage_from(endings, definition.convention), is_bounded)


def groups_of(run: Run, step: int | None, definitions: Definitions) -> GroupLines:
    """Return the groups of one training step by task, from its newest MAX_READ episodes. Two
    queries.

    They are counted from the episodes themselves, so none has to wait until the follower has
    counted it.
    """
    of_step = Episode.objects.filter(run=run, run_step=step)
    ids = of_step.order_by("-pk").values_list("pk", flat=True)
    oldest = next(iter(ids[MAX_READ : MAX_READ + 1]), 0)
    lines = read_lines(of_step.filter(pk__gt=oldest), ("task_id",), definitions)
    missing = f"Only the newest {MAX_READ:,} episodes are counted." if oldest else ""
    return GroupLines(sorted(lines.values(), key=lambda line: line.task), missing)


def read_lines(
    episodes: QuerySet[Episode], key: Sequence[str], definitions: Definitions
) -> dict[tuple[int, ...], GroupLine]:
    """Return the groups of these episodes by the columns of `key`, of which the last is the task.
    One query."""
    counts = Counter[tuple[int, ...]]()
    environments = dict[tuple[int, ...], int]()
    endings = defaultdict[tuple[int, ...], list[EndedReturn]](list)
    columns: list[Any] = ["environment_id", "status", KIND, definitions.value(), *key]
    for environment, status, kind, value, *group in episodes.order_by("pk").values_list(*columns):
        counts[place := tuple(group)] += 1
        environments[place] = environment
        if status == "ended":
            endings[place].append((kind, value))
    lines = dict[tuple[int, ...], GroupLine]()
    for place, count in counts.items():
        definition = definitions.of(environments[place])
        coverage = coverage_from(endings[place], definition.convention)
        values = returns_counted(endings[place], definition.convention)
        returns = [value for value in values if value is not None]
        spread = spread_of(returns)
        lines[place] = GroupLine(place[-1], count, coverage, spread, returns, definition)
    return lines


def _attempt(episode: Episode, definition: Definition, spread: Spread) -> Attempt:
    value = episode.returns[definition.return_]
    if episode.status != "ended":
        return Attempt(episode, value, None, None)
    mark = definition.convention.treatments.get(kind_of(episode), "keep")
    if mark == "out":
        return Attempt(episode, value, mark, None)
    value = 0.0 if mark == "zero" else value
    return Attempt(episode, value, mark, None if value is None else spread.advantage(value))
