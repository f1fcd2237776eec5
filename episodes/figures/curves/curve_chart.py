"""Curves as the numbers that a chart and a CSV file show. Used by the pages that have a chart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from environments.display.numbers import plain, threshold_text
from environments.display.visible import visible
from environments.files.csv_lines import csv_line
from environments.filtering.parameters import WholeRange
from episodes.attempts.file_headers import COVERAGE_COLUMNS, coverage_values
from episodes.figures.block_queries import Axis
from episodes.figures.curves.curve_points import CurvePoint
from episodes.figures.curves.curve_series import (
    ChartSeries,
    ComponentLine,
    CurveCharts,
    GroupLine,
    ScalarChart,
)
from episodes.figures.curves.figure_menu import (
    AXIS_TITLES,
    BAND_OF_RUNS,
    BANDS,
    BY_DEFINITION,
    EXTREMES,
    EXTREMES_OF_RUNS,
    OF_REPORTS,
    PHASES,
    REPORTED_COMPONENTS,
    SCALAR,
    UNITS,
    Figure,
)
from episodes.figures.curves.phases import Phase
from episodes.figures.curves.run_groups import mean_curve
from episodes.figures.curves.smoothing import Smoothing
from episodes.runs.scalar_summaries import ScalarSummary

MAX_BANDS = 2
"""Lines that all have bands of percentiles; of more, only highlighted ones do."""
MAX_NARROW_BANDS = 8
"""Lines that all have narrower bands: intervals of a mean, and deviations over the runs of a
group."""
_FIELDS: dict[str, tuple[str, ...]] = {
    "return": ("mean", "p10", "p90"),
    "success": ("success", "success_low", "success_high"),
    "length": ("length_mean", "length_p10", "length_p90"),
    "errors": ("tool_errors",),
    "refused": ("refused_calls",),
    "deviation": ("group_deviation",),
    "flat": ("flat_share",),
}
"""Attributes of a point by figure: the value, and the lower and upper end of its band, if it has
one."""
_EXTREMES: dict[str, tuple[str, str]] = {
    "return": ("lowest", "highest"),
    "length": ("shortest", "longest"),
}
"""Attributes of a point that are the ends of its light band."""
_RESTS_ON = {"return": "scored", "deviation": "groups", "flat": "groups"}
"""Attribute of a point that counts what its value rests on, where that is not the number of
attempts."""
_COLUMNS = (
    "x",
    "x_to",
    "n",
    "scored",
    "mean",
    "error",
    "p10",
    "p90",
    "lowest",
    "highest",
    "successes",
    "success",
    "success_low",
    "success_high",
    "length_mean",
    "length_p10",
    "length_p90",
    "shortest",
    "longest",
    "episodes",
    "first_end",
    "last_end",
    "ends",
    "groups",
    "flat_groups",
    "flat_share",
    "tool_errors",
    "refused_calls",
    "group_deviation",
)
MIN_DRAWN = 1e-12
"""A smaller size is what rounding leaves of 0 (`figures.js`)."""
TOKEN_COLUMNS = ("tokens_known", "input_tokens", "output_tokens")


class _Point(NamedTuple):
    value: float | None
    n: int
    """Number of what the value rests on."""
    low: float | None = None
    """Ends of the band around the value."""
    high: float | None = None
    extremes: tuple[float | None, float | None] | None = None
    """Ends of the light band; None without one."""


class _Place(NamedTuple):
    """Where a point is on the x axis."""

    x: float
    x_to: float
    behind: dict[str, str] | None = None
    """Parameters that narrow the filter of its curve to its episodes; None: its training steps."""
    attempts: int | None = None
    """Number of these; None if they were not counted."""


def charts_of(drawing: CurveCharts) -> list[dict[str, Any]]:
    """Return the JSON object of each chart, which `static/orsweb/chart.js` draws."""
    query, charts = drawing.query, list[dict[str, Any]]()
    revisions = [{"x": mark.x, "text": mark.revision.label} for mark in drawing.marks]
    for figure in drawing.figures:
        band = BAND_OF_RUNS if drawing.groups else BANDS.get(figure, "")
        extremes = EXTREMES_OF_RUNS if drawing.groups else EXTREMES.get(figure, "")
        unit = _unit(drawing, figure)
        charts.append(
            {
                "figure": figure,
                "unit": unit,
                "yTitle": _y_title(drawing, figure, unit),
                "place": visible(drawing.place),
                "isReported": figure in OF_REPORTS,
                "isShare": figure in ("success", "flat"),
                "band": band,
                "extremes": extremes,
                "notes": _notes(drawing, figure),
                "caption": _caption(drawing, figure),
                "series": _lines(drawing, figure),
            }
        )
    for scalar in drawing.scalars:
        labels = ", ".join(line.label for line, _ in scalar.lines)
        charts.append(
            {
                "figure": f"{SCALAR}{scalar.name}",
                "unit": visible(scalar.name),
                "yTitle": visible(scalar.name),
                "place": "",
                "isReported": False,
                "isShare": False,
                "band": BAND_OF_RUNS if drawing.groups else "",
                "extremes": EXTREMES_OF_RUNS if drawing.groups else scalar.extremes,
                "notes": [*scalar.notes, f"Smoothing: {query.smoothing}."],
                "caption": [visible(f"{scalar.name} of {labels}")],
                "series": _scalar_lines(drawing, scalar),
            }
        )
    for chart in charts:
        has_percentiles = not drawing.groups and chart["figure"] in _EXTREMES
        chart |= {
            "x": query.x,
            "xTitle": AXIS_TITLES[query.x],
            "log": query.is_log and any(value > MIN_DRAWN for value in _values(chart["series"])),
            "band": chart["band"] if query.has_band else "",
            "extremes": chart["extremes"] if drawing.has_extremes else "",
            "maxBands": MAX_BANDS if has_percentiles else MAX_NARROW_BANDS,
            "isSmoothed": query.smoothing.is_on,
            "phaseNote": PHASES if len(drawing.phases) > 1 else "",
            "marks": [*revisions, *_phase_marks(drawing.phases, chart["figure"])],
        }
    return charts


def log_notes(charts: Sequence[dict[str, Any]]) -> list[str]:
    """Return what a reader of these charts, for which a logarithmic scale was chosen, has to know
    about the values that it has no place for."""
    notes = []
    for chart in charts:
        hidden_count = sum(value <= MIN_DRAWN for value in _values(chart["series"]))
        if not chart["log"]:
            notes.append(f"No {chart['unit']} is above 0, so its scale stays linear.")
        elif hidden_count:
            points = f"{hidden_count:,} point{'' if hidden_count == 1 else 's'}"
            notes.append(f"Log scale: {points} of the {chart['unit']} at or below 0 are hidden.")
    return notes


def _values(lines: Sequence[dict[str, Any]]) -> Iterator[float]:
    for line in lines:
        yield from (point["y"] for point in line["points"] if point["y"] is not None)


def _phase_marks(phases: Sequence[Phase], figure: str) -> Iterator[dict[str, Any]]:
    """Yield a mark where each phase but the first begins, with what the figure was before it and is
    in it."""
    levels: dict[str, Callable[[Phase], str]] = {
        "return": lambda phase: plain(phase.mean or 0.0, 2),
        "success": lambda phase: f"{phase.success or 0.0:.0%}",
        "length": lambda phase: plain(phase.length_mean or 0.0, 2),
    }
    level = levels.get(figure)
    for before, phase in pairwise(phases):
        change = f": {level(before)} → {level(phase)}" if level else ""
        yield {"x": phase.x, "text": f"{phase.x:.0f}{change}"}


def _unit(drawing: CurveCharts, figure: Figure) -> str:
    """Return the unit of the y axis, with the definition of the return where it is the same for all
    curves."""
    returns = {definition.return_ for definition in drawing.definitions}
    if figure in BY_DEFINITION and len(returns) == 1 and None not in returns:
        return f"{UNITS[figure]} ({returns.pop()})"
    return UNITS[figure]


def _y_title(drawing: CurveCharts, figure: Figure, unit: str) -> str:
    is_partial = figure == "components" and any(
        line.share is not None and line.share < 1 for line in drawing.components
    )
    if is_partial:
        unit = unit.replace(UNITS[figure], "mean where reported")
    return unit[:1].upper() + unit[1:]


def _notes(drawing: CurveCharts, figure: Figure) -> list[str]:
    """Return the sentences about the lines of a chart that a figure for papers has below it."""
    definition, steps, notes = drawing.definition, drawing.steps_of_a_point, list[str]()
    if figure == "success" and definition:
        notes.append(f"Success: return above {threshold_text(definition.threshold)}.")
    if figure == "components":
        notes.append(REPORTED_COMPONENTS)
    if steps > 1:
        notes.append(f"Each point averages up to {steps:,} training steps.")
    notes += [drawing.failed_note] if drawing.failed_note else []
    return [*notes, f"Smoothing: {drawing.query.smoothing}."]


def _caption(drawing: CurveCharts, figure: Figure) -> list[str]:
    """Return the lines about a chart in the program that draws it: what it shows, the definition,
    and the coverage of each curve."""
    series = drawing.series
    texts = []
    for line in series:
        coverage = line.tokens.total if figure == "tokens" and line.tokens else line.coverage
        if coverage:
            texts.append((line.label, coverage.text))
    labels = ", ".join(line.label for line in series)
    returns = str(drawing.definition)
    if not drawing.definition:
        each = zip(series, drawing.definitions, strict=False)
        returns = ", ".join(f"{line.label}: {definition}" for line, definition in each)
    lines = [f"{UNITS[figure].capitalize()} of {labels}", f"Return: {returns}"]
    lines += [text if len(texts) == 1 else f"{label}: {text}" for label, text in texts]
    return [visible(line) for line in lines]


def _lines(drawing: CurveCharts, figure: Figure) -> list[dict[str, Any]]:
    """Return the lines of a chart: a line for each curve, or for each component of each curve."""
    smoothing, lines = drawing.query.smoothing, []
    if figure == "components":
        for line in drawing.components:
            points = [
                _Point(part.mean, part.n, *(interval if drawing.query.has_band else ()))
                for part, interval in zip(
                    line.component.points, line.component.intervals, strict=True
                )
            ]
            lines.append(_line(line, line.of, points, smoothing, _places(line.of)))
        return lines
    if drawing.groups:
        return [_group_line(group, figure, drawing) for group in drawing.groups]
    return [
        _line(series, series, _points(series, figure, drawing), smoothing, _places(series))
        | {"usual": series.usual_returns if figure == "return" else None}
        for series in drawing.series
    ]


def _scalar_lines(drawing: CurveCharts, scalar: ScalarChart) -> list[dict[str, Any]]:
    """Return the line of each run, or the mean of each group; values that are no numbers are
    gaps."""
    query = drawing.query
    if drawing.groups:
        curves = {
            line.key: [
                (float(point.start), float(point.end), point.mean if point.numbers else None)
                for point in curve.points
            ]
            for line, curve in scalar.lines
        }
        return [
            _mean_line(group, [curves.get(line.key, []) for line in group.members], drawing)
            for group in drawing.groups
        ]

    def ends(point: ScalarSummary) -> tuple[float | None, float | None]:
        return (point.low, point.high) if point.numbers else (None, None)

    lines = []
    for line, curve in scalar.lines:
        points = [
            _Point(
                point.mean if point.numbers else None,
                point.numbers,
                extremes=ends(point) if drawing.has_extremes else None,
            )
            for point in curve.points
        ]
        places = [_Place(point.start, point.end) for point in curve.points]
        lines.append(_line(line, line, points, query.smoothing, places))
    return lines


def _group_line(group: GroupLine, figure: Figure, drawing: CurveCharts) -> dict[str, Any]:
    """Return the line of the mean of a group's runs."""
    curves = [
        [
            (place.x, place.x_to, point.value)
            for place, point in zip(
                series.curve.points, _points(series, figure, drawing), strict=False
            )
        ]
        for series in group.members
    ]
    return _mean_line(group, curves, drawing)


