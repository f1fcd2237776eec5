"""Curves as the numbers that a chart and a CSV file show. Used by the pages that have a chart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from environments.display.visible import visible
from environments.filtering.parameters import WholeRange
from episodes.analytics.block_queries import Axis
from episodes.analytics.curve import Curve, CurvePoint
from episodes.analytics.curve_series import ComponentLine, Drawn
from episodes.analytics.figure_menu import BY_DEFINITION, UNITS, Figure
from episodes.analytics.smoothing import Smoothing
from episodes.transfer.csv_lines import COVERAGE_COLUMNS, coverage_values, csv_line

_FIELDS: dict[str, tuple[str, str, str]] = {
    "return": ("mean", "p10", "p90"),
    "success": ("success", "success_low", "success_high"),
    "length": ("length_mean", "length_p10", "length_p90"),
    "errors": ("tool_errors", "", ""),
    "refused": ("refused_calls", "", ""),
    "deviation": ("group_deviation", "", ""),
    "flat": ("flat_share", "", ""),
}
"""Attributes of a point by figure: the value, and the lower and upper end of its band, if it has
one."""
_RESTS_ON = {"return": "scored", "deviation": "groups", "flat": "groups"}
"""Attribute of a point that counts what its value rests on, where that is not the number of
attempts."""
_COLUMNS = (
    *(
        "x",
        "x_to",
        "n",
        "scored",
        "mean",
        "error",
        "p10",
        "p90",
        "successes",
        "success",
        "success_low",
    ),
    *(
        "success_high",
        "length_mean",
        "length_p10",
        "length_p90",
        "episodes",
        "first_end",
        "last_end",
        "ends",
    ),
    *("groups", "flat_groups", "flat_share", "tool_errors", "refused_calls"),
    "group_deviation",
)

TOKEN_COLUMNS = ("tokens_known", "input_tokens", "output_tokens")


def charts_of(found: Drawn) -> list[dict[str, Any]]:
    """Return the JSON object of each chart, which `static/orsweb/chart.js` draws."""
    return [_chart(found, figure) for figure in found.figures]


def _chart(found: Drawn, figure: Figure) -> dict[str, Any]:
    asked = found.query
    return {
        "figure": figure,
        "x": asked.x,
        "unit": _unit(found, figure),
        "isShare": figure in ("success", "flat"),
        "log": asked.is_log,
        "band": found.has_bands,
        "isSmoothed": asked.smoothing.is_on,
        "marks": [{"x": mark.x, "text": mark.revision.label} for mark in found.marks],
        "caption": _caption(found, figure),
        "series": _LINES.get(figure, _series)(found, figure),
    }


def _unit(found: Drawn, figure: Figure) -> str:
    """Return the unit of the y axis, with the definition of the return where it is the same for all
    curves."""
    unit, [first, *others] = UNITS[figure], [one.return_ for one in found.definitions]
    is_common = first is not None and all(other == first for other in others)
    return f"{unit} ({first})" if figure in BY_DEFINITION and is_common else unit


def _series(found: Drawn, figure: Figure) -> list[dict[str, Any]]:
    return [
        {
            "name": one.label,
            "label": visible(one.label),
            "hue": one.hue,
            "dash": one.dash,
            "query": one.filter.to_query(**one.parts),
            "points": _points(one.curve, figure, found.query.smoothing),
        }
        for one in found.series
    ]


def _component_series(found: Drawn, figure: Figure) -> list[dict[str, Any]]:
    return [
        {
            "name": line.label,
            "label": visible(line.label),
            "hue": line.hue,
            "dash": line.dash,
            "query": line.of.filter.to_query(**line.of.parts),
            "points": _component_points(line, found.query.smoothing),
        }
        for line in found.components
    ]


def _caption(found: Drawn, figure: Figure) -> list[str]:
    """Return the lines under an image of the chart: what it shows, the definition, and the coverage
    of each curve."""
    shown = ", ".join(one.label for one in found.series)
    rests = (
        (one.label, one.tokens.total if figure == "tokens" and one.tokens else one.coverage)
        for one in found.series
    )
    covered = [(label, coverage.text) for label, coverage in rests if coverage]
    lines = [text if len(covered) == 1 else f"{label}: {text}" for label, text in covered]
    smooth = [f"Smoothed: {found.query.smoothing}"] if found.query.smoothing.is_on else []
    each = [
        f"{one.label}: {definition}"
        for one, definition in zip(found.series, found.definitions, strict=False)
    ]
    returns = str(found.definition) if found.definition else ", ".join(each)
    lines = [f"{UNITS[figure].capitalize()} of {shown}", f"Return: {returns}", *smooth, *lines]
    return [visible(line) for line in lines]


def _component_points(line: ComponentLine, smoothing: Smoothing) -> list[dict[str, Any]]:
    values = smoothing.of([part.mean for part in line.component.points])
    each = zip(line.of.curve.points, line.component.points, values, strict=True)
    return [
        {
            **{"x": point.x, "xTo": point.x_to, "y": value, "low": None, "high": None},
            **({"raw": part.mean} if smoothing.is_on else {}),
            "n": part.n,
            **{"attempts": point.n, "behind": _end_numbers(point, line.of.curve.axis)},
            "coverage": point.coverage.text,
        }
        for point, part, value in each
    ]


def _token_series(found: Drawn, figure: Figure) -> list[dict[str, Any]]:
    """Return the lines of `_series` with the tokens as their points."""
    lines = _series(found, "return")
    for line, one in zip(lines, found.series, strict=True):
        tokens = one.tokens.points if one.tokens else []
        values = found.query.smoothing.of([part.output_tokens for part in tokens])
        for point, part, value in zip(line["points"], tokens, values, strict=True):
            point |= {"y": value, "low": None, "high": None, "n": part.known, "coverage": part.text}
            if found.query.smoothing.is_on:
                point["raw"] = part.output_tokens
    return lines


_LINES: dict[Figure, Callable[[Drawn, Figure], list[dict[str, Any]]]] = {
    "components": _component_series,
    "tokens": _token_series,
}


def _points(found: Curve, figure: Figure, smoothing: Smoothing) -> list[dict[str, Any]]:
    points = found.points
    raw, *ends = (
        [getattr(point, name) for point in points] if name else [None] * len(points)
        for name in _FIELDS[figure]
    )
    middles, lows, highs = (smoothing.of(values) for values in (raw, *ends))
    rests_on, is_on, axis = attrgetter(_RESTS_ON.get(figure, "n")), smoothing.is_on, found.axis
    return [
        {
            "x": point.x,
            "xTo": point.x_to,
            "y": middle,
            "low": low,
            "high": high,
            **({"raw": value} if is_on else {}),
            "n": rests_on(point),
            "attempts": point.n,
            "behind": _end_numbers(point, axis),
            "coverage": point.coverage.text,
        }
        for point, value, middle, low, high in zip(points, raw, middles, lows, highs, strict=True)
    ]


def _end_numbers(point: CurvePoint, axis: Axis) -> dict[str, str]:
    """Return the parameters that narrow the filter of a curve to the episodes of one point."""
    if len(point.ends) > 1:
        ends = {"ends": str(point.ends)}
    else:
        ends = {"ends_from": str(point.first_end), "ends_to": str(point.last_end)}
    if axis == "step":
        ends["step"] = str(WholeRange(int(point.x), int(point.x_to)))
    return ends


def csv_of(found: Drawn) -> Iterator[str]:
    """Yield the lines of a CSV file: one for each point, without smoothing. Times are seconds since
    the epoch."""
    names = list(dict.fromkeys(line.component.name for line in found.components))
    tokens = TOKEN_COLUMNS if "tokens" in found.query.figures else ()
    yield csv_line(
        ["series", *_COLUMNS, *COVERAGE_COLUMNS, *tokens, *(f"component:{name}" for name in names)]
    )
    for one in found.series:
        parts = {part.name: part.points for part in one.components.series} if one.components else {}
        for place, point in enumerate(one.curve.points):
            means = (parts[name][place].mean if name in parts else None for name in names)
            figures = (getattr(point, name) for name in _COLUMNS)
            told = one.tokens.points[place][1:] if one.tokens else ()
            yield csv_line([one.label, *figures, *coverage_values(point.coverage), *told, *means])
