"""The page of a training step of a run: its groups, with the spread of their returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.filtering.addresses import takes
from environments.filtering.filters import query_string
from environments.filtering.parameters import WholeRange, definition_in, given, whole
from environments.models import Task, Viewer
from environments.scoring.definition import DEFINITION_PARAMETERS
from environments.service import task_line
from environments.tasks.task_facts import task_names
from episodes.analytics.groups import GroupLine, groups_of
from episodes.analytics.runs import lines_of
from episodes.dashboard.view_parameters import definitions_context
from episodes.models import Run

SHOWN_GROUPS = 500


@require_safe
@never_cache
@takes("step", *DEFINITION_PARAMETERS)
def run_groups(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the groups of the training step `step`; without it, those of episodes that have no
    step.

    Raises: BadRequest, Http404.
    """
    run = Run.objects.filter(pk=pk).first()
    if run is None:
        raise Http404(f"There is no run {pk}. The Runs page lists all runs that agents have named.")
    asked = definition_in(request.GET)
    step = given(request.GET, "step", whole)
    viewer = viewer_of(request.user)
    line = lines_of([run], viewer, asked)[0]
    lines, missing = groups_of(run, step, line.definition)
    with_spread = [one for one in lines if one.spread.scored > 1]
    rows = _rows(lines[:SHOWN_GROUPS], run, step, viewer)
    context = {
        "run": run,
        "step": step,
        "environment": line.environment,
        "groups": rows,
        "has_several_environments": len({row["task"].environment_id for row in rows}) > 1,
        "total": len(lines),
        "missing": missing,
        "flat": sum(one.spread.is_flat for one in with_spread),
        "with_spread": len(with_spread),
        **definitions_context(line.definition, line.overrides, line.environment),
    }
    return render(request, "episodes/run_groups.html", context)


def _rows(
    lines: Sequence[GroupLine], run: Run, step: int | None, viewer: Viewer
) -> list[dict[str, Any]]:
    """Return each group with its task, the name and summary of the task, and the query string of
    its episodes.

    Groups of tasks that do not exist for the person are left out.
    """
    seen = Task.objects.seen_by(viewer).select_related("environment")
    tasks = seen.in_bulk([line.task for line in lines])
    steps = None if step is None else WholeRange(step, step)
    names = task_names(list(tasks))
    return [
        {
            "line": line,
            "task": tasks[line.task],
            "name": names[line.task],
            "summary": task_line(tasks[line.task].environment, tasks[line.task].spec),
            "query": query_string(task=line.task, run=run.name, step=steps),
        }
        for line in lines
        if line.task in tasks
    ]
