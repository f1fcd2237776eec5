"""Tasks that nobody solves, and tasks that everybody solves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from django.urls import reverse

from environments import conf
from environments.models import TaskStatistics
from environments.scoring.definition import definition_of
from environments.scoring.task_buckets import bucket_of
from environments.tasks.task_facts import task_names
from episodes.doctor.findings import MAX_EVIDENCE, DoctorVerdict, Evidence, check, fine, problem, too_little
from episodes.doctor.scope import DoctorScope

MAX_TASKS = 20_000
"""Tasks whose statistics are read, the newest ones."""


class TaskAttempts(NamedTuple):
    """The attempts at one task."""

    task: int
    attempts: int
    rate: float
    """Success rate, 0 to 1."""


def results_of(scope: DoctorScope) -> list[TaskAttempts]:
    """Return the results of the tasks: of a whole environment from its statistics, else from the newest attempts."""
    if scope.is_whole_environment and scope.definition == definition_of(scope.environment):
        rows = TaskStatistics.objects.filter(environment=scope.environment, by="all", attempts__gt=0)
        columns = ("task_id", "attempts", "rate")
        return [TaskAttempts(*row) for row in rows.order_by("-task_id").values_list(*columns)[:MAX_TASKS]]
    found: dict[int, list[bool]] = defaultdict(list)
    for one in scope.attempts:
        found[one.task].append(one.value is not None and one.value > scope.definition.threshold)
    return [TaskAttempts(task, len(wins), sum(wins) / len(wins)) for task, wins in found.items()]


def task_links(tasks: Sequence[int]) -> list[Evidence]:
    """Return the pages of the first MAX_EVIDENCE tasks."""
    names = task_names(list(tasks[:MAX_EVIDENCE]))
    return [Evidence(names[task], reverse("task", args=[task])) for task in names]


def _share(scope: DoctorScope, bucket: str, words: str, most: float) -> DoctorVerdict:
    """Return the verdict on the share of tasks in a bucket, whose limits are settings of the server."""
    limits, needed = conf.thresholds(), scope.thresholds.tasks
    judged = [one for one in results_of(scope) if one.attempts >= limits.attempts]
    if len(judged) < needed:
        return too_little(
            f"{len(judged):,} tasks have {limits.attempts} attempts or more; this needs {needed:,} such tasks."
        )
    inside = sorted(
        (one for one in judged if bucket_of(one.attempts, one.rate, limits) == bucket),
        key=lambda one: (-one.attempts, one.task),
    )
    share = len(inside) / len(judged)
    sentence = f"{len(inside):,} of {len(judged):,} tasks with {limits.attempts} attempts or more ({share:.0%}) {words}"
    if share < most or not inside:
        return fine(f"{sentence}.")
    return problem(f"{sentence}: there is nothing to learn from them.", *task_links([one.task for one in inside]))


@check("Tasks that nobody solves", "unsolved", "tasks")
def unsolved_tasks(scope: DoctorScope) -> DoctorVerdict:
    return _share(scope, "hopeless", "are not solved by anybody", scope.thresholds.unsolved)


@check("Tasks that everybody solves", "solved", "tasks")
def solved_tasks(scope: DoctorScope) -> DoctorVerdict:
    return _share(scope, "saturated", "are solved in every attempt", scope.thresholds.solved)
