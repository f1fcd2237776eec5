"""The page of curves: return, success and length over episodes, time or training steps, for any
filter of episodes.

One address serves the page, the numbers of its charts (`format=json`, for zooming and switching)
and a CSV file.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.models import Environment, Split
from episodes.analytics.curve_query import AXES, CurveQuery
from episodes.analytics.curve_series import Drawn, drawn
from episodes.analytics.figure_menu import FIGURES, OF_GROUPS, TITLES, UNITS, Figure
from episodes.analytics.run_splits import labelled
from episodes.analytics.scopes import MAX_SERIES, OVERLAYS
from episodes.dashboard.curve_chart import charts_of, csv_of
from episodes.dashboard.view_parameters import asked_context, definition_context
from episodes.filtering.names import models, runs
from episodes.transfer.csv_lines import coverage_header, definition_header

_AXES = {"episode": "Episodes", "time": "Time", "step": "Training step"}
_BY = (("", "All"), *((name, f"By {name}") for name in OVERLAYS))


@require_safe
@never_cache
def curves(request: HttpRequest) -> HttpResponse:
    """Return the page, or the curves as JSON or CSV. Raises: BadRequest with the reason why a
    parameter is refused."""
    asked = CurveQuery.parse(request.GET, viewer_of(request.user))
    found = drawn(asked)
    if asked.format == "csv":
        headers = {
            "Content-Disposition": 'attachment; filename="curve.csv"',
            **definition_header(*found.definitions),
        }
        headers |= coverage_header(one.coverage for one in found.series)
        headers["X-Success-Error"] = " | ".join(
            f"{one.curve.success_error:g}" for one in found.series
        )
        return HttpResponse(
            "".join(csv_of(found)), content_type="text/csv; charset=utf-8", headers=headers
        )
    if asked.format == "json":
        return JsonResponse({"charts": charts_of(found)})
    context = panel_of(request, found) | _form(found)
    context |= {
        "splits_of_runs": labelled(found.splits),
        "split": found.split,
        "are_together": asked.are_together,
    }
    if request.headers.get("HX-Request"):
        return render(request, "episodes/curve_tables.html", context)
    return render(
        request, "episodes/curves.html", context, status=400 if found.rows.unknown else 200
    )


def panel_of(request: HttpRequest, found: Drawn) -> dict[str, Any]:
    """Return the template variables of `episodes/curve_panel.html`."""
    return {
        "drawn": found,
        "asked": found.query,
        "charts": charts_of(found),
        **_definition(found),
        "environment": found.environment,
        "figures": _choices(found.query),
        "axes": [(name, _AXES[name]) for name in AXES],
        "overlays": _BY,
        "switches": request.GET,
        "chosen_runs": _chosen(found),
        "most_runs": MAX_SERIES,
    }


class FigureChoice(NamedTuple):
    """A figure in the switch of figures."""

    name: Figure
    title: str
    label: str
    """What the y axis shows."""
    is_shown: bool
    is_of_groups: bool
    """Whether it is drawn over training steps alone."""
    toggled: str
    """The figures with this one added or taken away, as the address names them; empty if it is the
    only one."""


def _choices(asked: CurveQuery) -> list[FigureChoice]:
    return [
        FigureChoice(
            name,
            TITLES[name],
            UNITS[name],
            name in asked.figures,
            name in OF_GROUPS,
            _toggled(asked, name),
        )
        for name in FIGURES
    ]


def _toggled(asked: CurveQuery, name: Figure) -> str:
    return ",".join(one for one in FIGURES if (one in asked.figures) != (one == name))


def _chosen(found: Drawn) -> str:
    """Return the ids of the runs that are drawn, separated by commas."""
    runs = found.overlay.runs or ([found.rows.run] if found.rows.run else [])
    return ",".join(str(run.pk) for run in runs)


def _definition(found: Drawn) -> dict[str, Any]:
    """Return the template variables of the definition in force; where the curves differ, those of
    what is asked."""
    if found.definition is None:
        return asked_context(found.query.definition)
    is_in_address = found.rows.environment is not None
    return definition_context(found.definition, found.environment, is_in_address=is_in_address)


def _form(found: Drawn) -> dict[str, Any]:
    """Return the template variables of the filter form."""
    environment, viewer = found.rows.environment, found.query.filter.viewer
    splits = (
        Split.objects.filter(environment=environment).values_list("name", flat=True)
        if environment
        else ()
    )
    return {
        "values": found.query.filter.values(),
        "chips": found.query.filter.chips(),
        "kept": found.query.switches(),
        "environments": Environment.objects.seen_by(viewer).values_list("name", flat=True),
        "splits": splits,
        "runs": runs(viewer),
        "models": models(viewer),
    }
