"""The pages of groups, which are all attempts at one task in a training step of a run: the groups
of a step with the spread of their returns, the latest groups of all runs, and one group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.filtering.addresses import takes
from environments.filtering.filters import query_string
from environments.filtering.parameters import WholeRange
from environments.models import Environment, Split, Task
from environments.service import task_line
from environments.tasks.task_facts import task_names
from episodes.dashboard.guards import row_or_404
from episodes.dashboard.view_parameters import (
    definitions_context,
    overrides_context,
)
from episodes.figures.groups.group_queries import GroupQuery, StepGroupsQuery
from episodes.figures.groups.groups import GroupLine
from episodes.figures.groups.latest_groups import MAX_READ, LatestGroupsQuery
from episodes.figures.groups.return_strips import ReturnScale
from episodes.figures.spreads import EPSILON
from episodes.figures.tasks.pages import frame, task_or_404
from episodes.filtering.names import runs
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
@takes(*LatestGroupsQuery.PARAMETERS)
def groups(request: HttpRequest) -> HttpResponse:
    """Return the latest groups of all runs, or of those of an environment, a split or a run. Raises:
    BadFilter."""
    query = LatestGroupsQuery.parse(request.GET, viewer_of(request.user))
    latest, viewer = query.result(), query.filter.viewer
    page = "groups_table" if "HX-Request" in request.headers and latest.groups else "groups"
    environments = list(Environment.objects.seen_by(viewer).only("name"))
    splits = Split.objects.filter(environment__name=query.filter.environment)
    context = {
        "groups": _rows(latest.groups),
        "latest": latest,
        "query": query,
        "filters": query.filter.values(),
        "environments": [environment.name for environment in environments],
        "splits": list(splits.values_list("name", flat=True)) if query.filter.environment else [],
        "runs": runs(viewer),
        "searched": MAX_READ,
        **overrides_context(query.overrides),
    }
    return render(request, f"figures/{page}.html", context, status=400 if latest.unknown else 200)


def _rows(groups: Sequence[tuple[GroupLine, Task, Run, int | None]]) -> list[dict[str, Any]]:
    """Return the lines of a table of groups, each of a task, a run and a training step."""
    names = task_names([task.pk for _, task, _, _ in groups])
    lines = defaultdict[int, list[GroupLine]](list)
    for line, task, _, _ in groups:
        lines[task.environment_id].append(line)
    scales = {environment: ReturnScale(of) for environment, of in lines.items()}
    return [
        {
            "group": line,
            "run": run,
            "step": step,
            "task": task,
            "strip": scales[task.environment_id].strip(line),
            "name": names[task.pk],
            "summary": task_line(task.environment, task.spec),
            "query": query_string(
                task=task.pk, run=run.name, step=None if step is None else WholeRange(step, step)
            ),
        }
        for line, task, run, step in groups
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
