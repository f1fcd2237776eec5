"""The leaderboard of a version of a suite: the score of each model or run, and its rank.

A player is ranked once it has an attempt that counts at every task of every member: nobody gains by
leaving out tasks. Tasks at which the environment fails for everybody are no part of the scores, and
the ranks are provisional then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from environments.filtering.filters import query_string
from environments.models import Task, Viewer
from environments.scoring.convention import Convention, Coverage, coverage_of, coverages_together
from environments.scoring.definition import definition_of
from environments.scoring.success_interval import Interval
from episodes.figures.ranks import Rank, ranks_of
from episodes.models import Run, SuiteMember, SuiteVersion
from episodes.models.privacy import visible_runs
from episodes.suites.episode_filter import SuitePart
from episodes.suites.results import (
    Players,
    TaskFailures,
    failing_tasks_of_all,
    is_in_force,
    last_results_of,
    notes_of,
    sums_of_all,
    sums_of_newest,
)
from episodes.suites.scores import TaskSums, score_of
from episodes.suites.versions import SCORES, Score, definition_of_member, members_of

MAX_ROWS = 200
MAX_TASKS = 20_000
"""Tasks of all versions in a list that are counted for it."""


@dataclass(frozen=True, slots=True)
class MemberScore:
    """The score of one player in one member."""

    member: SuiteMember
    by: Players
    key: str
    """Name of the model or run."""
    sums: TaskSums
    failing: int
    """Tasks of the member that fail."""

    @property
    def missing(self) -> int:
        """Tasks without an attempt that counts, of those that do not fail."""
        return self.member.tasks_count - self.failing - self.sums.tasks

    @property
    def interval(self) -> Interval | None:
        """95 % interval of the score; None if it cannot be said."""
        return self.sums.interval(cast(Score, self.member.version.score))

    @property
    def coverage(self) -> Coverage:
        return coverage_of(self.sums.kinds, Convention.from_code(self.member.convention))

    @property
    def query(self) -> str:
        """Query string of the Episodes page that lists the attempts behind the figures."""
        version, environment = self.member.version, self.member.environment
        definition, own = definition_of_member(self.member), definition_of(environment)
        return query_string(
            **{
                "suite": SuitePart(version.suite.name, version.number, self.member.number),
                self.by: self.key,
                "environment": environment.name,
                "ending": "attempt",
                "return": definition.return_ if definition.return_ != own.return_ else "",
            },
            **definition.convention.parameters(own.convention),
        )


@dataclass(slots=True)
class SuiteRow:
    key: str
    """Name of the model or run."""
    score: float | None
    """None without an attempt at some member."""
    interval: Interval | None
    members: Sequence[MemberScore]
    """In the order of the version."""
    query: str
    """Query string of the Episodes page that lists all of its episodes."""
    ranking: Rank | None = None
    """Rank among the complete players; None for others."""

    @property
    def rank(self) -> int | None:
        return self.ranking and self.ranking.place

    @property
    def missing(self) -> list[MemberScore]:
        """The members with tasks that lack an attempt; empty for complete players."""
        return [member for member in self.members if member.missing]

    @property
    def coverage(self) -> Coverage:
        return coverages_together([member.coverage for member in self.members])

    @property
    def tasks(self) -> int:
        return sum(member.sums.tasks for member in self.members)

    @property
    def attempts(self) -> int:
        return sum(member.sums.attempts for member in self.members)


@dataclass(frozen=True, slots=True)
class SuiteOutline:
    """What a list of suites says of the results of a version."""

    ranked: Sequence[SuiteRow]
    """Models, best first."""
    known: int
    """Number of models with an attempt, ranked or not."""
    failing: int
    """Number of tasks that fail and are no part of the scores."""
    last_result: datetime | None
    """When the last episode of an agent or scripted player at its tasks ended."""


@dataclass(frozen=True, slots=True)
class SuiteStandings:
    version: SuiteVersion
    members: Sequence[SuiteMember]
    by: Players
    ranked: Sequence[SuiteRow]
    """Best first."""
    others: Sequence[SuiteRow]
    """Most tasks first; with the ranked ones MAX_ROWS at most."""
    known: int
    """Number of players, of which there may be more than rows."""
    notes: Sequence[str]
    """Sentences for the page about members that are not counted as usual."""
    failing: int
    """Number of tasks that fail and are no part of the scores."""
    failing_tasks: Sequence[TaskFailures]
    """Those that exist for the viewer."""

    @property
    def rows(self) -> list[SuiteRow]:
        return [*self.ranked, *self.others]

    @property
    def tasks(self) -> int:
        return sum(member.tasks_count for member in self.members)

    @property
    def is_provisional(self) -> bool:
        """Whether the ranks may change once tasks that fail can be attempted."""
        return self.failing > 0

    @property
    def numbers(self) -> list[int]:
        """Numbers of all versions of the suite. One query."""
        return list(self.version.suite.versions.order_by("number").values_list("number", flat=True))


def standings(version: SuiteVersion, viewer: Viewer, by: Players = "model") -> SuiteStandings:
    """Return the leaderboard of a version. Four queries, and two for each member whose definition
    is not in force.

    Runs that do not exist for the viewer have no row. One more query if tasks fail.
    """
    members = members_of(version)
    rows, failing = _rows(version, members, by)
    if by == "run" and (condition := visible_runs(viewer)):
        runs = Run.objects.filter(condition, name__in=list(rows))
        visible_names = set(runs.values_list("name", flat=True))
        rows = {name: row for name, row in rows.items() if name in visible_names}
    ranked_rows = _ranked(rows)
    others = [row for row in rows.values() if row.rank is None]
    others.sort(key=lambda row: (-row.tasks, row.key))
    ranked_rows = ranked_rows[:MAX_ROWS]
    others = others[: MAX_ROWS - len(ranked_rows)]
    tasks = Task.objects.seen_by(viewer).filter(pk__in=[task.task for task in failing])
    visible_tasks = set(tasks.values_list("pk", flat=True))
    return SuiteStandings(
        *(version, members, by, ranked_rows, others, len(rows), notes_of(members), len(failing)),
        failing_tasks=[task for task in failing if task.task in visible_tasks],
    )


def _ranked(rows: Mapping[str, SuiteRow]) -> list[SuiteRow]:
    """Return the rows of the complete players, best first, and set their ranks."""
    ranked_rows = [row for row in rows.values() if row.score is not None and not row.missing]
    ranked_rows.sort(key=lambda row: (-(row.score or 0.0), row.key))
    ranks = ranks_of([(row.score, row.interval) for row in ranked_rows])
    for row, rank in zip(ranked_rows, ranks, strict=True):
        row.ranking = rank
    return ranked_rows


def outlines_of(versions: Sequence[SuiteVersion]) -> dict[int, SuiteOutline]:
    """Return the outline of each of these versions by its id, in five queries for all of them.

    Versions with a member whose definition is not in force have none, because their episodes would
    be read one by one; neither have those that come after MAX_TASKS tasks.
    """
    members_by_version, total = dict[int, list[SuiteMember]](), 0
    for version in versions:
        members = sorted(version.members.all(), key=lambda member: member.number)
        total += sum(member.tasks_count for member in members)
        if total <= MAX_TASKS and all(is_in_force(member) for member in members):
            members_by_version[version.pk] = members
    with_members = [version for version in versions if version.pk in members_by_version]
    every = [member for members in members_by_version.values() for member in members]
    failing_tasks, last_results = failing_tasks_of_all(every), last_results_of(every)
    outlines = {}
    for score in SCORES:
        of_this_score = [version for version in with_members if version.score == score]
        of_score = [
            member for version in of_this_score for member in members_by_version[version.pk]
        ]
        sums = sums_of_all(of_score, "model", score) if of_score else {}
        for version in of_this_score:
            members = members_by_version[version.pk]
            own = {member.pk for member in members}
            failing = [task for task in failing_tasks if task.member in own]
            rows = _rows_from(version, members, "model", sums, failing)
            results = [last_results[pk] for pk in own if pk in last_results]
            outlines[version.pk] = SuiteOutline(
                _ranked(rows), len(rows), len(failing), max(results, default=None)
            )
    return outlines


def rows_by_name(version: SuiteVersion, by: Players, names: Sequence[str]) -> list[SuiteRow]:
    """Return the rows of these players without their ranks, in this order. As many queries as
    `standings`."""
    rows, _ = _rows(version, members_of(version), by)
    return [rows[name] for name in names]


def _rows(
    version: SuiteVersion, members: Sequence[SuiteMember], by: Players
) -> tuple[dict[str, SuiteRow], list[TaskFailures]]:
    """Return the row of each player that has an attempt, without its rank, and the tasks that
    fail."""
    score = cast(Score, version.score)
    own = [member for member in members if is_in_force(member)]
    sums, failing_tasks = sums_of_all(own, by, score), failing_tasks_of_all(own)
    for member in members:
        if member not in own:
            sums[member.pk], of_member = sums_of_newest(member, by, score)
            failing_tasks += of_member
    return _rows_from(version, members, by, sums, failing_tasks), failing_tasks


def _rows_from(
    version: SuiteVersion,
    members: Sequence[SuiteMember],
    by: Players,
    sums: Mapping[int, Mapping[str, TaskSums]],
    failing_tasks: Sequence[TaskFailures],
) -> dict[str, SuiteRow]:
    """Return the row of each player that has an attempt. `sums`: by member and player."""
    score = cast(Score, version.score)
    failing = Counter(task.member for task in failing_tasks)
    weights = [member.weight for member in members]
    rows = {}
    for key in {key for member in members for key in sums[member.pk]}:
        parts = [sums[member.pk].get(key, TaskSums()) for member in members]
        if any(part.attempts for part in parts):
            rows[key] = SuiteRow(
                key,
                *score_of(parts, weights, score),
                [
                    MemberScore(member, by, key, part, failing[member.pk])
                    for member, part in zip(members, parts, strict=True)
                ],
                query_string(**{"suite": SuitePart(version.suite.name, version.number), by: key}),
            )
    return rows


def citation_of(results: SuiteStandings, row: SuiteRow, address: str) -> str:
    """Return the line that cites the score of a ranked row. `address`: of the version's page."""
    version = results.version
    figure = "success rate" if version.score == "success" else "mean return"
    interval = ""
    if row.interval:
        interval = f" (95% interval {row.interval.low:.3f} to {row.interval.high:.3f})"
    tasks = f"{results.tasks:,} task{'' if results.tasks == 1 else 's'}"
    if results.is_provisional:
        tasks = f"{row.tasks:,} of {tasks} (provisional: at the others the environment fails)"
    return (
        f"{version}, sha256:{version.hash}: {row.key}, {figure} {row.score:.3f}{interval}, "
        f"{tasks}, {row.attempts:,} attempts. {address}"
    )
