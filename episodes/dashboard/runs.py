"""The list of training and evaluation runs with their results, and the page of one run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import quote

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import hidden_from
from environments.display import parts
from environments.scoring.definition import DEFINITION_PARAMETERS
from episodes.analytics.runs import MAX_COUNTED, RunPlaces, judged, lines_of, places_of
from episodes.analytics.scopes import MAX_SERIES
from episodes.analytics.training_steps import steps_of
from episodes.dashboard.curve_query import PARAMETERS as SWITCHES
from episodes.dashboard.curve_query import CurveAsked
from episodes.dashboard.curve_series import drawn
from episodes.dashboard.curves import panel_of
from episodes.dashboard.view_parameters import asked_context, definition_asked, definition_context, takes
from episodes.filtering.filters import EpisodeFilter
from episodes.filtering.page import page_of
from episodes.filtering.parameters import BadFilter, chosen, count_in, given, words
from episodes.models import Episode, Rollout, Run
from episodes.models.privacy import visible_rollouts, visible_runs
from episodes.runs.description import STATES
from episodes.uploads.usage import reported_usage

RUNS_PER_PAGE = 20
SHOWN_EPISODES = 10
SHOWN_STEPS = 40
PARTS = {"page": "run_page", "figures": "run_figures", "tables": "run_tables"}
"""Templates of the page of a run and of its parts that are fetched again while episodes start and end."""


@require_safe
@never_cache
@takes(*DEFINITION_PARAMETERS, "state", "tag", "after")
def runs(request: HttpRequest) -> HttpResponse:
    """Return the list of runs.

    `after` is the id of the last run of the previous page; `state` and `tag` are what trainers say about the runs to
    list; the others are parts of the definition in force.
    Raises: BadRequest.
    """
    try:
        definition = definition_asked(request)
        after = count_in("after", request.GET.get("after", "").strip() or "0")
        wanted = {"state": given(request.GET, "state", chosen(STATES)), "tags__name": given(request.GET, "tag", words)}
    except BadFilter as error:
        raise BadRequest(str(error)) from error
    hidden = hidden_from(request.user)
    rows = Run.objects.filter(visible_runs(hidden)).order_by("-pk").defer("config", "notes").prefetch_related("tags")
    rows = rows.filter(**{name: value for name, value in wanted.items() if value})
    shown = list((rows.filter(pk__lt=after) if after else rows)[: RUNS_PER_PAGE + 1])
    lines = lines_of(shown[:RUNS_PER_PAGE], definition)
    context = {
        "lines": lines,
        "next": lines[-1].run.pk if len(shown) > RUNS_PER_PAGE else None,
        "is_first": not after,
        **asked_context(definition),
        "most_runs": MAX_SERIES,
        "states": STATES,
        "state": wanted["state"],
        "tag": wanted["tags__name"],
        "has_rollouts": Rollout.objects.filter(visible_rollouts(hidden)).exists(),
    }
    is_refetched = "HX-Request" in request.headers and lines
    return render(request, "episodes/runs_table.html" if is_refetched else "episodes/runs.html", context)


@require_safe
@never_cache
@takes(*DEFINITION_PARAMETERS, *SWITCHES, "part")
def run(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the page of a run, or the part of it that is fetched again. It takes the parameters of a curve.

    Raises: BadRequest, Http404.
    """
    row = Run.objects.filter(pk=pk).first()
    if row is None:
        raise Http404(f"There is no run {pk}. The Runs page lists all runs that agents have named.")
    has_steps = Episode.objects.filter(run=row, run_step__isnull=False).exists()
    values = {"x": "step" if has_steps else "episode"} | request.GET.dict() | {"run": row.name}
    try:
        part = given({"part": values.pop("part", "")}, "part", chosen(tuple(PARTS)), "page") or "page"
        asked = CurveAsked.parse(values)
        asked = replace(asked, filter=EpisodeFilter.of_definition(asked.filter.asked, row.name))
    except BadFilter as error:
        raise BadRequest(str(error)) from error
    line_asked = asked.definition
    line = lines_of([row], line_asked)[0]
    asked = replace(
        asked,
        filter=replace(asked.filter, definition=line.definition.return_),
        threshold=line.definition.threshold,
        environment=line.environment,
    )
    found, places = drawn(asked), places_of(row)
    names = [one.name for one in places.environments]
    context = panel_of(request, found) | {
        "run": row,
        "config": parts.fields(row.config) if row.config else [],
        "line": line,
        "environment": line.environment,
        **definition_context(line.definition, line.environment, is_in_address=False),
        "switches": _switches(request, row, asked),
        "curve_query": asked.to_query(),
        "run_query": EpisodeFilter(run=row.name).to_query(),
        "groups_query": "".join(f"{name}={quote(text)}&" for name, text in line_asked.values().items()),
        "judged": judged(row, names, line_asked) if len(names) > 1 else None,
        "where": _environments(row, places, asked.x),
        "counted": MAX_COUNTED if places.is_bounded else None,
        "steps": steps_of(row, line.definition, SHOWN_STEPS),
        "reported": reported_usage(row),
        "episodes": page_of(EpisodeFilter(run=row.name, definition=line.definition.return_), size=SHOWN_EPISODES).rows,
    }
    return render(request, f"episodes/{PARTS[part]}.html", context)


def _switches(request: HttpRequest, row: Run, asked: CurveAsked) -> QueryDict:
    """Return the parameters of this page with the run and the axis, which the page of curves needs."""
    query = request.GET.copy()
    query["run"], query["x"] = row.name, asked.x
    return query


def _environments(row: Run, places: RunPlaces, axis: str) -> list[dict[str, Any]]:
    """Return the environments of the newest episodes of the run, with numbers of episodes, largest first."""
    return [
        {
            "environment__name": name,
            "count": count,
            "last": last,
            "query": EpisodeFilter(run=row.name, environment=name).to_query(),
            "curve_query": EpisodeFilter(run=row.name, environment=name).to_query(x=axis),
        }
        for name, count, last in places.environments
    ]
