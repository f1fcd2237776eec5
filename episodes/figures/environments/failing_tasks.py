"""Tasks at which the environment fails, for the alerts of the overview and of an environment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import F

from environments.models import Environment, Task, TaskStatistics, Viewer
from environments.models.viewer import visible_tasks
from environments.scoring.convention import Convention, Coverage
from environments.scoring.task_statistics import coverage_of_row
from environments.service import task_line
from environments.tasks.task_facts import task_names
from environments.tasks.task_states import SERVED, is_in_state

MAX_READ = 2000
"""Failing tasks that are read, the newest ones."""
MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class FailingTask:
    task: Task
    name: str
    line: str
    """The task in one line."""
    coverage: Coverage
    """Of all rollouts at it."""


@dataclass(frozen=True, slots=True)
class FailingTasks:
    """The failing tasks that are served, among the newest MAX_READ."""

    ids: Sequence[int]
    """The newest first."""
    named: Sequence[FailingTask]
    """The first MAX_NAMED of them."""


def served_tasks(tasks: Iterable[int]) -> list[int]:
    """Return those of the tasks that agents still get, the newest first."""
    rows = Task.objects.filter(is_in_state(SERVED), pk__in=list(tasks))
    return list(rows.order_by("-pk").values_list("pk", flat=True))


def failing_tasks(viewer: Viewer, environment: Environment | None = None) -> FailingTasks:
    """Return the failing tasks of an environment, or of all, that exist for the viewer.

    One query where no task fails.
    """
    failing = TaskStatistics.objects.filter(by="all", bucket="failing").order_by("-task")
    failing = failing.filter(visible_tasks(viewer, "task__"))
    if environment is not None:
        # + 0 keeps the index of the environment out: it has all tasks, that of buckets few
        failing = failing.alias(of=F("environment") + 0).filter(of=environment.pk)
    ids = list(failing.values_list("task", flat=True)[:MAX_READ])
    if not ids:
        return FailingTasks([], [])
    ids = served_tasks(ids)
    rows = failing.filter(task__in=ids[:MAX_NAMED]).select_related("task__environment")
    names = task_names(ids[:MAX_NAMED])
    tasks = [
        FailingTask(
            row.task,
            names[row.task_id],
            task_line(row.task.environment, row.task.spec),
            coverage_of_row(row, Convention.from_code(row.task.environment.convention)),
        )
        for row in rows
    ]
    return FailingTasks(ids, tasks)
