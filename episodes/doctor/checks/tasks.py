"""Tasks that nobody solves, tasks that everybody solves, and scales that differ between tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from django.urls import reverse

from environments import conf
from environments.display.numbers import plain
from environments.models import TaskStatistics
from environments.models.viewer import visible_tasks
from environments.scoring.definition import definition_of
from environments.scoring.task_buckets import bucket_of
from environments.tasks.task_facts import task_names
from episodes.doctor.findings import (
    MAX_EVIDENCE,
    DoctorVerdict,
    Evidence,
    check,
    fine,
    problem,
    too_little,
)
from episodes.doctor.scope import DoctorScope

MAX_TASKS = 20_000
"""Tasks whose statistics are read, the newest ones."""


class TaskAttempts(NamedTuple):
    """The attempts at one task."""

    task: int
    attempts: int
    rate: float
    """Success rate, 0 to 1."""
    low: float | None
    """Lowest return; None without one."""
    high: float | None

    @property
    def scale(self) -> float:
        """How far from 0 its returns reach."""
        return max(abs(self.low or 0.0), abs(self.high or 0.0))


def results_of(scope: DoctorScope) -> list[TaskAttempts]:
    """Return the results of the tasks: of a whole environment from its statistics, else from the
    newest attempts."""
    if scope.is_whole_environment and scope.definition == definition_of(scope.environment):
        seen = visible_tasks(scope.filter.viewer, "task__")
        rows = TaskStatistics.objects.filter(
            seen, environment=scope.environment, by="all", attempts__gt=0
        )
        columns = ("task_id", "attempts", "rate", "return_low", "return_high")
        return [
            TaskAttempts(*row)
            for row in rows.order_by("-task_id").values_list(*columns)[:MAX_TASKS]
        ]
    found: dict[int, list[float | None]] = defaultdict(list)
    for attempt in scope.attempts:
        found[attempt.task].append(attempt.value)
    return [_counted(task, values, scope.definition.bar) for task, values in found.items()]


def _counted(task: int, values: Sequence[float | None], bar: float) -> TaskAttempts:
    returns = [value for value in values if value is not None]
    rate = sum(value > bar for value in returns) / len(values)
    return TaskAttempts(
        task, len(values), rate, min(returns, default=None), max(returns, default=None)
    )


def task_links(tasks: Sequence[int]) -> list[Evidence]:
    """Return the pages of the first MAX_EVIDENCE tasks."""
    names = task_names(list(tasks[:MAX_EVIDENCE]))
    return [Evidence(names[task], reverse("task", args=[task])) for task in names]


def _judged(scope: DoctorScope) -> list[TaskAttempts]:
    """Return the tasks with enough attempts, by the server's setting."""
    return [one for one in results_of(scope) if one.attempts >= conf.thresholds().attempts]


def _lacking(scope: DoctorScope, judged: Sequence[TaskAttempts]) -> DoctorVerdict | None:
    needed, attempts = scope.thresholds.tasks, conf.thresholds().attempts
    if len(judged) >= needed:
        return None
    return too_little(
        f"This needs {needed:,} tasks with {attempts} attempts or more and has {len(judged):,}."
    )


def _share(scope: DoctorScope, bucket: str, words: str, most: float) -> DoctorVerdict:
    """Return the verdict on the share of tasks in a bucket, whose limits are settings of the
    server."""
    limits, judged = conf.thresholds(), _judged(scope)
    if verdict := _lacking(scope, judged):
        return verdict
    inside = sorted(
        (one for one in judged if bucket_of(one.attempts, one.rate, limits) == bucket),
        key=lambda one: (-one.attempts, one.task),
    )
    share = len(inside) / len(judged)
    sentence = (
        f"{words}: {len(inside):,} of {len(judged):,} tasks with {limits.attempts} attempts or "
        f"more ({share:.0%})"
    )
    if share < most or not inside:
        return fine(f"{sentence}.")
    return problem(
        f"{sentence}. There is nothing to learn from them.",
        *task_links([one.task for one in inside]),
    )


@check("Tasks that nobody solves", "unsolved", "tasks")
def unsolved_tasks(scope: DoctorScope) -> DoctorVerdict:
    return _share(scope, "hopeless", "Solved by nobody", scope.thresholds.unsolved)


@check("Tasks that everybody solves", "solved", "tasks")
def solved_tasks(scope: DoctorScope) -> DoctorVerdict:
    return _share(scope, "saturated", "Solved in every attempt", scope.thresholds.solved)


@check("Scales that differ between tasks", "scale", "tasks")
def differing_scales(scope: DoctorScope) -> DoctorVerdict:
    judged = sorted(
        (one for one in _judged(scope) if one.scale > 0), key=lambda one: (one.scale, one.task)
    )
    if verdict := _lacking(scope, judged):
        return verdict
    tenth = len(judged) // 10
    small, large = judged[tenth].scale, judged[-1 - tenth].scale
    percentiles = (
        f"{plain(small, 3)} at the 10th percentile of {len(judged):,} tasks and {plain(large, 3)} "
        "at the 90th"
    )
    sentence = f"The largest return of a task is {percentiles}"
    if large / small < scope.thresholds.scale:
        return fine(f"{sentence}.")
    ends = [one.task for one in (*judged[-1:-3:-1], *judged[:2])]
    return problem(f"{sentence}. The large ones decide what is learned.", *task_links(ends))
