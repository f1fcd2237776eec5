"""The leaderboard of a version of a suite: the score of each model or run, and its place among
those that are complete.

A player is ranked once it has an attempt that counts at every task of every member: nobody gains by
leaving out tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from environments.filtering.filters import query_string
from environments.models import Viewer
from environments.scoring.convention import Convention, Coverage, coverage_of, coverages_together
from environments.scoring.definition import definition_of
from environments.scoring.task_buckets import Interval
from episodes.models import Run, SuiteMember, SuiteVersion
from episodes.models.privacy import visible_runs
from episodes.suites.filters import SuitePart
from episodes.suites.results import Players, counted, is_in_force, notes_of, read
from episodes.suites.scores import SuiteScore, TaskSums, score_of
from episodes.suites.versions import Score, definition_of_member, members_of

MAX_ROWS = 200


@dataclass(frozen=True, slots=True)
class MemberScore:
    """What one player reached in one member."""

    tasks: int
    """Tasks with an attempt that counts."""
    missing: int
    """Tasks without one."""
    attempts: int
    score: float | None
    """Mean over the tasks; None without any."""
    interval: Interval | None
    """95 % interval of the score; None if it cannot be said."""
    coverage: Coverage
    query: str
    """Query string of the Episodes page that lists the attempts behind the figures."""

    @property
    def low(self) -> float | None:
        return self.interval.low if self.interval else None

    @property
    def high(self) -> float | None:
        return self.interval.high if self.interval else None


@dataclass(frozen=True, slots=True)
class SuiteRow:
    key: str
    """Name of the model or run."""
    rank: int | None
    """Place among the complete players, from 1 on, the same for equal scores; None for others."""
    score: SuiteScore | None
    """None without an attempt at some member."""
    members: Sequence[MemberScore]
    """In the order of the version."""
    missing: Sequence[tuple[str, int]]
    """Label of each member with tasks that lack an attempt, and the number of these; empty for
    complete players."""
    query: str
    """Query string of the Episodes page that lists all of its episodes."""

    @property
    def value(self) -> float | None:
        return self.score.value if self.score else None

    @property
    def low(self) -> float | None:
        return self.score.interval.low if self.score and self.score.interval else None

    @property
    def high(self) -> float | None:
        return self.score.interval.high if self.score and self.score.interval else None

    @property
    def coverage(self) -> Coverage:
        return coverages_together([one.coverage for one in self.members])

    @property
    def tasks(self) -> int:
        return sum(one.tasks for one in self.members)

    @property
    def attempts(self) -> int:
        return sum(one.attempts for one in self.members)


@dataclass(frozen=True, slots=True)
class SuiteStandings:
    version: SuiteVersion
    members: Sequence[SuiteMember]
    by: Players
    rows: Sequence[SuiteRow]
    """The ranked ones, best first, then the others, most tasks first; MAX_ROWS at most."""
    known: int
    """Number of players, of which there may be more than rows."""
    notes: Sequence[str]
    """Sentences for the page about members that are not counted as usual."""

    @property
    def ranked(self) -> list[SuiteRow]:
        return [row for row in self.rows if row.rank is not None]

    @property
    def others(self) -> list[SuiteRow]:
        return [row for row in self.rows if row.rank is None]

    @property
    def tasks(self) -> int:
        return sum(member.tasks_count for member in self.members)


def standings(version: SuiteVersion, viewer: Viewer, by: Players = "model") -> SuiteStandings:
    """Return the leaderboard of a version. Three queries, and two for each member whose definition
    is not in force.

    Runs that do not exist for the viewer have no row.
    """
    members, score = members_of(version), cast(Score, version.score)
    played = _played(members, by, score)
    if by == "run" and (condition := visible_runs(viewer)):
        runs = Run.objects.filter(condition, name__in=list(played))
        visible_names = set(runs.values_list("name", flat=True))
        played = {name: sums for name, sums in played.items() if name in visible_names}
    order = _ranks(played, members, score)
    rows = [_row(version, members, by, (key, rank), played[key]) for key, rank in order[:MAX_ROWS]]
    return SuiteStandings(version, members, by, rows, len(order), notes_of(members))


def rows_named(version: SuiteVersion, by: Players, keys: Sequence[str]) -> list[SuiteRow]:
    """Return the rows of these players without their ranks, in this order. As many queries as
    `standings`."""
    members = members_of(version)
    played = _played(members, by, cast(Score, version.score))
    return [_row(version, members, by, (key, None), played[key]) for key in keys]


def _played(members: Sequence[SuiteMember], by: Players, score: Score) -> dict[str, list[TaskSums]]:
    """Return the sums of each player that has an attempt, in the order of the members."""
    own = [member for member in members if is_in_force(member)]
    sums = counted(own, by, score)
    for member in members:
        if member not in own:
            sums[member.pk] = read(member, by, score)
    keys = sorted({key for found in sums.values() for key in found})
    played = {key: [sums[one.pk].get(key, TaskSums()) for one in members] for key in keys}
    return {key: found for key, found in played.items() if any(one.attempts for one in found)}


def citation_of(found: SuiteStandings, row: SuiteRow, address: str) -> str:
    """Return the line that cites the score of a ranked row. `address`: of the version's page."""
    version, score = found.version, row.score
    if score is None:
        return ""
    figure = "success rate" if version.score == "success" else "mean return"
    ends = (
        score.interval and f" (95% interval {score.interval.low:.3f} to {score.interval.high:.3f})"
    )
    counts = f"{found.tasks:,} task{'' if found.tasks == 1 else 's'}, {row.attempts:,} attempts"
    return (
        f"{version}, sha256:{version.hash}: {row.key}, {figure} {score.value:.3f}{ends or ''}, "
        f"{counts}. {address}"
    )


