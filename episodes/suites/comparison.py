"""Two models or runs compared over a version of a suite: task by task, in each member, and over all
of them.

Only tasks that both attempted count, each once, so neither gains by easier tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple, cast

from environments.filtering.parameters import BadFilter
from environments.models import Viewer
from episodes.figures.comparison.paired_statistics import PairedEvidence, evidence_of, evidence_over
from episodes.figures.comparison.run_comparison import difference_of
from episodes.figures.comparison.success_test import exact_test, largest_significant
from episodes.figures.leaderboard.leaderboard_results import TaskCounts, endings_by_task
from episodes.models import Run, SuiteMember, SuiteTask, SuiteVersion
from episodes.suites.results import Players, is_in_force, newest_episodes, notes_of
from episodes.suites.scores import shares_of
from episodes.suites.versions import Score, definition_of_member, members_of


class TaskScore(NamedTuple):
    """The figure of one player at one task."""

    value: float
    counts: TaskCounts


class TaskPair(NamedTuple):
    member: SuiteMember
    task: int
    first: TaskScore
    second: TaskScore
    is_significant: bool = False
    """Whether the rates of success differ by more than chance, with all shared tasks tested."""

    @property
    def difference(self) -> float:
        return difference_of(self.second.value, self.first.value)

    @property
    def p(self) -> float | None:
        """How likely rates of success at least so different are by chance; None for returns."""
        if self.member.version.score == "return":
            return None
        first, second = self.first.counts, self.second.counts
        return exact_test(second.successes, second.attempts, first.successes, first.attempts)


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
        return fmean(pair.first.value for pair in self.pairs) if self.pairs else None

    @property
    def second(self) -> float | None:
        return fmean(pair.second.value for pair in self.pairs) if self.pairs else None

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
    """The shared tasks at which they differ: first those with a significant difference, and of
    these and the others those with the largest."""
    notes: Sequence[str]

    @property
    def shared(self) -> int:
        return sum(len(member.pairs) for member in self.members)

    @property
    def worse(self) -> list[TaskPair]:
        """Those of `tasks` at which the second is worse than the first."""
        return [pair for pair in self.tasks if pair.difference < 0]

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
    pairs = [pair for member in comparisons for pair in member.pairs]
    largest = largest_significant([pair.p for pair in pairs if pair.p is not None])
    unequal = [
        pair._replace(is_significant=pair.p is not None and pair.p <= largest)
        for pair in pairs
        if pair.difference
    ]
    unequal.sort(key=lambda pair: (not pair.is_significant, -abs(pair.difference)))
    return SuiteComparison(names, comparisons, overall, unequal, notes_of(members))


def _figures(
    member: SuiteMember, by: Players, names: Sequence[str], score: Score
) -> dict[str, dict[int, TaskScore]]:
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
    figures: dict[str, dict[int, TaskScore]] = {name: {} for name in names}
    for (name, task), count in counts.items():
        if (value := count.figure(score)) is not None:
            figures[name][task] = TaskScore(value, count)
    return figures