def _mean_line(
    group: GroupLine,
    curves: Sequence[Sequence[tuple[float, float, float | None]]],
    drawing: CurveCharts,
) -> dict[str, Any]:
    """Return the mean of the curves of a group's runs, whose band is one standard deviation wide on
    either side."""
    query = drawing.query
    points = mean_curve(curves, query.x)
    means = query.smoothing.of([point.mean for point in points])
    widths = query.smoothing.of([point.deviation if query.has_band else None for point in points])
    return {
        **_names(group, group.key),
        "runs": len(group.members),
        "query": "",
        "points": [
            {
                "x": point.x,
                "xTo": point.x_to,
                "y": mean,
                "low": None if mean is None or width is None else mean - width,
                "high": None if mean is None or width is None else mean + width,
                "deviation": width,
                **({"min": point.lowest, "max": point.highest} if drawing.has_extremes else {}),
                **({"raw": point.mean} if query.smoothing.is_on else {}),
                "n": point.n,
            }
            for point, mean, width in zip(points, means, widths, strict=True)
        ],
    }


def _names(line: ChartSeries | ComponentLine | GroupLine, curve: str) -> dict[str, Any]:
    """Return what a line is called, and how it looks. `curve`: key of the curve of which it is a
    part."""
    return {
        "key": line.key,
        "curve": curve,
        "name": line.label,
        "label": visible(line.label),
        "colour": line.colour,
        "dash": line.dash,
        "failed": 0 if isinstance(line, ComponentLine) else line.failed,
        "share": line.share if isinstance(line, ComponentLine) else None,
    }


