"""The latest groups of all runs: which were played last, with the spread of their returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from environments.models import Task, Viewer
from environments.models.viewer import visible_environments
from environments.scoring.definition import DefinitionOverrides, definitions_of
from environments.scoring.returns import Return
from episodes.attempts.endings import rows_of
from episodes.figures.groups.groups import GroupLine, read_lines
from episodes.models import Episode, Run
from episodes.models.privacy import outside_seals

MAX_GROUPS = 50
MAX_READ = 2_000
"""Newest episodes among which groups are looked for."""


@dataclass(frozen=True, slots=True)
class LatestGroup:
    run: Run
    run_step: int
    task: Task
    return_: Return
    """Return of the definition of the task's environment, unless another is given."""
    line: GroupLine


def latest_groups(viewer: Viewer, overrides: DefinitionOverrides) -> Sequence[LatestGroup]:
    """Return the MAX_GROUPS groups with the newest episodes, newest first, each by the definition
    of its environment.

    Groups of runs in training steps; those without a step are on the page of their run. Five
    queries.
    """
    with_step = Episode.objects.filter(
        visible_environments(viewer),
        outside_seals(viewer),
        run__isnull=False,
        run_step__isnull=False,
    )
    newest = Episode.objects.order_by("-pk").values_list("pk", flat=True)
    floor = next(iter(newest[MAX_READ : MAX_READ + 1]), 0)
    rows = with_step.filter(pk__gt=floor).order_by("-pk")
    keys = list(dict.fromkeys(rows_of(rows.values_list("run", "run_step", "task"))))
    visible = Run.objects.seen_by(viewer).defer("config", "notes")
    runs = visible.in_bulk({run for run, _, _ in keys})
    keys = [key for key in keys if key[0] in runs][:MAX_GROUPS]
    tasks = Task.objects.select_related("environment").in_bulk([task for _, _, task in keys])
    definitions = definitions_of([task.environment for task in tasks.values()], overrides)
    # along the index of training steps
    members = Episode.objects.filter(
        run__in={run for run, _, _ in keys},
        run_step__in={step for _, step, _ in keys},
        task__in=tasks,
    )
    lines = read_lines(members, ("run_id", "run_step", "task_id"), definitions)
    groups = list[LatestGroup]()
    for run, step, task in keys:
        if task in tasks:
            return_ = definitions.of(tasks[task].environment_id).return_
            group = LatestGroup(runs[run], step, tasks[task], return_, lines[run, step, task])
            groups.append(group)
    return groups
