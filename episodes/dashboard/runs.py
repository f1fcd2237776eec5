"""The list of training and evaluation runs with their results, and the page of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import quote

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.display import parts
from environments.filtering.addresses import takes
from environments.filtering.filters import query_string
from environments.filtering.parameters import chosen, given, trimmed
from environments.scoring.definition import DEFINITION_PARAMETERS
from episodes.analytics.curve_query import PARAMETERS as SWITCHES
from episodes.analytics.curve_query import CurveQuery
from episodes.analytics.curve_series import drawn
from episodes.analytics.revision_marks import several_codes
from episodes.analytics.run_list import MAX_SEARCHED, RunListQuery
from episodes.analytics.run_splits import SplitChoice, of_one_split
from episodes.analytics.runs import (
    MAX_COUNTED,
    RunPlaces,
    judged_parts,
    lines_of,
    places_of,
)
from episodes.analytics.scopes import MAX_SERIES
from episodes.analytics.training_steps import steps_of
from episodes.browsing.episode_list import EpisodeListQuery
from episodes.dashboard.curves import panel_of
from episodes.dashboard.replay import mistaken_labels_of
from episodes.dashboard.view_parameters import asked_context, definitions_context
from episodes.filtering.filters import EpisodeFilter
from episodes.filtering.names import name_tasks
from episodes.models import Episode, Rollout, Run
from episodes.runs.config_values import ConfigCondition, Scalar, config_values, value_text
from episodes.runs.description import STATES
from episodes.uploads.usage import reported_usage

SHOWN_EPISODES = 10
SHOWN_STEPS = 40
MAX_NAMES = 100
"""Names of values of configurations that the list of runs offers as columns."""
PARTS = {"page": "run_page", "figures": "run_figures", "tables": "run_tables"}
"""Templates of the page of a run and of its parts that are fetched again while episodes start and
end."""


@require_safe
@never_cache
@takes(*RunListQuery.PARAMETERS, several=RunListQuery.SEVERAL)
def runs(request: HttpRequest) -> HttpResponse:
    """Return the list of runs: those that its filter finds, by the definition in force. Raises:
    BadRequest."""
    viewer = viewer_of(request.user)
    query = RunListQuery.parse(request.GET, viewer)
    page = query.result()
    lines = page.lines
    configs = {run.pk: config_values(run.config) for run in page.runs}
    names = [*query.columns, *(name for values in configs.values() for name in values)]
    splits = [query.splits.split] if query.splits.split else []
    splits += [split.name for line in lines for split in line.splits]
    context = {
        "lines": [(line, _cells(configs[line.run.pk], query.columns)) for line in lines],
        "missing": next((line.outline.missing for line in lines if line.outline.missing), ""),
        "splits": list(dict.fromkeys(splits)),
        "has_several_splits": any(len(line.splits) > 1 for line in lines),
        "next": page.next,
        "is_first": not query.after,
        "query": query,
        "searched": MAX_SEARCHED if page.is_bounded else None,
        "chips": _chips(query, request.GET),
        "names": list(dict.fromkeys(names))[:MAX_NAMES],
        "kept": [
            (name, text) for name, texts in request.GET.lists() if name != "after" for text in texts
        ],
        **asked_context(query.definition),
        "changed": several_codes(
            {environment.pk for line in lines for environment in line.environments}
        ),
        "most_runs": MAX_SERIES,
        "states": STATES,
        "state": query.states[0] if len(query.states) == 1 else "",
        "has_rollouts": Rollout.objects.seen_by(viewer).exists(),
    }
    is_refetched = "HX-Request" in request.headers and lines
    return render(
        request, "episodes/runs_table.html" if is_refetched else "episodes/runs.html", context
    )


class RunChip(NamedTuple):
    """A value of a filter that is in force."""

    label: str
    value: str
    query: str
    """Query string of the list without it."""


def _chips(query: RunListQuery, parameters: QueryDict) -> list[RunChip]:
    """Return the tags and conditions in force."""
    chips = []
    pairs = [("tag", tag) for tag in query.tags]
    pairs += [("config", str(condition)) for condition in query.conditions]
    for name, value in pairs:
        rest = parameters.copy()
        rest.setlist(
            name, [text for text in parameters.getlist(name) if _plain(name, text) != value]
        )
        rest.pop("after", None)
        chips.append(RunChip(name, value, rest.urlencode()))
    return chips


def _plain(name: str, text: str) -> str:
    """Return a value as a chip shows it."""
    is_condition = name == "config" and text.strip()
    return str(ConfigCondition.parse(name, text)) if is_condition else trimmed(text)


def _cells(values: Mapping[str, Scalar], columns: Sequence[str]) -> list[str | None]:
    """Return the text of each column; None where the configuration lacks the value."""
    return [_cell(values[name]) if name in values else None for name in columns]


def _cell(value: Scalar) -> str:
    return f"{value:.6g}" if isinstance(value, float) else value_text(value)


@require_safe
@never_cache
@takes(*DEFINITION_PARAMETERS, *SWITCHES, "part", "environment", "split")
def run(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the page of a run, or the part of it that is fetched again. It takes the parameters of
    a curve.

    Of a run that played several splits, it shows one, the first if the address names none; with
    `splits=together` all.

    Raises: BadRequest, Http404.
    """
    row = Run.objects.filter(pk=pk).first()
    if row is None:
        raise Http404(f"There is no run {pk}. The Runs page lists all runs that agents have named.")
    has_steps = Episode.objects.filter(run=row, run_step__isnull=False).exists()
    values = {"x": "step" if has_steps else "episode"} | request.GET.dict() | {"run": row.name}
    part = given({"part": values.pop("part", "")}, "part", chosen(tuple(PARTS)), "page") or "page"
    viewer = viewer_of(request.user)
    asked = CurveQuery.parse(values, viewer)
    line = lines_of([row], viewer, asked.definition, choice=SplitChoice.parse(values))[0]
    of_run = EpisodeFilter.of_definition(asked.filter.asked, viewer, row.name)
    asked = replace(asked, filter=of_one_split(of_run, line.split))
    places = places_of(row)
    chart = panel_of(request, drawn(asked)) if part == "page" else {}
    visible = Run.objects.seen_by(viewer)
    context = chart | {
        "run": row,
        "namesakes": visible.namesakes(row.name) if part != "tables" else [],
        "config": parts.fields(row.config) if row.config else [],
        "line": line,
        "environment": line.environment,
        **definitions_context(line.definition, line.overrides, line.environment),
        "splits": line.named_splits if len(line.splits) > 1 else [],
        "split": line.split,
        "are_together": line.split is None,
        "switches": _switches(request, asked),
        "curve_query": asked.to_query(),
        "run_query": line.query,
        "groups_query": "".join(
            f"{name}={quote(text)}&" for name, text in asked.definition.values().items()
        ),
        "judged": judged_parts(line),
        "by_environment_query": replace(asked, filter=of_run, by="environment").to_query(),
        "where": _environments(row, places, asked.x),
        "counted": MAX_COUNTED if places.is_bounded else None,
        "steps": steps_of(row, line.definition, SHOWN_STEPS, line.split),
        "reported": reported_usage(row),
        "episodes": EpisodeListQuery(replace(asked.filter, viewer=viewer), size=SHOWN_EPISODES)
        .result()
        .rows,
    }
    name_tasks(one.episode for one in context["episodes"])
    context["mistaken"] = (
        mistaken_labels_of(context["episodes"][0].episode) if context["episodes"] else {}
    )
    return render(request, f"episodes/{PARTS[part]}.html", context)


def _switches(request: HttpRequest, asked: CurveQuery) -> QueryDict:
    """Return the parameters of this page with the run, its split and the axis, which the page of
    curves needs."""
    query = request.GET.copy()
    for name, text in (asked.filter.values() | {"x": asked.x}).items():
        query[name] = text
    return query


def _environments(row: Run, places: RunPlaces, axis: str) -> list[dict[str, Any]]:
    """Return the environments of the newest episodes of the run, with numbers of episodes, largest
    first."""
    return [
        {
            "environment__name": name,
            "count": count,
            "last": last,
            "query": query_string(environment=name, run=row.name),
            "curve_query": query_string(environment=name, run=row.name, x=axis),
        }
        for name, count, last in places.environments
    ]
