"""Sums of what models or runs reached at the tasks of a suite's members.

Members whose definition is the one in force in their environment are read from TaskStatistics, so
that all attempts count. For another definition the newest episodes of the environment are read.
Both name the tasks that fail: nobody has an attempt that counts, only failures of the environment.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args

from django.db.models import (
    Case,
    Count,
    F,
    FloatField,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    Value,
    When,
)
from django.db.models.functions import Abs, NullIf

from environments.scoring.convention import (
    COUNTED_PARTS,
    ENVIRONMENT_FAILURES,
    Convention,
    kinds_counted,
)
from environments.scoring.definition import definition_of
from episodes.attempts.rule import ENDED
from episodes.figures.leaderboard.leaderboard_results import (
    MAX_SQUARED,
    TaskCounts,
    endings_by_task,
)
from episodes.figures.scopes import MAX_ENDINGS, filtered, floor_of
from episodes.models import EnvironmentRevision, Episode, SuiteMember, SuiteTask
from episodes.suites.scores import TaskSums
from episodes.suites.versions import Score, definition_of_member

Players = Literal["model", "run"]
BY: tuple[Players, ...] = get_args(Players)
_STATISTICS = "task__statistics__"


def is_in_force(member: SuiteMember) -> bool:
    """Return whether the member's definition is the one by which the environment counts all of its
    attempts."""
    return definition_of(member.environment) == definition_of_member(member)


def notes_of(members: Sequence[SuiteMember]) -> list[str]:
    """Return what readers have to know about the scores: which members are not counted from all of
    their attempts, and which environments' episodes different code played. One query.
    """
    notes = []
    for member in members:
        environment = member.environment
        if not is_in_force(member):
            notes.append(
                f"{member.label} counts by another definition than {environment.name} does now: "
                f"only its newest {MAX_ENDINGS:,} episodes are read."
            )
        elif environment.counted != environment.definition:
            notes.append(f"The results of {environment.name} are being recounted.")
    environments = {member.environment_id for member in members}
    rows = EnvironmentRevision.objects.filter(environment__in=environments).order_by(
        "environment__name", "-pk"
    )
    labels = defaultdict[str, dict[str, str]](dict)
    for row in rows.select_related("environment").only("code", "environment__name"):
        labels[row.environment.name].setdefault(row.code, row.label)
    return notes + [
        f"Scores in {name} pool episodes that different code of it played: revisions "
        f"{', '.join(codes.values())}."
        for name, codes in labels.items()
        if len(codes) > 1
    ]


def newest_episodes(member: SuiteMember) -> QuerySet[Episode]:
    """Return the episodes of the member's tasks among the newest MAX_ENDINGS of its environment.
    One query."""
    environment = Episode.objects.filter(environment=member.environment)
    floor = floor_of(filtered(environment, "", environment))
    return environment.filter(
        pk__gt=floor, task__in=SuiteTask.objects.filter(member=member).values("task")
    )


class TaskFailures(NamedTuple):
    """A task of a member at which rollouts ended by failures of the environment, and no attempt
    counts."""

    member: int
    task: int
    failures: int


def sums_of_all(
    members: Sequence[SuiteMember], by: Players, score: Score
) -> dict[int, dict[str, TaskSums]]:
    """Return the sums by member and name over all attempts. One query."""
    has_figure = Q(**{f"{_STATISTICS}{'attempts' if score == 'success' else 'scored'}__gt": 0})
    figure: Any = F(f"{_STATISTICS}rate")
    if score == "return":
        count = F(f"{_STATISTICS}scored") * Value(1.0, FloatField())
        figure = F(f"{_STATISTICS}return_total") / NullIf(count, Value(0.0))
    is_small = Q(**{f"{_STATISTICS}return_total__range": (-MAX_SQUARED, MAX_SQUARED)})
    small = Case(When(is_small, then=figure), default=Value(0.0))
    rows = (
        SuiteTask.objects.filter(member__in=members, **{f"{_STATISTICS}by": by})
        .order_by()
        .values_list("member", f"{_STATISTICS}key")
        .annotate(
            tasks_=Count("pk", filter=has_figure),
            total_=Sum(figure, filter=has_figure),
            squares_=Sum(small * small, filter=has_figure),
            largest_=Max(Abs(figure), filter=has_figure),
            attempts_=Sum(f"{_STATISTICS}attempts"),
            **{f"{name}_": Sum(f"{_STATISTICS}{name}") for name in COUNTED_PARTS},
        )
    )
    sums: dict[int, dict[str, TaskSums]] = {member.pk: {} for member in members}
    conventions = {member.pk: Convention.from_code(member.convention) for member in members}
    for member, key, tasks, total, squares, largest, attempts, *numbers in rows:
        parts = dict(zip(COUNTED_PARTS, numbers, strict=True))
        kinds = kinds_counted(attempts, parts, conventions[member])
        sums[member][key] = TaskSums(
            tasks, total or 0.0, squares or 0.0, largest or 0.0, attempts, kinds
        )
    return sums


def failing_tasks_of_all(members: Sequence[SuiteMember]) -> list[TaskFailures]:
    """Return the tasks that fail, by the statistics over all attempts. One query."""
    rows = SuiteTask.objects.filter(
        member__in=members,
        **{
            f"{_STATISTICS}by": "all",
            f"{_STATISTICS}attempts": 0,
            f"{_STATISTICS}env_error__gt": 0,
        },
    )
    values = rows.order_by("member__number", "position").values_list(
        "member", "task", f"{_STATISTICS}env_error"
    )
    return [TaskFailures(*row) for row in values]


def last_results_of(members: Sequence[SuiteMember]) -> dict[int, datetime]:
    """Return when the newest ended episode at a task of each member ended, by the member's id;
    those of people are left out, and members without any. Two queries."""
    ended = Episode.objects.filter(ENDED, ~Q(player="human"), task=OuterRef("task"))
    tasks = SuiteTask.objects.filter(member__in=members).order_by()
    newest = tasks.annotate(last=Subquery(ended.order_by("-pk").values("pk")[:1]))
    episodes = dict(newest.values_list("member").annotate(newest=Max("last")))
    times = dict(Episode.objects.filter(pk__in=episodes.values()).values_list("pk", "ended"))
    return {member: time for member, pk in episodes.items() if (time := times.get(pk))}


def sums_of_newest(
    member: SuiteMember, by: Players, score: Score
) -> tuple[dict[str, TaskSums], list[TaskFailures]]:
    """Return the sums by name over the newest episodes, and the tasks that fail, by all agents'
    episodes: with a name or without. Two queries."""
    definition = definition_of_member(member)
    players: dict[str, TaskSums] = defaultdict(TaskSums)
    failures, attempted_tasks = Counter[int](), set[int]()
    endings_of = endings_by_task(newest_episodes(member), by, definition, has_nameless=True)
    for (key, task), endings in endings_of.items():
        failures[task] += sum(kind in ENVIRONMENT_FAILURES for kind, _ in endings)
        counts = TaskCounts.of(endings, definition)
        if counts.attempts:
            attempted_tasks.add(task)
        if not key:
            continue
        sums = players[key]
        for kind, _ in endings:
            sums.kinds[kind] = sums.kinds.get(kind, 0) + 1
        if (figure := counts.figure(score)) is not None:
            sums.add(figure, counts.attempts)
    failing = [
        TaskFailures(member.pk, task, count)
        for task, count in sorted(failures.items())
        if count and task not in attempted_tasks
    ]
    return players, failing
