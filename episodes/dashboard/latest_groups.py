"""The page of the latest groups of all runs."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.filtering.addresses import takes
from environments.filtering.filters import query_string
from environments.filtering.parameters import WholeRange, definition_in
from environments.scoring.definition import DEFINITION_PARAMETERS
from environments.service import task_line
from environments.tasks.task_facts import task_names
from episodes.analytics.latest_groups import MAX_READ, latest_groups
from episodes.dashboard.view_parameters import asked_context


@require_safe
@never_cache
@takes(*DEFINITION_PARAMETERS)
def groups(request: HttpRequest) -> HttpResponse:
    """Return the list of the latest groups. It takes the parts of the definition in force. Raises:
    BadRequest."""
    asked = definition_in(request.GET)
    latest = latest_groups(viewer_of(request.user), asked)
    names = task_names([one.task.pk for one in latest])
    found = [
        {
            "group": one,
            "name": names[one.task.pk],
            "summary": task_line(one.task.environment, one.task.spec),
            "query": query_string(
                task=one.task.pk, run=one.run.name, step=WholeRange(one.run_step, one.run_step)
            ),
        }
        for one in latest
    ]
    page = "groups_table" if "HX-Request" in request.headers and found else "groups"
    context = {"groups": found, "searched": MAX_READ, **asked_context(asked)}
    return render(request, f"episodes/{page}.html", context)
