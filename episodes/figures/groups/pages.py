"""The pages of groups, which are all attempts at one task in a training step of a run: the groups
of a step with the spread of their returns, the latest groups of all runs, and one group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.filtering.addresses import takes
from environments.filtering.filters import query_string
from environments.filtering.parameters import BadFilter, WholeRange, definition_in, given, whole
from environments.models import Task
from environments.scoring.definition import DEFINITION_PARAMETERS, definition_of
from environments.service import task_line
from environments.tasks.task_facts import task_names
from episodes.dashboard.guards import row_or_404
from episodes.dashboard.view_parameters import (
    definitions_context,
    overrides_context,
    revision_in,
)
from episodes.figures.groups.groups import group_of, groups_of
from episodes.figures.groups.latest_groups import MAX_READ, latest_groups
from episodes.figures.runs.run_lines import RunQuery
from episodes.figures.spreads import EPSILON
from episodes.figures.tasks.pages import frame, task_or_404
from episodes.models import Run

MAX_GROUPS = 500


@require_safe
@never_cache
@takes("step", *DEFINITION_PARAMETERS)
def run_groups(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the groups of the training step `step`; without it, those of episodes that have no
    step. Groups of tasks that do not exist for the person are left out. Raises: BadFilter, Http404.
    """
    run, viewer = row_or_404(Run.objects.all(), pk), viewer_of(request.user)
    overrides = definition_in(request.GET)
    step = given(request.GET, "step", whole)
    line = RunQuery(run, viewer, definition=overrides).result()
    groups, missing = groups_of(run, step, line.definition)
    with_spread = [group for group in groups if group.spread.scored > 1]
    visible = Task.objects.seen_by(viewer).select_related("environment")
    tasks = visible.in_bulk([group.task for group in groups[:MAX_GROUPS]])
    rows = _rows(
        (group, tasks[group.task], run, step)
        for group in groups[:MAX_GROUPS]
        if group.task in tasks
    )
    context = {
        "run": run,
        "step": step,
        "environment": line.environment,
        "groups": rows,
        "has_several_environments": len({task.environment_id for task in tasks.values()}) > 1,
        "total": len(groups),
        "missing": missing,
        "flat": sum(group.spread.is_flat for group in with_spread),
        "with_spread": len(with_spread),
        **definitions_context(line.definition, line.overrides, line.environment),
    }
    return render(request, "episodes/run_groups.html", context)


@require_safe
@never_cache
@takes(*DEFINITION_PARAMETERS)
def groups(request: HttpRequest) -> HttpResponse:
    """Return the latest groups of all runs. Raises: BadFilter."""
    overrides = definition_in(request.GET)
    rows = _rows(
        (group, group.task, group.run, group.run_step)
        for group in latest_groups(viewer_of(request.user), overrides)
    )
    page = "groups_table" if "HX-Request" in request.headers and rows else "groups"
    context = {"groups": rows, "searched": MAX_READ, **overrides_context(overrides)}
    return render(request, f"episodes/{page}.html", context)


def _rows(groups: Iterable[tuple[Any, Task, Run, int | None]]) -> list[dict[str, Any]]:
    """Return the lines of a table of groups, each of a task, a run and a training step."""
    groups = list(groups)
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
@takes("run", "step", "revision", *DEFINITION_PARAMETERS)
def group(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the page of the group of a task in `run` (id) and `step` (training step; absent if the
    agent named none). Raises: BadFilter, Http404."""
    task = task_or_404(pk)
    definition = definition_of(task.environment, definition_in(request.GET))
    run_id = given(request.GET, "run", whole)
    step = given(request.GET, "step", whole)
    revision, revisions = revision_in(request)
    if run_id is None:
        raise BadFilter("run", "", "give the id of a run; the Runs page lists them")
    run = row_or_404(Run.objects.seen_by(viewer_of(request.user)), run_id)
    groups, missing = groups_of(run, step, definition)
    members = group_of(task, run, step, definition, revisions)
    tasks = [group.task for group in groups]
    at = tasks.index(task.pk) if task.pk in tasks else -1
    context = {
        **frame(task, definition),
        "run": run,
        "step": step,
        "group": members,
        "revision": revision,
        "pooled": members.pooled,
        "epsilon": EPSILON,
        "group_query": query_string(task=task.pk, run=run.name, step=step, revision=revision),
        "place": {
            "number": at + 1,
            "previous": tasks[at - 1] if at > 0 else None,
            "next": tasks[at + 1] if 0 <= at < len(tasks) - 1 else None,
        },
        "flat": sum(group.spread.is_flat for group in groups),
        "groups": len(groups),
        "missing": missing,
    }
    return render(request, "episodes/group.html", context)