def _line(
    line: ChartSeries | ComponentLine,
    series: ChartSeries,
    points: list[_Point],
    smoothing: Smoothing,
    places: Sequence[_Place],
) -> dict[str, Any]:
    """Return a line of a curve, whose values `points` has in the order of its places. What no point
    has is left out."""
    values = [point.value for point in points]
    columns: dict[str, Sequence[Any]] = {
        "x": [place.x for place in places],
        "xTo": [place.x_to for place in places],
        "y": smoothing.of(values),
        "n": [point.n for point in points],
    }
    optional: dict[str, Sequence[Any]] = {
        "low": smoothing.of([point.low for point in points]),
        "high": smoothing.of([point.high for point in points]),
        "raw": values if smoothing.is_on else (),
        "min": [point.extremes[0] for point in points if point.extremes],
        "max": [point.extremes[1] for point in points if point.extremes],
        "attempts": [place.attempts for place in places],
        "behind": [place.behind for place in places],
    }
    columns |= {
        name: column for name, column in optional.items() if any(v is not None for v in column)
    }
    return {
        **_names(line, series.key),
        "query": series.filter.to_query(**series.parts),
        "points": [
            dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
        ],
    }


def _points(series: ChartSeries, figure: Figure, drawing: CurveCharts) -> list[_Point]:
    if figure == "tokens":
        tokens = series.tokens.points if series.tokens else ()
        return [_Point(point.output_tokens, point.known) for point in tokens]
    value, *ends = _FIELDS[figure]
    low, high = ends if ends and drawing.query.has_band else ("", "")
    extremes = _EXTREMES.get(figure) if drawing.has_extremes else None

    def value_of(point: CurvePoint, name: str) -> float | None:
        return getattr(point, name) if name else None

    return [
        _Point(
            value_of(point, value),
            getattr(point, _RESTS_ON.get(figure, "n")),
            value_of(point, low),
            value_of(point, high),
            extremes and (value_of(point, extremes[0]), value_of(point, extremes[1])),
        )
        for point in series.curve.points
    ]