def _row(
    version: SuiteVersion,
    members: Sequence[SuiteMember],
    by: Players,
    place: tuple[str, int | None],
    sums: Sequence[TaskSums],
) -> SuiteRow:
    """Return the row of a player. `place`: its name and rank."""
    key, rank = place
    score = cast(Score, version.score)
    found = [
        MemberScore(
            tasks=one.tasks,
            missing=member.tasks_count - one.tasks,
            attempts=one.attempts,
            score=one.mean,
            interval=one.interval(score),
            coverage=coverage_of(one.kinds, Convention.from_code(member.convention)),
            query=query_of(version, member, by, key),
        )
        for member, one in zip(members, sums, strict=True)
    ]
    return SuiteRow(
        key=key,
        rank=rank,
        score=score_of(sums, [member.weight for member in members], score),
        members=found,
        missing=[
            (member.label, one.missing)
            for member, one in zip(members, found, strict=True)
            if one.missing
        ],
        query=query_string(**_named(version, by, key)),
    )


def _named(
    version: SuiteVersion, by: Players, key: str, member: int | None = None
) -> dict[str, Any]:
    """Return the fields of the filter that finds the episodes of a player at a suite's tasks, or at
    a member's."""
    return {"suite": SuitePart(version.suite.name, version.number, member), by: key}


def query_of(version: SuiteVersion, member: SuiteMember, by: Players, key: str) -> str:
    """Return the query string that lists the attempts of a model or run at the tasks of a
    member."""
    names = _named(version, by, key, member.number) | {
        "environment": member.environment.name,
        "ending": "attempt",
    }
    definition, own = definition_of_member(member), definition_of(member.environment)
    differing = definition.convention.parameters(own.convention)
    return_ = definition.return_ if definition.return_ != own.return_ else ""
    return query_string(**names, **differing, **{"return": return_})


def _ranks(
    played: Mapping[str, Sequence[TaskSums]], members: Sequence[SuiteMember], score: Score
) -> list[tuple[str, int | None]]:
    """Return the players in order with their ranks: the complete ones, best first, then the others
    without a rank."""
    weights, whole = (
        [member.weight for member in members],
        sum(member.tasks_count for member in members),
    )
    tasks = {key: sum(one.tasks for one in sums) for key, sums in played.items()}
    scores = {
        key: found.value
        for key, sums in played.items()
        if tasks[key] == whole and (found := score_of(sums, weights, score)) is not None
    }
    best = sorted(scores.values(), reverse=True)
    complete = sorted(scores, key=lambda key: (-scores[key], key))
    others = sorted(played.keys() - scores.keys(), key=lambda key: (-tasks[key], key))
    return [(key, best.index(scores[key]) + 1) for key in complete] + [
        (key, None) for key in others
    ]
