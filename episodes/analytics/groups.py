"""Groups: the attempts at one task in one training step of a run, compared as group-relative
training compares them.

An attempt's advantage is (return - mean) / (standard deviation + EPSILON) over the group's attempts
that have a return, with the standard deviation of the population. If all returns are equal, all
advantages are 0 and there is nothing to learn from the group.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import F
from django.db.models.lookups import Exact

from environments.models import Task
from environments.scoring.convention import Coverage, Treatment
from environments.scoring.definition import Definition, Definitions
from episodes.analytics.figures import mean_and_deviation
from episodes.attempts.group_states import MAX_FLAT_RANGE, GroupCount
from episodes.attempts.rule import KIND, kind_of
from episodes.attempts.summary import EndedReturn, coverage_from, returns_counted
from episodes.filtering.conditions import Unindexed
from episodes.models import EnvironmentRevision, Episode, Run

EPSILON = 1e-4
MAX_ATTEMPTS = 500
"""Attempts of one group that are read, the newest ones."""
MAX_READ = 50_000
"""Episodes of one training step that are read, the newest ones."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread of the returns of a group."""

    scored: int
    """Attempts that have a return."""
    mean: float | None
    """Mean of the returns; None if there are none."""
    deviation: float | None
    """Standard deviation of the population; None if there are no returns."""
    range: float = 0.0
    """Difference between the highest and the lowest return."""

    @property
    def is_flat(self) -> bool:
        """Return whether two attempts or more all have the same return, as `GroupState` decides
        it."""
        return self.scored > 1 and self.range <= MAX_FLAT_RANGE

    def advantage(self, value: float) -> float:
        """Return the advantage of a return of the group, which must have one."""
        assert self.mean is not None and self.deviation is not None
        half = value / 2 - self.mean / 2  # the difference itself may overflow
        return half / (self.deviation + EPSILON) * 2


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
        counted = [attempt.episode for attempt in self.attempts if attempt.advantage is not None]
        return (counted[0], counted[-1]) if len(counted) > 1 and not self.spread.is_flat else None


@dataclass(frozen=True, slots=True)
class GroupLine:
    """One group in the list of a training step's groups."""

    task: int
    episodes: int
    """Episodes, including those that are not counted."""
    coverage: Coverage
    spread: Spread
    low: float | None
    high: float | None


class GroupLines(NamedTuple):
    lines: Sequence[GroupLine]
    """One for each task that was played, in their order."""
    missing: str
    """A sentence about older episodes that are not counted; empty if none are missing."""


def spread_of(values: Iterable[float]) -> Spread:
    """Return the spread of finite values; the deviation of equal values is exactly 0."""
    returns = list(values)
    if not returns:
        return Spread(0, None, None)
    return Spread(len(returns), *mean_and_deviation(returns), range=max(returns) - min(returns))


def count_of(
    rollouts: Iterable[tuple[int, str, float | None]], definition: Definition
) -> GroupCount:
    """Count the groups of rollouts in one training step, which are task, kind of ending and
    return."""
    by_task = defaultdict[int, list[EndedReturn]](list)
    for task, kind, value in rollouts:
        by_task[task].append((kind, value))
    counted = [
        returns_counted(members, definition.convention)
        for members in by_task.values()
        if len(members) > 1
    ]
    spreads = [spread_of(value for value in values if value is not None) for values in counted]
    groups = [spread for spread in spreads if spread.scored > 1]
    deviations = math.fsum([spread.deviation or 0.0 for spread in groups])
    return GroupCount(len(groups), sum([spread.is_flat for spread in groups]), deviations)


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
    rows_read = list(rows[: MAX_ATTEMPTS + 1])
    episodes = rows_read[:MAX_ATTEMPTS]
    endings = [
        (kind_of(one), one.returns[definition.return_]) for one in episodes if one.status == "ended"
    ]
    values = returns_counted(endings, definition.convention)
    spread = spread_of(value for value in values if value is not None)
    attempts = [_attempt(episode, definition, spread) for episode in episodes]
    coverage = coverage_from(endings, definition.convention)
    return Group(sorted(attempts, key=_rank), spread, coverage, len(rows_read) > MAX_ATTEMPTS)


def groups_of(run: Run, step: int | None, definitions: Definitions) -> GroupLines:
    """Return the groups of one training step by task, from its newest MAX_READ episodes. Two
    queries.

    They are counted from the episodes themselves, so none has to wait until the follower has
    counted it.
    """
    of_step = Episode.objects.filter(run=run, run_step=step)
    ids = of_step.order_by("-pk").values_list("pk", flat=True)
    oldest = next(iter(ids[MAX_READ : MAX_READ + 1]), 0)
    rows = of_step.filter(pk__gt=oldest).order_by("pk")
    episodes: dict[int, int] = defaultdict(int)
    environments: dict[int, int] = {}
    endings: dict[int, list[EndedReturn]] = defaultdict(list)
    for task, environment, status, kind, value in rows.values_list(*_READ, definitions.value()):
        episodes[task] += 1
        environments[task] = environment
        if status == "ended":
            endings[task].append((kind, value))
    lines = [
        _line(task, count, endings[task], definitions.of(environments[task]))
        for task, count in episodes.items()
    ]
    missing = f"Only the newest {MAX_READ:,} episodes are counted." if oldest else ""
    return GroupLines(sorted(lines, key=lambda line: line.task), missing)


_READ = ("task_id", "environment_id", "status", KIND)


def _line(
    task: int, episodes: int, endings: Sequence[EndedReturn], definition: Definition
) -> GroupLine:
    values = [
        value for value in returns_counted(endings, definition.convention) if value is not None
    ]
    coverage = coverage_from(endings, definition.convention)
    ends = min(values, default=None), max(values, default=None)
    return GroupLine(task, episodes, coverage, spread_of(values), *ends)


def _attempt(episode: Episode, definition: Definition, spread: Spread) -> Attempt:
    value = episode.returns[definition.return_]
    if episode.status != "ended":
        return Attempt(episode, value, None, None)
    mark = definition.convention.treatments.get(kind_of(episode), "keep")
    if mark == "out":
        return Attempt(episode, value, mark, None)
    counted = 0.0 if mark == "zero" else value
    return Attempt(episode, counted, mark, None if counted is None else spread.advantage(counted))


def _rank(attempt: Attempt) -> tuple[bool, float, int]:
    return attempt.advantage is None, -(attempt.value or 0.0), attempt.episode.pk