def _places(series: ChartSeries) -> list[_Place]:
    axis = series.curve.axis
    return [
        _Place(point.x, point.x_to, _end_numbers(point, axis), point.n)
        for point in series.curve.points
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


def csv_of(drawing: CurveCharts) -> Iterator[str]:
    """Yield the lines of a CSV file: one for each point, without smoothing, then one for each value
    of a scalar, at its step. Times are seconds since the epoch."""
    names = list(dict.fromkeys(line.component.name for line in drawing.components))
    tokens = TOKEN_COLUMNS if "tokens" in drawing.query.figures else ()
    own = [
        *("series", *_COLUMNS, *COVERAGE_COLUMNS, "run_state", *tokens),
        *(f"component:{name}" for name in names),
    ]
    yield csv_line([*own, *(f"{SCALAR}{scalar.name}" for scalar in drawing.scalars)])
    for series in drawing.series:
        components = series.components.series if series.components else []
        parts = {component.name: component.points for component in components}
        for place, point in enumerate(series.curve.points):
            yield csv_line(
                [
                    series.label,
                    *(getattr(point, name) for name in _COLUMNS),
                    *coverage_values(point.coverage),
                    series.run_state,
                    *(series.tokens.points[place][1:] if series.tokens else ()),
                    *(parts[name][place].mean if name in parts else None for name in names),
                    *(None for _ in drawing.scalars),
                ]
            )
    for number, scalar in enumerate(drawing.scalars):
        before, after = len(own) - 3 + number, len(drawing.scalars) - 1 - number
        for line, curve in scalar.lines:
            for part in curve.points:
                value = part.mean if part.numbers else "NaN"
                places = [line.label, part.start, part.end]
                yield csv_line([*places, *[None] * before, value, *[None] * after])
