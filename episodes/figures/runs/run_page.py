"""The page of one run: its figures, the charts of its training, and its tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.display import parts
from environments.filtering.addresses import takes
from environments.filtering.filters import query_string
from environments.filtering.parameters import WholeRange, chosen, given, whole_from
from environments.models import Viewer
from environments.scoring.definition import DEFINITION_PARAMETERS, Definition
from episodes.browsing.episode_list import EpisodeListQuery
from episodes.dashboard.guards import row_or_404
from episodes.dashboard.replay import mistaken_labels_of
from episodes.dashboard.view_parameters import definitions_context
from episodes.figures.curves.curve_parameters import OF_SEVERAL, CurveQuery
from episodes.figures.curves.curve_parameters import PARAMETERS as SWITCHES
from episodes.figures.curves.curve_series import CurveCharts, curve_charts
from episodes.figures.curves.figure_menu import SCALAR, Figure
from episodes.figures.curves.pages import panel_of
from episodes.figures.curves.phases import Phase
from episodes.figures.run_splits import of_one_split
from episodes.figures.run_verdicts import run_verdicts
from episodes.figures.runs.run_columns import cell_text
from episodes.figures.runs.run_lines import (
    MAX_COUNTED,
    RunLine,
    RunQuery,
    judged_parts,
    places_of,
)
from episodes.figures.runs.run_states import last_activity_of, silence_of
from episodes.figures.runs.stored_totals import stored_totals
from episodes.figures.runs.training_steps import steps_of
from episodes.models import Episode, Run
from episodes.runs.config_values import config_values
from episodes.uploads.usage import reported_usage

MAX_EPISODES = 10
MAX_STEPS = 20
STORY: tuple[Figure, ...] = ("return", "success", "length", "components")
"""Figures that the page of a run draws unless its address names others; components if there are
any."""
MAX_STORY_SCALARS = 12
"""Scalars that are drawn below them: those that the trainer has reported first."""
MAX_SETTINGS = 8
"""Values of the configuration that its closed part names."""
PARTS = {"page": "run_page", "figures": "run_figures", "tables": "run_tables"}
"""Templates of the page of a run and of its parts that are fetched again while episodes start and
end."""


@require_safe
@never_cache
@takes(
    *DEFINITION_PARAMETERS,
    *(name for name in SWITCHES if name not in OF_SEVERAL),
    *("part", "environment", "split", "before"),
)
def run_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the page of a run, or the part of it that is fetched again. It takes the parameters of
    a single curve.

    Of a run that played several splits, it shows one, the first if the address names none; with
    `splits=together` all.

    Raises: BadFilter, Http404.
    """
    run, viewer = row_or_404(Run.objects.all(), pk), viewer_of(request.user)
    part = given(request.GET, "part", chosen(tuple(PARTS))) or "page"
    query = CurveQuery.parse(_curve_parameters(request, run), viewer)
    line = RunQuery(run, viewer, query.split_choice, query.definition).result()
    whole = replace(query, filter=replace(query.filter.definition_alone, run=run.name))
    query = replace(whole, filter=of_one_split(whole.filter, line.split))
    chart = dict[str, Any]()
    if part == "page":
        drawing = curve_charts(query)
        if "y" not in request.GET:
            query = replace(query, figures=tuple(drawing.figures) or query.figures)
            drawing = replace(drawing, query=query)
        chart = panel_of(request, drawing) | {"phases": _phases(drawing)}
    switches = request.GET.copy()  # with what the page of curves needs
    switches.pop("before", None)
    own = {"x": query.x, "y": ",".join(query.y)}
    for name, text in (query.filter.values() | own).items():
        switches[name] = text
    context = {
        "run": run,
        "line": line,
        "environment": line.environment,
        **definitions_context(line.definition, line.overrides, line.environment),
        "splits": line.named_splits if len(line.splits) > 1 else [],
        "split": line.split,
        "are_together": line.split is None,
        "switches": switches,
        "curve_query": query.to_query(),
        "run_query": line.query,
        "groups_query": "".join(
            f"{name}={quote(text)}&" for name, text in query.definition.values().items()
        ),
        "judged": judged_parts(line),
        "by_environment_query": replace(whole, by="environment").to_query(),
        **_episodes(query, viewer),
    }
    if part != "tables":
        verdicts = run_verdicts([run], query.definition, viewer)
        context |= {"verdict": verdicts.get(run.pk), **_facts(run, viewer)}
    if part != "figures":
        context |= {**_steps(request, line), **_whereabouts(run)}
    return render(request, f"figures/{PARTS[part]}.html", chart | context)


