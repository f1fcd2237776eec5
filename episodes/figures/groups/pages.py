"""The pages of groups, which are all attempts at one task in a training step of a run: the groups
of a step with the spread of their returns, the latest groups of all runs, and one group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.filtering.addresses import takes
from environments.filtering.filters import query_string
from environments.filtering.parameters import WholeRange, definition_in
from environments.models import Task
from environments.scoring.definition import DEFINITION_PARAMETERS
from environments.service import task_line
from environments.tasks.task_facts import task_names
from episodes.dashboard.guards import row_or_404
from episodes.dashboard.view_parameters import (
    definitions_context,
    overrides_context,
)
from episodes.figures.groups.group_queries import GroupQuery, StepGroupsQuery
from episodes.figures.groups.latest_groups import MAX_READ, latest_groups
from episodes.figures.spreads import EPSILON
from episodes.figures.tasks.pages import frame, task_or_404
from episodes.models import Run

MAX_GROUPS = 500


@require_safe
@never_cache
@takes(*StepGroupsQuery.PARAMETERS)
def run_groups(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the groups of the training step `step`; without it, those of episodes that have no
    step. Groups of tasks that do not exist for the person are left out. Raises: BadFilter, Http404.
    """
    run, viewer = row_or_404(Run.objects.all(), pk), viewer_of(request.user)
    query = StepGroupsQuery.parse(request.GET, run, viewer)
    line, of_step = query.result()
    groups = of_step.lines[:MAX_GROUPS]
    visible = Task.objects.seen_by(viewer).select_related("environment")
    tasks = visible.in_bulk([group.task for group in groups])
    rows = [(group, tasks[group.task], run, query.step) for group in groups if group.task in tasks]
    context = {
        "run": run,
        "step": query.step,
        "of_step": of_step,
        "groups": _rows(rows),
        "has_several_environments": len({task.environment_id for task in tasks.values()}) > 1,
        **definitions_context(line.definition, line.overrides, line.environment),
    }
    return render(request, "figures/run_groups.html", context)


@require_safe
@never_cache
@takes(*DEFINITION_PARAMETERS)
def groups(request: HttpRequest) -> HttpResponse:
    """Return the latest groups of all runs. Raises: BadFilter."""
    overrides = definition_in(request.GET)
    latest = latest_groups(viewer_of(request.user), overrides)
    rows = _rows([(group, group.task, group.run, group.run_step) for group in latest])
    page = "groups_table" if "HX-Request" in request.headers and rows else "groups"
    context = {"groups": rows, "searched": MAX_READ, **overrides_context(overrides)}
    return render(request, f"figures/{page}.html", context)


def _rows(groups: Sequence[tuple[Any, Task, Run, int | None]]) -> list[dict[str, Any]]:
    """Return the lines of a table of groups, each of a task, a run and a training step."""
    names = task_names([task.pk for _, task, _, _ in groups])
    return [
        {
            "group": group,
            "task": task,
            "name": names[task.pk],
            "summary": task_line(task.environment, task.spec),
            "query": query_string(
                task=task.pk, run=run.name, step=None if step is None else WholeRange(step, step)
            ),
        }
        for group, task, run, step in groups
    ]


@require_safe
@never_cache
@takes(*GroupQuery.PARAMETERS)
def group(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the page of the group of a task in `run` (id) and `step` (training step; absent if the
    agent named none). Raises: BadFilter, Http404."""
    task = task_or_404(pk)
    query = GroupQuery.parse(request.GET, task, viewer_of(request.user))
    members, of_step = query.result()
    context = {
        **frame(task, query.definition),
        "name": task_names([task.pk])[task.pk],
        "run": query.run,
        "step": query.step,
        "group": members,
        "revision": query.revision.name,
        "pooled": members.pooled,
        "epsilon": EPSILON,
        "group_query": query.to_query(),
        "of_step": of_step,
        "place": of_step.place_of(task.pk),
    }
    return render(request, "figures/group.html", context)
