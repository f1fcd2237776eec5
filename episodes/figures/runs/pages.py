"""The list of training and evaluation runs with their results, and the page of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.display import parts
from environments.filtering.addresses import takes
from environments.filtering.filters import query_string
from environments.filtering.parameters import (
    WholeRange,
    chosen,
    given,
    trimmed,
    unknown_name,
    whole_from,
)
from environments.models import Split, Viewer
from environments.scoring.definition import (
    DEFINITION_PARAMETERS,
    Definition,
    definitions_in_force,
)
from episodes.attempts.file_headers import csv_response, definition_header
from episodes.browsing.episode_list import EpisodeListQuery
from episodes.dashboard.guards import row_or_404
from episodes.dashboard.replay import mistaken_labels_of
from episodes.dashboard.saved_views import ViewPage
from episodes.dashboard.view_parameters import definitions_context, overrides_context
from episodes.figures.curves.curve_parameters import OF_SEVERAL, CurveQuery
from episodes.figures.curves.curve_parameters import PARAMETERS as SWITCHES
from episodes.figures.curves.curve_series import curve_charts
from episodes.figures.curves.figure_menu import SCALAR, Figure
from episodes.figures.curves.pages import panel_of
from episodes.figures.curves.revision_marks import several_codes
from episodes.figures.run_splits import SplitChoice, of_one_split
from episodes.figures.runs.config_groups import ConfigGroup
from episodes.figures.runs.run_columns import (
    column_values,
    order_by_column,
    scalar_columns,
)
from episodes.figures.runs.run_file import csv_lines
from episodes.figures.runs.run_lines import (
    MAX_COUNTED,
    RunLine,
    RunQuery,
    judged_parts,
    places_of,
)
from episodes.figures.runs.run_list import (
    COLUMNS,
    LAST_ACTIVE,
    MAX_SEARCHED,
    RUNS_PER_PAGE,
    RunListQuery,
)
from episodes.figures.runs.run_order import (
    MAX_SORTED,
    RunOrder,
    last_activity_of,
    silence_of,
    stored_totals,
)
from episodes.figures.runs.training_steps import steps_of
from episodes.figures.scopes import MAX_COMPARED, MAX_SERIES
from episodes.figures.summary_cover import note_of_part
from episodes.models import Episode, Rollout, Run
from episodes.rollups.run_totals import RunTotalsPart
from episodes.runs.config_values import (
    ConfigCondition,
    Scalar,
    config_values,
    value_text,
)
from episodes.runs.description import STATES
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
COLUMN_LABELS = {name: name.capitalize() for name in COLUMNS} | {"last": "Last activity"}
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
    query = RunListQuery.parse(request.GET, viewer, RUNS_PER_PAGE, LAST_ACTIVE)
    if query.format == "csv":
        headers = definition_header(definitions_in_force(query.definition))
        return csv_response("runs.csv", csv_lines(query), headers)
    page = query.result()
    lines = page.lines
    groups = query.groups() if query.group else []
    best = Run.objects.in_bulk([group.best for group in groups if group.best])
    saved = request.GET.copy()
    saved.pop("after", None)
    scalars = [name for name in query.columns if name.startswith(SCALAR)]
    scalars = list(dict.fromkeys([*scalars, *scalar_columns(page.runs)]))[:MAX_NAMES]
    names = [*(name for name in query.columns if name not in scalars), *query.group]
    names += [name for line in lines for name in config_values(line.run.config)]
    ids = query.ids() if query.order.is_newest else page.ids
    splits = [query.splits.split] if query.splits.split else []
    splits += [split.name for line in lines for split in line.splits]
    context = {
        "rows": _rows(lines, query),
        "heads": _heads(query, request.GET, lines),
        "groups": [
            (group, best.get(group.best or 0), _address_of(group, query, request.GET))
            for group in groups
        ],
        "missing": next(
            (line.outline.missing for line in lines if line.outline.missing),
            note_of_part(RunTotalsPart.name),
        ),
        "splits": list(dict.fromkeys(splits)),
        "has_several_splits": any(len(line.splits) > 1 for line in lines),
        "next": page.next,
        "is_first": not query.after,
        "query": query,
        "count": len(ids),
        "ids": ids[:MAX_SERIES],
        "oldest_first": sorted(ids[:MAX_COMPARED]),
        "kept_by_links": _kept_by_links(request.GET),
        "searched": MAX_SEARCHED if query.order.is_newest else MAX_SORTED,
        "is_bounded": page.is_bounded,
        "chips": _chips(query, request.GET),
        "views": VIEWS.views(viewer),
        "address": saved.urlencode(),
        "names": (names := list(dict.fromkeys(names))[:MAX_NAMES]),
        "group_choices": [
            (name, ",".join(other for other in query.group if other != name))
            if name in query.group
            else (name, ",".join([*query.group, name]))
            for name in names
        ],
        "columns": COLUMN_LABELS.items(),
        "column_choices": [
            (title, choices)
            for title, choices in (("Configuration", names), ("Scalars", scalars))
            if choices
        ],
        "kept": [
            (name, text) for name, texts in request.GET.lists() if name != "after" for text in texts
        ],
        **overrides_context(query.definition),
        "changed": several_codes(
            {environment.pk for line in lines for environment in line.environments}
        ),
        "most_runs": MAX_COMPARED,
        "most_curves": MAX_SERIES,
        "states": STATES,
        "state": query.states[0] if len(query.states) == 1 else "",
        "has_rollouts": Rollout.objects.seen_by(viewer).exists(),
    }
    name = "runs_table" if "HX-Request" in request.headers and lines else "runs"
    return render(request, f"figures/{name}.html", context)


def _kept_by_links(parameters: QueryDict) -> str:
    """Return what the pages of curves and of the comparison take over from the address of the list,
    as the end of a query string."""
    names = (*SplitChoice.PARAMETERS, *DEFINITION_PARAMETERS)
    texts = {name: parameters[name] for name in names if parameters.get(name)}
    return f"&{urlencode(texts)}" if texts else ""


def _saved_address(query: str, viewer: Viewer) -> str:
    """Return the query string of a view as it is saved. Raises: BadFilter, ValueError."""
    parameters = QueryDict(query)
    for name, text in parameters.items():
        if name not in RunListQuery.PARAMETERS:
            raise unknown_name(name, text, RunListQuery.PARAMETERS)
    RunListQuery.parse(parameters, viewer, RUNS_PER_PAGE, LAST_ACTIVE).ids()
    return query


def _is_visible(query: str, viewer: Viewer) -> bool:
    split = RunListQuery.parse(QueryDict(query), viewer, RUNS_PER_PAGE, LAST_ACTIVE).splits.split
    return not split or Split.objects.seen_by(viewer).filter(name=split).exists()


VIEWS = ViewPage("runs", _saved_address, _is_visible)


class RunRow(NamedTuple):
    """A row of the list."""

    line: RunLine
    cells: Sequence[tuple[bool, str | None]]
    """Of the columns of the configuration: whether it is pinned, and its text."""
    last: datetime
    """Last activity of the run, by which the list is sorted."""
    silence: str
    """How long ago that was, if the run is said to be running and has become silent."""


def _rows(lines: Sequence[RunLine], query: RunListQuery) -> list[RunRow]:
    """Return the rows of the list. Three queries at most."""
    ids = [line.run.pk for line in lines]
    totals = stored_totals(ids, Definition(), needs_content=False)
    by_run = column_values(Run.objects.filter(pk__in=ids), query.columns)
    rows = list[RunRow]()
    for line in lines:
        values = by_run.get(line.run.pk, {})
        cells = [
            (name in query.pin, _cell(values[name]) if name in values else None)
            for name in query.columns
        ]
        last = last_activity_of(line.run, totals.get(line.run.pk, ()))
        rows.append(RunRow(line, cells, last, silence_of(line.run.state, last)))
    return rows


class RunHead(NamedTuple):
    """The head of a column of the list."""

    name: str
    """Of the column, and of its order."""
    label: str
    style: str
    """Classes of its cell."""
    hint: str = ""
    title: str = ""
    query: str = ""
    """Query string that sorts by it, or reverses the order; empty if it is not sorted by."""
    direction: str = ""
    """`descending` or `ascending` if the list is sorted by it."""


def _heads(query: RunListQuery, parameters: QueryDict, lines: Sequence[RunLine]) -> list[RunHead]:
    returns = {line.definition.return_ for line in lines}
    thresholds = {line.definition.threshold for line in lines}
    threshold = thresholds.pop() if len(thresholds) == 1 else None
    heads = [
        RunHead("name", "Run", "name pinned"),
        *(
            RunHead(order_by_column(name), name, "pinned" if name in query.pin else "")
            for name in query.columns
        ),
        RunHead("model", "Model", "wide-only"),
        RunHead("environment", "Environment", "wide-only"),
        RunHead("split", "Split", "wide-only", "", "The split whose episodes the figures count"),
        RunHead("curve", "Curve", "wide-only", title="Return over episodes"),
        RunHead("return", "Return", "right", (returns.pop() or "") if len(returns) == 1 else ""),
        RunHead("success", "Success", "right", "" if threshold is None else f"> {threshold:g}"),
        RunHead("attempts", "Attempts", "right"),
        RunHead("steps", "Steps", "right", "", "Mean steps per attempt"),
        RunHead(
            "last",
            "Last activity",
            "right",
            "",
            "When an episode last ended or the trainer last reported",
        ),
    ]
    order, sortable = query.order, list[RunHead]()
    for head in heads:
        if head.name in query.hide:
            continue
        is_order = order.name == head.name
        rest = parameters.copy()
        is_text = head.style != "right"
        rest["sort"] = str(RunOrder(head.name, not (order.is_descending if is_order else is_text)))
        rest.pop("after", None)
        direction = "descending" if order.is_descending else "ascending"
        sortable.append(
            head._replace(
                query=rest.urlencode() if head.name != "curve" else "",
                direction=direction if is_order else "",
            )
        )
    return sortable


def _address_of(group: ConfigGroup, query: RunListQuery, parameters: QueryDict) -> str:
    """Return the query string of the list of the group's runs; empty if they lack a value."""
    rest = parameters.copy()
    for name, value in zip(query.group, group.values, strict=True):
        if value is None:
            return ""
        rest.appendlist("config", f"{name}={value}")
    for other in ("group", "after"):
        rest.pop(other, None)
    return rest.urlencode()


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
    pairs += [("group", ",".join(query.group))] if query.group else []
    for name, value in pairs:
        rest = parameters.copy()
        texts = [text for text in parameters.getlist(name) if _text_of(name, text) != value]
        rest.setlist(name, texts if name != "group" else [])
        rest.pop("after", None)
        chips.append(RunChip(name, value, rest.urlencode()))
    return chips


