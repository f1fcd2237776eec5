"""Two models or runs compared over a version of a suite: task by task, in each member, and over all
of them.

Only tasks that both attempted count, each once, so neither gains by easier tasks.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from environments.filtering.parameters import BadFilter
from environments.models import Viewer
from environments.scoring.definition import Definition
from episodes.analytics.leaderboard_results import endings_by_task
from episodes.analytics.paired_statistics import PairedEvidence, evidence_of, evidence_over
from episodes.analytics.run_comparison import difference_of
from episodes.models import Run, SuiteMember, SuiteTask, SuiteVersion
from episodes.suites.results import Players, TaskCounts, is_in_force, newest_episodes, notes_of
from episodes.suites.scores import shares_of
from episodes.suites.versions import Score, definition_of_member, members_of

FiguresOfPlayer = Mapping[int, Mapping[int, float]]
_COLUMNS = ("attempts", "successes", "scored", "return_total")


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
        return sum(len(one.pairs) for one in self.members)

    @property
    def ties(self) -> int:
        """Shared tasks at which both reached the same."""
        return sum(one.ties for one in self.members)

    @property
    def lacking(self) -> list[str]:
        """Labels of the members with less than two shared tasks."""
        return [one.member.label for one in self.members if one.evidence is None]


def compared(
    version: SuiteVersion,
    by: Players,
    names: tuple[str, str],
    most: int,
    viewer: Viewer,
) -> SuiteComparison:
    """Compare the second of two players with the first; the result has `most` tasks at most.
    Raises: BadFilter.

    Runs that do not exist for the viewer cannot be compared.
    """
    if names[0] == names[1]:
        raise BadFilter(
            "second", names[1], f"it is the {by} that it is compared with; choose another one"
        )
    members = members_of(version)
    figures = _figures(members, by, names, cast(Score, version.score))
    seen = set(names)
    if by == "run":
        seen = set(
            Run.objects.seen_by(viewer).filter(name__in=names).values_list("name", flat=True)
        )
    for place, name in zip(("first", "second"), names, strict=True):
        if name not in seen or not any(figures[name].values()):
            raise BadFilter(
                place, name, f"no {by} of that name has an attempt at a task of this suite"
            )
    found = _pairs(members, figures, names)
    evidence = None
    if all(one.evidence for one in found):
        evidence = evidence_over(
            [(one.share, [pair.difference for pair in one.pairs]) for one in found]
        )
    every = [pair for one in found for pair in one.pairs if pair.difference]
    largest = heapq.nlargest(most, every, key=lambda pair: abs(pair.difference))
    return SuiteComparison(names, found, evidence, largest, notes_of(members))


def _pairs(
    members: Sequence[SuiteMember], figures: Mapping[str, FiguresOfPlayer], names: tuple[str, str]
) -> list[MemberPair]:
    found = []
    shares = shares_of([member.weight for member in members])
    for member, share in zip(members, shares, strict=True):
        first, second = (figures[name].get(member.pk, {}) for name in names)
        pairs = [
            TaskPair(member, task, first[task], second[task])
            for task in sorted(first.keys() & second.keys())
        ]
        differences = [pair.difference for pair in pairs]
        found.append(
            MemberPair(member, share, pairs, evidence_of(differences) if len(pairs) > 1 else None)
        )
    return found


def _figures(
    members: Sequence[SuiteMember], by: Players, names: Sequence[str], score: Score
) -> dict[str, dict[int, dict[int, float]]]:
    """Return the figure of each task by name, member and task. One query, and two for each member
    read one by one."""
    found: dict[str, dict[int, dict[int, float]]] = {
        name: {member.pk: {} for member in members} for name in names
    }

    def keep(name: str, member: int, task: int, counts: TaskCounts) -> None:
        if (figure := counts.figure(score)) is not None:
            found[name][member][task] = figure

    own = [member for member in members if is_in_force(member)]
    listed = SuiteTask.objects.filter(
        member__in=own, task__statistics__by=by, task__statistics__key__in=names
    )
    columns = (f"task__statistics__{name}" for name in ("key", *_COLUMNS))
    for member, task, name, *counts in listed.order_by().values_list("member", "task", *columns):
        keep(name, member, task, TaskCounts(*counts))
    for one in members:
        if one not in own:
            for (name, task), counts_of_task in _read(
                one, by, names, definition_of_member(one)
            ).items():
                keep(name, one.pk, task, counts_of_task)
    return found


def _read(
    member: SuiteMember, by: Players, names: Sequence[str], definition: Definition
) -> dict[tuple[str, int], TaskCounts]:
    column = {"model": "model", "run": "run__name"}[by]
    episodes = newest_episodes(member).filter(**{f"{column}__in": names})
    endings = endings_by_task(episodes, by, definition)
    return {key: TaskCounts.of(found, definition) for key, found in endings.items()}
