"""The page of curves: return, success and length over episodes, time or training steps, for any
filter of episodes.

One address serves the page, the numbers of its charts (`format=json`, for zooming and switching)
and a CSV file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.database.folding import holding
from environments.errors import nearest_names
from environments.filtering.addresses import takes
from environments.filtering.parameters import BadFilter, any_text, given
from environments.models import Environment, Viewer
from episodes.attempts.file_headers import (
    MAX_NAMED,
    coverage_header,
    csv_response,
    definition_header,
)
from episodes.dashboard.guards import refused
from episodes.dashboard.view_parameters import definition_context, overrides_context
from episodes.figures.curves.curve_chart import charts_of, csv_of, log_notes
from episodes.figures.curves.curve_parameters import CurveQuery, run_ids
from episodes.figures.curves.curve_rows import (
    best_of,
    heads_of,
    lasts_of,
    lasts_of_runs,
    rows_of,
)
from episodes.figures.curves.curve_series import CurveCharts, curve_charts
from episodes.figures.curves.figure_menu import (
    AXIS_TITLES,
    COMMON,
    FIGURES,
    OF_GROUPS,
    SCALAR,
    TITLES,
    UNITS,
    Figure,
)
from episodes.figures.curves.paper_figure import (
    DATA,
    SCRIPT,
    NotDrawn,
    can_draw,
    figure_data,
    figure_picture,
    figure_script,
)
from episodes.figures.curves.zoomed_range import WHOLE
from episodes.figures.run_splits import labelled
from episodes.figures.scopes import MAX_SERIES, OVERLAYS
from episodes.filtering.names import MAX_NEAREST, models, runs
from episodes.models import Run

MAX_SCALAR_ROWS = 48
MAX_CHOICES = 50
"""Number of runs that are offered besides the chosen ones; a search finds the others."""
MAX_SEARCHED = 10_000
"""Number of the newest runs that are searched and counted."""
MEDIA_TYPES = {
    "data": "text/csv; charset=utf-8",
    "py": "text/x-python; charset=utf-8",
    "svg": "image/svg+xml",
    "pdf": "application/pdf",
    "png": "image/png",
}
SIZES = (
    ("3.4x2.4", "one column: 3.4 in wide, charts 2.4 in high"),
    ("7x3", "page width: 7 in wide, charts 3 in high"),
    ("10x5.6", "slide: 10 in wide, charts 5.6 in high"),
)
NO_MATPLOTLIB = 'its operator adds it with pip install "orsweb[figures]"'
_BY = (("all", "All together"), *((name, f"By {name}") for name in OVERLAYS))


@require_safe
@never_cache
def curves(request: HttpRequest) -> HttpResponse:
    """Return the page, or the curves as JSON or CSV. Raises: BadRequest with the reason why a
    parameter is refused."""
    query = CurveQuery.parse(request.GET, viewer_of(request.user))
    drawing = curve_charts(query)
    if query.format == "csv":
        errors = [series.curve.success_error for series in drawing.series]
        if len(errors) > MAX_NAMED:
            errors = [max(errors)]
        headers = {
            **definition_header(*drawing.definitions),
            **coverage_header(series.coverage for series in drawing.series),
            "X-Success-Error": " | ".join(f"{error:g}" for error in errors),
        }
        return csv_response("curve.csv", csv_of(drawing), headers)
    if query.format == "json":
        return JsonResponse({"charts": charts_of(drawing)})
    if query.format:
        try:
            return _file(drawing)
        except NotDrawn as error:
            return refused(request, "Not drawn", str(error), status=503)
    viewer, environment = query.filter.viewer, drawing.rows.environment
    splits = environment.splits.values_list("name", flat=True) if environment else ()
    context = panel_of(request, drawing) | {
        "values": query.filter.values(),
        "chips": query.filter.chips(),
        "kept": query.switches(),
        "environments": Environment.objects.seen_by(viewer).values_list("name", flat=True),
        "splits": splits,
        "runs": runs(viewer),
        "models": models(viewer),
        "splits_of_runs": labelled(drawing.splits),
        "split": drawing.split,
        "are_together": query.are_together,
    }
    name = query.filter.run
    if name is not None and drawing.rows.run is None:
        similar = _similar_runs(name, viewer)
        context["similar"] = similar
        context["similar_ids"] = ",".join(str(run.pk) for run in similar)
    if request.headers.get("HX-Request"):
        return render(request, "figures/curve_tables.html", context)
    status = 400 if drawing.rows.unknown else 200
    return render(request, "figures/curves.html", context, status=status)


def _file(drawing: CurveCharts) -> HttpResponse:
    """Return a figure for papers, its data, or the script that draws it. Raises: BadFilter where
    figures cannot be drawn, NotDrawn."""
    charts = charts_of(drawing)
    query = drawing.query
    if best := best_of(charts, query):
        query = replace(query, highlighted=best.keys)
        charts = [chart | {"band": "", "extremes": ""} for chart in charts]
    if query.format == "data":
        name, content = DATA, "".join(figure_data(charts, query)).encode()
    elif query.format == "py":
        name, content = SCRIPT, figure_script(charts, query).encode()
    elif not can_draw():
        raise BadFilter("format", query.format, f"this server lacks matplotlib; {NO_MATPLOTLIB}")
    elif not charts:
        raise BadFilter("format", query.format, "there is nothing to draw")
    else:
        name, content = f"curves.{query.format}", figure_picture(charts, query)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return HttpResponse(content, content_type=MEDIA_TYPES[query.format], headers=headers)


def panel_of(request: HttpRequest, drawing: CurveCharts) -> dict[str, Any]:
    """Return the template variables of `figures/curve_panel.html`."""
    query, subject = drawing.query, drawing.rows
    if drawing.definition is None:  # the curves differ
        definition = overrides_context(query.definition)
    else:
        is_in_address = subject.environment is not None
        definition = definition_context(
            drawing.definition, drawing.environment, is_in_address=is_in_address
        )
    runs = drawing.overlay.runs or ([subject.run] if subject.run else [])
    charts = charts_of(drawing)
    ranking = next((chart for chart in charts if chart["figure"] != "components"), None)
    rows = rows_of(drawing.series, lasts_of_runs(drawing, ranking) if ranking else {}, query)
    places = {row.line.key: place for place, row in enumerate(rows)}
    scalars = [
        (scalar.name, *pair)
        for scalar in drawing.scalars
        for pair in sorted(scalar.lines, key=lambda pair: places[pair[0].key])
    ]
    return {
        "drawn": drawing,
        "query": query,
        "best": best_of(charts, query),
        "curve_rows": rows,
        "scalar_rows": scalars[:MAX_SCALAR_ROWS],
        "scalar_count": len(scalars),
        "group_rows": rows_of(drawing.groups, lasts_of(ranking) if ranking else {}, query),
        "ranking": ranking,
        "curve_heads": heads_of(query, ranking),
        "over": ("all steps" if query.x == "step" else "all attempts")
        if query.zoom == WHOLE
        else "part in view",
        "group_choices": [
            (name, name in query.group, ",".join(_with_or_without(query.group, name)))
            for name in dict.fromkeys((*query.group, *drawing.group_names))
        ],
        "charts": charts,
        "notes": drawing.notes + (log_notes(charts) if query.is_log else []),
        **definition,
        "environment": drawing.environment,
        "figures": [_choice(query, name) for name in FIGURES],
        "axes": AXIS_TITLES.items(),
        "band_titles": dict.fromkeys(chart["band"] for chart in charts),
        "extreme_titles": dict.fromkeys(chart["extremes"] for chart in charts),
        "scalar_choices": [
            (
                name,
                name in query.scalars,
                ",".join(_toggled(query.y, f"{SCALAR}{name}")),
            )
            for name in drawing.scalar_names
        ],
        "overlays": _BY,
        "switches": request.GET,
        "sizes": SIZES,
        "can_draw": can_draw(),
        "chosen_runs": ",".join(str(run.pk) for run in runs),
        "most_runs": MAX_SERIES,
    }


class FigureChoice(NamedTuple):
    """A figure in the switch of figures."""

    name: Figure
    title: str
    label: str
    """What the y axis shows."""
    is_shown: bool
    is_common: bool
    """Whether it is offered beside the charts; others are in a menu until they are shown."""
    is_of_groups: bool
    """Whether it is drawn over training steps alone."""
    others: str
    """The figures with this one added or taken away, as the address names them; empty if it is the
    only one."""


def _choice(query: CurveQuery, figure: Figure) -> FigureChoice:
    return FigureChoice(
        figure,
        TITLES[figure],
        UNITS[figure],
        figure in query.figures,
        figure in COMMON,
        figure in OF_GROUPS,
        ",".join(_toggled(query.y, figure)),
    )


def _toggled(y: Sequence[str], name: str) -> list[str]:
    """Return what an address draws, with `name` added or taken away."""
    names = _with_or_without(y, name)
    order: dict[str, int] = {figure: place for place, figure in enumerate(FIGURES)}
    return sorted(names, key=lambda other: order.get(other, len(order)))


def _with_or_without(names: Sequence[str], name: str) -> list[str]:
    return [other for other in names if other != name] if name in names else [*names, name]


def _newest_runs(search: str, viewer: Viewer) -> tuple[QuerySet[Run], int]:
    """Return those of the newest MAX_SEARCHED runs whose name or model has the words of `search`,
    newest first, and the lowest id that is searched."""
    newest = Run.objects.order_by("-pk").values_list("pk", flat=True)
    oldest = newest[MAX_SEARCHED - 1 : MAX_SEARCHED].first() or 0
    rows = Run.objects.seen_by(viewer).only("name", "model", "state").filter(pk__gte=oldest)
    if search:
        rows = rows.filter(holding(rows, search, ("name", "model")))
    return rows.order_by("-pk"), oldest


def _similar_runs(name: str, viewer: Viewer) -> list[Run]:
    """Return the runs that somebody may mean who names one that does not exist: MAX_SERIES of those
    with its name in theirs, else those with the nearest names."""
    rows, _ = _newest_runs(name, viewer)
    if similar := list(rows[:MAX_SERIES]):
        return similar
    names = nearest_names(name, runs(viewer), MAX_NEAREST)
    return list(Run.objects.seen_by(viewer).filter(name__in=names))


@require_safe
@never_cache
@takes("search", "runs")
def run_choices(request: HttpRequest) -> HttpResponse:
    """Return the runs that the menu of a chart offers: the chosen ones, whose ids are `runs`, others
    of their names, then the newest whose name or model has the words of `search`. Raises: BadFilter.
    """
    viewer = viewer_of(request.user)
    search = given(request.GET, "search", any_text, "")
    ids = given(request.GET, "runs", partial(run_ids, viewer=viewer)) or ()
    visible = Run.objects.seen_by(viewer).only("name", "model", "state")
    rows = visible.in_bulk(list(ids))
    matches, oldest = _newest_runs(search, viewer)
    namesakes = list(visible.namesakes(*(row.name for row in rows.values()))) if rows else []
    others = matches.exclude(pk__in=[*rows, *(row.pk for row in namesakes)])
    context = {
        "chosen": [rows[pk] for pk in ids if pk in rows],
        "namesakes": namesakes,
        "others": others[:MAX_CHOICES],
        "count": others.count(),
        "searched": MAX_SEARCHED if Run.objects.filter(pk__lt=oldest).exists() else None,
        "search": search,
    }
    return render(request, "figures/run_choices.html", context)