def _text_of(name: str, text: str) -> str:
    """Return a value as a chip shows it."""
    is_condition = name == "config" and text.strip()
    return str(ConfigCondition.parse(name, text)) if is_condition else trimmed(text)


def _cell(value: Scalar) -> str:
    return f"{value:.6g}" if isinstance(value, float) else value_text(value)


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
    has_steps = Episode.objects.filter(run=run, run_step__isnull=False).exists()
    names = list(run.scalars.order_by("pk").values_list("name", flat=True)[:MAX_STORY_SCALARS])
    is_by_step = has_steps or (names and not Episode.objects.filter(run=run).exists())
    values = {
        "x": "step" if is_by_step else "episode",
        "y": ",".join([*STORY, *(f"{SCALAR}{name}" for name in names if is_by_step)]),
    }
    values |= request.GET.dict() | {"run": run.name}
    for name in ("part", "before"):
        values.pop(name, None)
    before = given(request.GET, "before", whole_from(1))
    part = given(request.GET, "part", chosen(tuple(PARTS))) or "page"
    query = CurveQuery.parse(values, viewer)
    line = RunQuery(run, viewer, query.split_choice, query.definition).result()
    of_run = replace(query.filter.definition_alone, run=run.name)
    query = replace(query, filter=of_one_split(of_run, line.split))
    places, has_older = places_of(run)
    rows = EpisodeListQuery(replace(query.filter, viewer=viewer), size=MAX_EPISODES).result().rows
    chart = dict[str, Any]()
    if part == "page":
        drawing = curve_charts(query)
        if "y" not in request.GET:
            query = replace(query, figures=tuple(drawing.figures) or query.figures)
            drawing = replace(drawing, query=query)
        chart = panel_of(request, drawing)
        line_of_run = drawing.series[0]
        chart["phases"] = [
            (
                phase,
                replace(
                    line_of_run.filter,
                    step=WholeRange(int(phase.x), int(phase.x_to)),
                    ending="attempt",
                ).to_query(**line_of_run.parts),
            )
            for phase in drawing.phases
        ]
    switches = request.GET.copy()  # with what the page of curves needs
    switches.pop("before", None)
    own = {"x": query.x, "y": ",".join(query.y)}
    for name, text in (query.filter.values() | own).items():
        switches[name] = text
    steps = steps_of(run, line.definition, MAX_STEPS, line.split, before)
    visible = Run.objects.seen_by(viewer)
    totals = stored_totals([run.pk], Definition(), needs_content=False)
    last = last_activity_of(run, totals.get(run.pk, ()))
    context = chart | {
        "run": run,
        "last": last,
        "silence": silence_of(run.state, last),
        "namesakes": visible.namesakes(run.name) if part != "tables" else [],
        "config": parts.fields(run.config) if run.config else [],
        "settings": [(name, _cell(value)) for name, value in config_values(run.config).items()][
            :MAX_SETTINGS
        ],
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
        "by_environment_query": replace(query, filter=of_run, by="environment").to_query(),
        "where": [
            {
                "environment__name": name,
                "count": count,
                "last": last,
                "query": query_string(environment=name, run=run.name),
                "curve_query": query_string(environment=name, run=run.name, x=query.x),
            }
            for name, count, last in places
        ],
        "counted": MAX_COUNTED if has_older else None,
        "steps": steps,
        "are_latest": before is None,
        "has_older_steps": bool(steps)
        and Episode.objects.filter(run=run, run_step__lt=steps[-1].run_step).exists(),
        "reported": reported_usage(run),
        "episodes": rows,
        "mistaken": mistaken_labels_of(rows[0].episode) if rows else {},
    }
    return render(request, f"figures/{PARTS[part]}.html", context)
