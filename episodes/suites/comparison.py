"""Two models or runs compared over a version of a suite: task by task, in each member, and over all
of them.

Only tasks that both attempted count, each once, so neither gains by easier tasks.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from environments.filtering.parameters import BadFilter
from environments.models import Viewer
from episodes.figures.comparison.paired_statistics import PairedEvidence, evidence_of, evidence_over
from episodes.figures.comparison.run_comparison import difference_of
from episodes.figures.leaderboard.leaderboard_results import endings_by_task
from episodes.models import Run, SuiteMember, SuiteTask, SuiteVersion
from episodes.suites.results import Players, TaskCounts, is_in_force, newest_episodes, notes_of
from episodes.suites.scores import shares_of
from episodes.suites.versions import Score, definition_of_member, members_of


class TaskPair(NamedTuple):
    member: SuiteMember
    task: int
    first: float
    second: float

    @property
    def difference(self) -> float:
        return difference_of(self.second, self.first)


@dataclass(frozen=True, slots=True)
class MemberPair:
    """One member, over the tasks that both attempted."""

    member: SuiteMember
    share: float
    """Weight divided by the sum of all weights."""
    pairs: Sequence[TaskPair]
    evidence: PairedEvidence | None
    """None below two shared tasks."""

    @property
    def first(self) -> float | None:
        return sum(pair.first for pair in self.pairs) / len(self.pairs) if self.pairs else None

    @property
    def second(self) -> float | None:
        return sum(pair.second for pair in self.pairs) / len(self.pairs) if self.pairs else None

    @property
    def ties(self) -> int:
        return sum(not pair.difference for pair in self.pairs)


@dataclass(frozen=True, slots=True)
class SuiteComparison:
    names: tuple[str, str]
    members: Sequence[MemberPair]
    evidence: PairedEvidence | None
    """Over all members by their weights; None if a member has less than two shared tasks."""
    tasks: Sequence[TaskPair]
    """The shared tasks with the largest differences, the largest first."""
    notes: Sequence[str]

    @property
    def shared(self) -> int:
        return sum(len(member.pairs) for member in self.members)

    @property
    def ties(self) -> int:
        """Shared tasks at which both have the same figure."""
        return sum(member.ties for member in self.members)

    @property
    def lacking(self) -> list[str]:
        """Labels of the members with less than two shared tasks."""
        return [pair.member.label for pair in self.members if pair.evidence is None]


def compare(
    version: SuiteVersion,
    by: Players,
    names: tuple[str, str],
    max_tasks: int,
    viewer: Viewer,
) -> SuiteComparison:
    """Compare the second of two players with the first. One query for each member whose definition
    is in force, two for others.

    Runs that do not exist for the viewer cannot be compared. Raises: BadFilter.
    """
    if names[0] == names[1]:
        raise BadFilter(
            "second", names[1], f"it is the {by} that it is compared with; choose another one"
        )
    members = members_of(version)
    figures = [_figures(member, by, names, cast(Score, version.score)) for member in members]
    visible = set(names)
    if by == "run":
        visible = set(
            Run.objects.seen_by(viewer).filter(name__in=names).values_list("name", flat=True)
        )
    for parameter, name in zip(("first", "second"), names, strict=True):
        if name not in visible or not any(player[name] for player in figures):
            raise BadFilter(
                parameter, name, f"no {by} of that name has an attempt at a task of this suite"
            )
    comparisons = []
    shares = shares_of([member.weight for member in members])
    for member, share, players in zip(members, shares, figures, strict=True):
        first, second = (players[name] for name in names)
        pairs = [
            TaskPair(member, task, first[task], second[task])
            for task in sorted(first.keys() & second.keys())
        ]
        evidence = evidence_of([pair.difference for pair in pairs]) if len(pairs) > 1 else None
        comparisons.append(MemberPair(member, share, pairs, evidence))
    overall = None
    if all(member.evidence for member in comparisons):
        overall = evidence_over(
            [(member.share, [pair.difference for pair in member.pairs]) for member in comparisons]
        )
    unequal = [pair for member in comparisons for pair in member.pairs if pair.difference]
    largest = heapq.nlargest(max_tasks, unequal, key=lambda pair: abs(pair.difference))
    return SuiteComparison(names, comparisons, overall, largest, notes_of(members))


def _figures(
    member: SuiteMember, by: Players, names: Sequence[str], score: Score
) -> dict[str, dict[int, float]]:
    """Return the figures by name and task."""
    if is_in_force(member):
        rows = SuiteTask.objects.filter(
            member=member, task__statistics__by=by, task__statistics__key__in=names
        ).order_by()
        columns = ("key", "task", "attempts", "successes", "scored", "return_total")
        values = rows.values_list(*(f"task__statistics__{column}" for column in columns))
        counts = {(name, task): TaskCounts(*numbers) for name, task, *numbers in values}
    else:
        definition = definition_of_member(member)
        column = {"model": "model", "run": "run__name"}[by]
        episodes = newest_episodes(member).filter(**{f"{column}__in": names})
        counts = {
            place: TaskCounts.of(endings, definition)
            for place, endings in endings_by_task(episodes, by, definition).items()
        }
    figures: dict[str, dict[int, float]] = {name: {} for name in names}
    for (name, task), count in counts.items():
        if (figure := count.figure(score)) is not None:
            figures[name][task] = figure
    return figures
