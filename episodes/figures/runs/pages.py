"""The list of training and evaluation runs with their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.display.formats import ATTEMPTS, percent
from environments.display.numbers import signed
from environments.filtering.addresses import takes
from environments.filtering.parameters import trimmed, unknown_name
from environments.models import Split, Viewer
from environments.scoring.definition import (
    DEFINITION_PARAMETERS,
    Definition,
    definitions_in_force,
)
from episodes.attempts.file_headers import csv_response, definition_header
from episodes.dashboard.saved_views import ViewPage
from episodes.dashboard.view_parameters import overrides_context
from episodes.figures.curves.figure_menu import SCALAR
from episodes.figures.curves.revision_marks import several_codes
from episodes.figures.run_splits import SplitChoice
from episodes.figures.run_verdicts import RunVerdict, run_verdicts
from episodes.figures.runs.config_groups import ConfigGroup
from episodes.figures.runs.run_columns import (
    cell_text,
    column_values,
    order_by_column,
    scalar_columns,
)
from episodes.figures.runs.run_file import csv_lines
from episodes.figures.runs.run_lines import RunLine
from episodes.figures.runs.run_list import (
    COLUMNS,
    LAST_ACTIVE,
    MAX_SEARCHED,
    RUNS_PER_PAGE,
    RunListQuery,
)
from episodes.figures.runs.run_order import RunOrder
from episodes.figures.runs.run_states import last_activity_of, silence_of
from episodes.figures.runs.stored_totals import MAX_SORTED, RunSums, stored_totals
from episodes.figures.scope_figures import ScopeFigures
from episodes.figures.scopes import MAX_COMPARED, MAX_SERIES
from episodes.figures.summary_cover import note_of_part
from episodes.models import Rollout, Run
from episodes.rollups.run_totals import RunTotalsPart
from episodes.runs.config_values import ConfigCondition, config_values
from episodes.runs.description import STATES

COLUMN_LABELS = {name: name.capitalize() for name in COLUMNS} | {"last": "Last activity"}
MAX_NAMES = 100
"""Names of values of configurations that the list of runs offers as columns."""

OVER_TITLES = {
    "latest": "Over the attempts of the last tenth of a run's training steps; over all attempts of a "
    "run without training steps",
    "all": "Over all attempts of a run",
}


@require_safe
@never_cache
@takes(*RunListQuery.PARAMETERS, several=RunListQuery.SEVERAL)
def runs(request: HttpRequest) -> HttpResponse:
    """Return the list of runs: those that its filter finds, by the definition in force. Raises:
    BadRequest."""
    viewer = viewer_of(request.user)
    query = _query(request.GET, viewer)
    if query.format == "csv":
        headers = definition_header(definitions_in_force(query.definition))
        return csv_response("runs.csv", csv_lines(query), headers)
    page = query.result()
    lines = page.lines
    groups = query.groups() if query.group else []
    places = {place for group in groups for place in group.places}
    places = places or set(page.places) or {line.place for line in lines if line.outline.total}
    best = Run.objects.in_bulk([group.best for group in groups if group.best])
    verdicts_on_best = run_verdicts(list(best.values()), query.definition, viewer)
    view_parameters = request.GET.copy()
    view_parameters.pop("after", None)
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
            GroupRow(
                group,
                best.get(group.best or 0),
                verdicts_on_best.get(group.best or 0),
                (address := _address_of(group, query, request.GET)),
                _state_links(group.states, address),
            )
            for group in groups
        ],
        "places": sorted(places),
        "has_several_places": len(places) > 1,
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
        "address": view_parameters.urlencode(),
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


def _query(parameters: QueryDict, viewer: Viewer) -> RunListQuery:
    """Return the query in an address of the list. Raises: BadFilter."""
    return RunListQuery.parse(parameters, viewer, RUNS_PER_PAGE, LAST_ACTIVE, "latest")


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
    _query(parameters, viewer).ids()
    return query


def _is_visible(query: str, viewer: Viewer) -> bool:
    split = _query(QueryDict(query), viewer).splits.split
    return not split or Split.objects.seen_by(viewer).filter(name=split).exists()


VIEWS = ViewPage("runs", _saved_address, _is_visible)


class GroupRow(NamedTuple):
    """A row of the list of groups."""

    group: ConfigGroup
    best: Run | None
    verdict: RunVerdict | None
    """On the best run."""
    address: str
    """Query string of the list of its runs; empty if they lack a value."""
    states: Sequence[tuple[str, int, str]]
    """States of runs that are no whole trainings, each with their number and the query string of
    their list."""


def _state_links(states: Mapping[str, int], address: str) -> list[tuple[str, int, str]]:
    links = []
    for state, count in states.items():
        parameters = QueryDict(address, mutable=True)
        parameters["state"] = "running" if state == "silent" else state
        links.append((state, count, parameters.urlencode() if address else ""))
    return links


class RunRow(NamedTuple):
    """A row of the list."""

    line: RunLine
    cells: Sequence[tuple[bool, str | None]]
    """Of the columns of the configuration: whether it is pinned, and its text."""
    last: datetime
    """Last activity of the run, by which the list is sorted."""
    silence: str
    """How long ago that was, if the run is said to be running and has become silent."""
    figures: ScopeFigures | RunSums | None
    """What return and success are shown of: its latest training steps, or all of its episodes."""
    basis: str
    """A sentence about both."""
    verdict: RunVerdict | None


def _rows(lines: Sequence[RunLine], query: RunListQuery) -> list[RunRow]:
    """Return the rows of the list. Three queries at most, besides those of verdicts."""
    ids = [line.run.pk for line in lines]
    totals = stored_totals(ids, Definition(), needs_content=False)
    by_run = column_values(Run.objects.filter(pk__in=ids), query.columns)
    verdicts = run_verdicts([line.run for line in lines], query.definition, query.viewer)
    rows = list[RunRow]()
    for line in lines:
        values = by_run.get(line.run.pk, {})
        cells = [
            (name in query.pin, cell_text(values[name]) if name in values else None)
            for name in query.columns
        ]
        last = last_activity_of(line.run, totals.get(line.run.pk, ()))
        silence = silence_of(line.run.state, last.timestamp())
        figures = line.figures if query.over == "latest" else line.outline.total
        verdict = verdicts.get(line.run.pk)
        rows.append(RunRow(line, cells, last, silence, figures, _basis(line), verdict))
    return rows


def _basis(line: RunLine) -> str:
    total, latest = line.outline.total, line.latest
    if total is None:
        return ""
    figures = list[tuple[str, RunSums | ScopeFigures, int]]()
    if latest is not None:
        steps = f"training steps {latest.low:,} to {latest.high:,}"
        figures.append((steps, latest.totals, latest.totals.attempts))
    figures.append(("all", total, total.n))
    texts = [
        f"{name}: {signed(some.mean or 0.0)}, {percent(some.success or 0.0)}% of {count:,} attempts"
        for name, some, count in figures
    ]
    return f"{line.place} ({line.definition}), {'; '.join(texts)}"


class RunHead(NamedTuple):
    """The head of a column of the list."""

    name: str
    """Of the column, and of its order."""
    label: str
    style: str
    """Classes of its cell."""
    hint: str = ""
    note: str = ""
    """What stands below the label."""
    title: str = ""
    query: str = ""
    """Query string that sorts by it, or reverses the order; empty if it is not sorted by."""
    direction: str = ""
    """`descending` or `ascending` if the list is sorted by it."""


def _heads(query: RunListQuery, parameters: QueryDict, lines: Sequence[RunLine]) -> list[RunHead]:
    returns = {line.definition.return_ for line in lines}
    thresholds = {line.definition.threshold for line in lines}
    return_ = (returns.pop() or "") if len(returns) == 1 else ""
    threshold = thresholds.pop() if len(thresholds) == 1 else None
    bar = "" if threshold is None else f"> {threshold:g}"
    steps = "last 10% of steps" if query.over == "latest" else ""
    heads = [
        RunHead("name", "Run", "name pinned"),
        *(
            RunHead(order_by_column(name), name, "pinned" if name in query.pin else "")
            for name in query.columns
        ),
        RunHead("model", "Model", "wide-only roomy"),
        RunHead("curve", "Curve", "wide-only roomy", title="Return over episodes"),
        RunHead(
            "environment", "Environment", "wide-only roomy", title="Where the figures are from"
        ),
        RunHead("split", "Split", "wide-only roomy", title="The split that the figures count"),
        RunHead("return", "Return", "right", return_, steps, OVER_TITLES[query.over]),
        RunHead("success", "Success", "right", bar, steps, OVER_TITLES[query.over]),
        RunHead("attempts", "Attempts", "right", title=ATTEMPTS),
        RunHead("steps", "Steps", "right", title="Mean steps per attempt"),
        RunHead(
            "last",
            "Last activity",
            "right",
            title="When an episode last ended or the trainer last reported",
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
