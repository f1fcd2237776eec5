"""The rows of the tables below charts, in the order that the address says, and which of many curves
stand out: those that end highest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from environments.display.formats import percent
from environments.display.numbers import signed
from episodes.figures.curves.curve_chart import charts_of
from episodes.figures.curves.curve_parameters import CurveQuery
from episodes.figures.curves.curve_series import ChartSeries, CurveCharts, GroupLine
from episodes.figures.curves.figure_menu import BY_DEFINITION, SCALAR, TITLES

MANY = 12
"""Curves of a chart that are drawn as thick lines; of more, those that end highest stand out."""
MAX_BEST = 3
HIGHER_IS_BETTER = ("return", "success")


class Last(NamedTuple):
    """The last value of a line of a chart, as it is drawn."""

    value: float
    x: float
    text: str


class CurveRow(NamedTuple):
    line: ChartSeries | GroupLine
    last: Last | None
    """None if the line has no values."""


class Best(NamedTuple):
    keys: tuple[str, ...]
    by: str
    """The figure whose last values are the highest."""


class SortableHead(NamedTuple):
    label: str
    order: str
    """`CurveQuery.sort` to which a click leads."""
    direction: str
    """"ascending" or "descending"; empty if the rows are not sorted by the column."""


def lasts_of(chart: Mapping[str, Any]) -> dict[str, Last]:
    """Return the last value of each line of a chart that has values, by its key."""
    lasts = dict[str, Last]()
    for line in chart["series"]:
        last = next((point for point in reversed(line["points"]) if point["y"] is not None), None)
        if last:
            lasts[line["key"]] = Last(last["y"], last["x"], _text(chart, last["y"]))
    return lasts


def lasts_of_runs(drawing: CurveCharts, chart: Mapping[str, Any]) -> dict[str, Last]:
    """Return the last value of each run of this chart, whose lines may be groups of runs."""
    if not drawing.groups:
        return lasts_of(chart)
    query = replace(
        drawing.query,
        figures=tuple(figure for figure in drawing.figures if figure == chart["figure"]),
    )
    scalars = [scalar for scalar in drawing.scalars if SCALAR + scalar.name == chart["figure"]]
    [of_runs] = charts_of(replace(drawing, query=query, groups=(), scalars=scalars))
    return lasts_of(of_runs)


def _text(chart: Mapping[str, Any], value: float) -> str:
    if chart["isShare"]:
        return f"{percent(value)}%"
    return signed(value) if chart["figure"] in BY_DEFINITION else f"{value:,.4g}"


def rows_of(
    lines: Sequence[ChartSeries | GroupLine],
    lasts: Mapping[str, Last],
    query: CurveQuery,
) -> list[CurveRow]:
    """Return a row of each line in the order of `query.sort`, those without a value last."""
    column = query.sort.removeprefix("-")

    def value(row: CurveRow) -> Any:
        if column == "curve":
            return row.line.label
        return row.last and row.last.value if column == "last" else row.line.value_of(column)

    rows = [CurveRow(line, lasts.get(line.key)) for line in lines]
    sortable = [row for row in rows if value(row) is not None]
    sortable.sort(key=value, reverse=query.sort.startswith("-"))
    return sortable + [row for row in rows if value(row) is None]


def heads_of(query: CurveQuery, chart: Mapping[str, Any] | None) -> dict[str, SortableHead]:
    """Return the heads of the sortable columns, by the name of the column."""
    titles = dict[str, str](TITLES.items())
    figure: str = chart["figure"] if chart else ""
    labels = {
        "curve": "Curve",
        "attempts": "Attempts",
        "return": "Mean return",
        "success": "Success",
        "length": "Steps",
        "last": f"Last {titles.get(figure, figure.removeprefix(SCALAR)).lower()}",
    }
    heads = dict[str, SortableHead]()
    for name, label in labels.items():
        orders = [f"-{name}", name]
        first, second = reversed(orders) if name == "curve" else orders
        direction = "descending" if query.sort == orders[0] else "ascending"
        is_sorted = query.sort in orders
        order = second if query.sort == first else first
        heads[name] = SortableHead(label, order, direction if is_sorted else "")
    return heads


def best_of(charts: Sequence[Mapping[str, Any]], query: CurveQuery) -> Best | None:
    """Return the curves that stand out because they end highest; None if the address chooses
    others, or if there are few curves."""
    chart = next((chart for chart in charts if chart["figure"] in HIGHER_IS_BETTER), None)
    if chart is None or query.highlighted or len(chart["series"]) <= MANY:
        return None
    lasts = {key: last for key, last in lasts_of(chart).items() if key not in query.hidden}
    keys = sorted(lasts, key=lambda key: -lasts[key].value)[:MAX_BEST]
    return Best(tuple(keys), chart["figure"])
