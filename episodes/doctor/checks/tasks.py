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
from episodes.doctor.checks import check
from episodes.doctor.findings import (
    MAX_EVIDENCE,
    DoctorFinding,
    Evidence,
    no_problem,
    problem,
    too_few,
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


@check("Scales that differ between tasks", "scale", "tasks")
def differing_scales(scope: DoctorScope) -> DoctorFinding:
    tasks = [task for task in tasks_of(scope) if task.scale > 0]
    tasks.sort(key=lambda task: (task.scale, task.task))
    if finding := _too_few_tasks(scope, tasks):
        return finding
    tenth = len(tasks) // 10
    small, large = tasks[tenth].scale, tasks[-1 - tenth].scale
    sentence = (
        f"The largest return of a task is {plain(small, 3)} at the 10th percentile of "
        f"{len(tasks):,} tasks and {plain(large, 3)} at the 90th"
    )
    if large / small < scope.thresholds["scale"]:
        return no_problem(f"{sentence}.")
    return problem(
        f"{sentence}. The large ones decide what is learned.",
        *_links([*tasks[:-3:-1], *tasks[:2]]),
    )


@check("Tasks that nobody solves", "unsolved", "tasks")
def unsolved_tasks(scope: DoctorScope) -> DoctorFinding:
    return _bucket(scope, "hopeless", "Solved by nobody", scope.thresholds["unsolved"])


@check("Tasks that everybody solves", "solved", "tasks")
def solved_tasks(scope: DoctorScope) -> DoctorFinding:
    return _bucket(scope, "saturated", "Solved in every attempt", scope.thresholds["solved"])


def _bucket(scope: DoctorScope, bucket: str, words: str, threshold: float) -> DoctorFinding:
    """Return the finding about the share of tasks in a bucket, whose limits are settings of the
    server."""
    limits, tasks = conf.thresholds(), tasks_of(scope)
    if finding := _too_few_tasks(scope, tasks):
        return finding
    inside = [task for task in tasks if bucket_of(task.attempts, 0, task.rate, limits) == bucket]
    inside.sort(key=lambda task: (-task.attempts, task.task))
    share = len(inside) / len(tasks)
    sentence = (
        f"{words}: {len(inside):,} of {len(tasks):,} tasks with {limits.attempts} attempts or "
        f"more ({share:.0%})"
    )
    if share < threshold or not inside:
        return no_problem(f"{sentence}.")
    return problem(f"{sentence}. There is nothing to learn from them.", *_links(inside))


def tasks_of(scope: DoctorScope) -> list[TaskAttempts]:
    """Return the tasks with enough attempts by the server's setting: of a whole environment from
    its statistics, else from the newest attempts."""
    if not scope.is_whole_environment or scope.definition != definition_of(scope.environment):
        returns: dict[int, list[float | None]] = defaultdict(list)
        for attempt in scope.attempts:
            returns[attempt.task].append(attempt.value)
        tasks = [_attempts(task, values, scope.definition.bar) for task, values in returns.items()]
    else:
        visible = visible_tasks(scope.filter.viewer, "task__")
        rows = TaskStatistics.objects.filter(
            visible, environment=scope.environment, by="all", attempts__gt=0
        ).order_by("-task_id")
        columns = ("task_id", "attempts", "rate", "return_low", "return_high")
        tasks = [TaskAttempts(*row) for row in rows.values_list(*columns)[:MAX_TASKS]]
    return [task for task in tasks if task.attempts >= conf.thresholds().attempts]


def _attempts(task: int, values: Sequence[float | None], bar: float) -> TaskAttempts:
    returns = [value for value in values if value is not None]
    rate = sum(value > bar for value in returns) / len(values)
    return TaskAttempts(
        task, len(values), rate, min(returns, default=None), max(returns, default=None)
    )


def _too_few_tasks(scope: DoctorScope, tasks: Sequence[TaskAttempts]) -> DoctorFinding | None:
    what = f"tasks with {conf.thresholds().attempts} attempts or more"
    return too_few(what, len(tasks), scope.thresholds["tasks"])


def _links(tasks: Sequence[TaskAttempts]) -> list[Evidence]:
    """Return the pages of the first MAX_EVIDENCE tasks."""
    names = task_names([task.task for task in tasks[:MAX_EVIDENCE]])
    return [Evidence(name, reverse("task", args=[task])) for task, name in names.items()]