def _curve_parameters(request: HttpRequest, run: Run) -> dict[str, str]:
    """Return the parameters of the curves of the run: those of the address, and what tells its story
    in place of those that are missing."""
    has_steps = Episode.objects.filter(run=run, run_step__isnull=False).exists()
    names = list(run.scalars.order_by("pk").values_list("name", flat=True)[:MAX_STORY_SCALARS])
    is_by_step = has_steps or (names and not Episode.objects.filter(run=run).exists())
    scalars = [f"{SCALAR}{name}" for name in names if is_by_step]
    values = {"x": "step" if is_by_step else "episode", "y": ",".join([*STORY, *scalars])}
    values |= request.GET.dict() | {"run": run.name}
    return {name: text for name, text in values.items() if name not in ("part", "before")}


def _phases(drawing: CurveCharts) -> list[tuple[Phase, str]]:
    """Return each phase of the training with the query string of its attempts."""
    line = drawing.series[0]
    steps = [WholeRange(int(phase.x), int(phase.x_to)) for phase in drawing.phases]
    filters = [replace(line.filter, step=some, ending="attempt") for some in steps]
    queries = [some.to_query(**line.parts) for some in filters]
    return list(zip(drawing.phases, queries, strict=True))


def _facts(run: Run, viewer: Viewer) -> dict[str, Any]:
    """Return what the trainer and clients of the run say."""
    totals = stored_totals([run.pk], Definition(), needs_content=False)
    last = last_activity_of(run, totals.get(run.pk, ()))
    settings = [(name, cell_text(value)) for name, value in config_values(run.config).items()]
    return {
        "last": last,
        "silence": silence_of(run.state, last.timestamp()),
        "namesakes": Run.objects.seen_by(viewer).namesakes(run.name),
        "config": parts.fields(run.config) if run.config else [],
        "settings": settings[:MAX_SETTINGS],
        "reported": reported_usage(run),
    }


def _steps(request: HttpRequest, line: RunLine) -> dict[str, Any]:
    """Return a page of its training steps. Raises: BadFilter."""
    before = given(request.GET, "before", whole_from(1))
    steps = steps_of(line.run, line.definition, MAX_STEPS, line.split, before)
    older = Episode.objects.filter(run=line.run, run_step__lt=steps[-1].run_step if steps else 0)
    return {
        "steps": steps,
        "are_latest": before is None,
        "has_older_steps": bool(steps) and older.exists(),
    }


def _episodes(query: CurveQuery, viewer: Viewer) -> dict[str, Any]:
    """Return its latest episodes."""
    rows = EpisodeListQuery(replace(query.filter, viewer=viewer), size=MAX_EPISODES).result().rows
    return {"episodes": rows, "mistaken": mistaken_labels_of(rows[0].episode) if rows else {}}


def _whereabouts(run: Run) -> dict[str, Any]:
    """Return the environments in which it played."""
    places, has_older = places_of(run)
    return {
        "where": [
            {
                "environment__name": name,
                "count": count,
                "last": last,
                "query": query_string(environment=name, run=run.name),
            }
            for name, count, last in places
        ],
        "counted": MAX_COUNTED if has_older else None,
    }
