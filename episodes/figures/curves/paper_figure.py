"""Figures for papers: what charts show as a file of numbers, as a script that draws it with
matplotlib, and as the drawing that the script makes.

The script runs in a process of its own: matplotlib keeps global state and 60 MB of memory, and
what people download is what drew their figure. It is an extra: `pip install "orsweb[figures]"`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from math import ceil, inf
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, NamedTuple

import structlog

from environments.display.formats import percent
from environments.errors import OrsError
from environments.files.csv_lines import csv_line
from environments.filtering.parameters import BadFilter
from episodes.figures.curves.axis_limits import limits_of
from episodes.figures.curves.curve_chart import MIN_DRAWN
from episodes.figures.curves.curve_parameters import CurveQuery
from episodes.figures.curves.curve_rows import MANY
from episodes.figures.curves.figure_menu import AXIS_TITLES
from episodes.rendering.line_colours import ON_WHITE

MAX_MARKED = 60
"""Points of a line from which on they have no markers (`chart.js`)."""
COLUMNS = (
    *("chart", "line", "curve", "x", "x_to", "y", "low", "high", "min", "max", "n", "raw"),
    "failed_runs",
)
DATA = "curves-data.csv"
SCRIPT = "curves.py"
DPI = 288
"""Pixels of an inch of a PNG, three times those of a screen."""
MAX_PIXELS = 50_000_000
"""Pixels of a PNG, each of which takes 4 bytes while it is drawn. No side has more than 2^16, which
matplotlib refuses: 9 charts of MAX_INCHES and the legend of 112 lines are 57,000 high."""
TIMEOUT_SECONDS = 60
MAX_WAIT_SECONDS = 10
"""How long a request holds its thread until it is its turn."""
drawing_lock = Lock()
"""A figure takes a second of CPU time, so figures are drawn one after another."""
log = structlog.get_logger(__name__)
_SCRIPT = """
import csv
import sys
from datetime import datetime, timezone
from textwrap import fill

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

matplotlib.rcParams.update({"font.size": 8, "svg.fonttype": "none", "pdf.fonttype": 42})
matplotlib.rcParams.update({"axes.grid": True, "axes.axisbelow": True, "grid.color": "#e5e7ea"})
matplotlib.rcParams.update({"lines.scale_dashes": False})  # dashes are points, as on the page
matplotlib.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

with open(DATA, newline="", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
figure = Figure(SIZE, layout="constrained")
handles = {}
for axes, (chart, (title, scale, limits)) in zip(
    figure.subplots(*GRID, squeeze=False).flat, CHARTS.items()
):
    for line, (label, color, dashes, width, alpha, marker, has_band, is_cut) in enumerate(LINES[chart]):
        points = [row for row in rows if (row["chart"], row["line"]) == (chart, str(line))]
        x, y, low, high, least, most, raw = (
            [float(row[name] or "nan") for row in points]
            for name in ("x", "y", "low", "high", "min", "max", "raw")
        )
        if X == "Time (UTC)":
            x = [datetime.fromtimestamp(second, timezone.utc) for second in x]
        style = {"color": color, "alpha": alpha, "linewidth": width, "clip_on": False}
        style |= {"marker": "o" if marker else None, "markersize": marker, "zorder": 2 + alpha}
        [drawn] = axes.plot(x, y, linestyle=(0, dashes) if dashes else "-", **style)
        axes.plot(x, raw, color=color, alpha=0.35 * alpha, linewidth=0.6)
        if label:
            handles[label] = drawn
        if is_cut:
            drawn.set_clip_on(True)
            for at, value in zip(x, y):
                if value > limits[1] or value < limits[0]:
                    arrow, end = ("\u2191", 1) if value > limits[1] else ("\u2193", 0)
                    place = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
                    place |= {"xytext": (0, 2 if end else -7), "fontsize": 6, "color": color}
                    axes.annotate(f"{arrow} {value:.3g}", (at, end), ha="center", **place)
        if has_band:
            axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
            colors = {"facecolor": (color, 0.07), "edgecolor": (color, 0.4)}
            axes.fill_between(x, least, most, linewidth=0.4, **colors)
    places = [float(row["x"]) for row in rows if row["chart"] == chart]
    reach = (max(places, default=0) - min(places, default=0)) or 1
    ends = []  # of the last text in each row
    for at, text in MARKS[chart]:
        when = datetime.fromtimestamp(at, timezone.utc) if X == "Time (UTC)" else at
        axes.axvline(when, color="#777", linewidth=0.6, linestyle=(0, (6, 4)))
        place = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        start = (at - min(places, default=0)) / reach
        row = next((row for row, end in enumerate(ends) if end < start), len(ends))
        ends[row : row + 1] = [start + (len(text) + 1) * 4 * GRID[1] / (58 * SIZE[0])]
        place |= {"xytext": (2, -6 - 7 * row), "fontsize": 6, "color": "#555"}
        axes.annotate(text.replace("$", "\\\\$"), (when, 1), **place)
    axes.margins(x=0.01)
    axes.set(xlabel=X, ylabel=title, yscale=scale, ylim=limits)
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        if max(abs(low), abs(high)) >= 1e6 and axis.get_scale() == "linear":
            axis.set_major_formatter(EngFormatter(sep=""))
    if X == "Time (UTC)":
        axes.tick_params("x", rotation=30)
if not LEGEND:
    handles = {}
renderer = FigureCanvasAgg(figure).get_renderer()


def draw_legend(labels, note, columns=1, size=8):
    figure.legends.clear()
    legend = figure.legend(
        *(handles.values() if labels else [], [label.replace("$", "\\\\$") for label in labels]),
        **{"loc": "outside lower center", "ncols": columns, "frameon": False, "fontsize": size},
        **{"title": note, "title_fontsize": 7},
    )
    extent = legend.get_window_extent(renderer)
    figure.set_figheight(SIZE[1] + extent.height / figure.dpi)
    return extent.width < 0.97 * figure.bbox.width


for length in range(int(SIZE[0] * 22), 0, -1):
    note = fill(NOTE, length)
    if draw_legend([], note):
        break
# whole labels in fewer and fewer columns, then smaller ones, then broken ones
tries = [(columns, 8, 1000) for columns in range(max(1, LEGEND), 0, -1)] + [(1, 7, 1000)]
tries += [(1, 6, length) for length in (1000, *range(int(SIZE[0] * 20), 1, -4))]
for columns, size, length in tries:
    if draw_legend([fill(label, length) for label in handles], note, columns, size):
        break
for name in sys.argv[1:] or ["curves.svg", "curves.pdf"]:
    figure.savefig(name, dpi=DPI)
"""


class NotDrawn(OrsError):
    """A figure cannot be drawn now; the message is a sentence that says why."""


class _Layout(NamedTuple):
    """Where the charts of a picture are, and how large it is."""

    rows: int
    columns: int
    legend_columns: int
    """0 without lines in the legend."""
    note: str
    """The sentences above the legend."""
    width: float
    height: float
    """Of the charts, in inches."""
    legend_height: float
    """About that of note and legend, which the script measures."""

    @classmethod
    def of(cls, charts: Sequence[dict[str, Any]], query: CurveQuery) -> _Layout:
        width, height = query.size
        labels = {
            _legend_label(chart, line, query)
            for chart in charts
            for line in _visible_lines(chart, query)
        }
        rows, columns = (1, len(charts)) if width >= 6 else (len(charts), 1)
        sentences = [
            chart[name]
            for chart in charts
            if any(_bands(chart, query))
            for name in ("band", "extremes")
            if chart[name]
        ]
        sentences += [chart["phaseNote"] for chart in charts if chart["phaseNote"]]
        sentences += [sentence for chart in charts for sentence in _notes(chart, query)]
        note = " ".join(dict.fromkeys(sentences))
        note_height = (len(note) // int(width * 19) + 2) / 8
        if len(labels) < 2:
            return cls(rows, columns, 0, note, width, height * rows, note_height)
        labels.discard("")
        legend_columns = max(1, min(4, int(width * 12 / max(map(len, labels)))))
        legend_height = note_height + ceil(len(labels) / legend_columns) / 6
        return cls(rows, columns, legend_columns, note, width, height * rows, legend_height)


def can_draw() -> bool:
    return find_spec("matplotlib") is not None


def figure_data(charts: Sequence[dict[str, Any]], query: CurveQuery) -> Iterator[str]:
    """Yield the lines of a CSV file: one for each point that the charts show, with what smoothing
    and groups make of it. Times are seconds since the epoch."""
    yield csv_line(COLUMNS)
    for chart in charts:
        for number, line in enumerate(_visible_lines(chart, query)):
            for point in line["points"]:
                names = ("x", "xTo", "y", "low", "high", "min", "max", "n", "raw")
                values = (point.get(name) for name in names)
                yield csv_line([chart["figure"], number, line["label"], *values, line["failed"]])


def figure_script(charts: Sequence[dict[str, Any]], query: CurveQuery) -> str:
    """Return a program that draws the charts from the file `figure_data`."""
    titles, lines, about = {}, {}, list[str]()
    for chart in charts:
        visible = _visible_lines(chart, query)
        highlights = [_is_highlighted(line, query) for line in visible]
        is_thin = len(visible) > MANY
        scale = "log" if chart["log"] else "linear"
        title = ", ".join(filter(None, (chart["yTitle"], chart["place"])))
        titles[chart["figure"]] = (title, scale, _y_limits(chart, query))
        lines[chart["figure"]] = [
            (
                _legend_label(chart, line, query),
                ON_WHITE[line["colour"]],
                tuple(line["dash"]),
                2.0 if is_highlighted else 0.7 if is_thin else 1.2,
                1.0 if is_highlighted else 0.25 if any(highlights) else 0.6 if is_thin else 1.0,
                0 if is_thin or len(line["points"]) >= MAX_MARKED else 3,
                has_band,
                bool(line.get("usual")),
            )
            for line, is_highlighted, has_band in zip(
                visible, highlights, _bands(chart, query), strict=True
            )
        ]
        about += chart["caption"]
    layout = _Layout.of(charts, query)
    constants = {
        "ABOUT": list(dict.fromkeys(about)),
        "DATA": DATA,
        "DPI": DPI,
        "SIZE": (layout.width, layout.height),
        "GRID": (layout.rows, layout.columns),
        "LEGEND": layout.legend_columns,
        "NOTE": layout.note,
        "X": AXIS_TITLES[query.x],
        "MARKS": {
            chart["figure"]: [(mark["x"], mark["text"]) for mark in chart["marks"]]
            for chart in charts
        },
        "CHARTS": titles,
        "LINES": lines,
    }
    head = [
        "# Draws figures with matplotlib 3.8 or later: python curves.py figure.pdf figure.svg",
        "# SIZE: inches of the charts. GRID: rows and columns of charts. LEGEND: its columns if",
        "# they fit, below NOTE. MARKS: places on the x axis where something changed, and texts.",
        "# CHARTS: title of the y axis, scale, limits. LINES: label in the legend, colour, dashes,",
        "# width, opacity, size of its markers, whether its bands are drawn, and whether arrows stand",
        "# for values beyond the axis, in the order of DATA.",
        *(f"{name} = {value!r}" for name, value in constants.items()),
    ]
    return "\n".join(head) + "\n" + _SCRIPT


def figure_picture(charts: Sequence[dict[str, Any]], query: CurveQuery) -> bytes:
    """Return the figure as a file of the kind `query.format`: svg, pdf or png. Raises: BadFilter
    for a PNG that is too large, NotDrawn."""
    layout = _Layout.of(charts, query)
    height = layout.height + layout.legend_height
    pixels = layout.width * height * DPI**2
    if query.format == "png" and pixels > MAX_PIXELS:
        raise BadFilter(
            "size",
            "{:g}x{:g}".format(*query.size),
            f"the picture would be {layout.width:g} by {height:.1f} in, which are "
            f"{pixels / 1e6:,.1f} million pixels; a PNG has at most {MAX_PIXELS / 1e6:g} million, "
            "so choose a smaller size, or SVG or PDF",
        )
    if not drawing_lock.acquire(timeout=MAX_WAIT_SECONDS):
        raise NotDrawn("Another figure is being drawn; try again.")
    try:
        return _picture_of(charts, query)
    except subprocess.SubprocessError as error:
        # its text and what the script printed may hold names of runs
        log.warning("figure_not_drawn", error=type(error).__name__)
        raise NotDrawn("The figure could not be drawn; try again, or download Python.") from None
    finally:
        drawing_lock.release()


def _picture_of(charts: Sequence[dict[str, Any]], query: CurveQuery) -> bytes:
    with TemporaryDirectory(prefix="orsweb-figure-") as directory:
        Path(directory, DATA).write_text("".join(figure_data(charts, query)), encoding="utf-8")
        # as a file: an argument has at most 128 KiB
        Path(directory, SCRIPT).write_text(figure_script(charts, query), encoding="utf-8")
        file = Path(directory, f"figure.{query.format}")
        subprocess.run(  # nosec B603 # the script above
            [sys.executable, "-P", SCRIPT, file.name],
            cwd=directory,
            check=True,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
        )
        return file.read_bytes()


def _y_limits(chart: dict[str, Any], query: CurveQuery) -> tuple[float, float]:
    """Return the ends of the y axis: it has what is drawn, as on the page."""
    if chart["isShare"] and not chart["log"]:
        return 0.0, 1.0
    values = list[float]()
    for line, has_band in zip(_visible_lines(chart, query), _bands(chart, query), strict=True):
        names = ("y", "raw", *(("low", "high", "min", "max") if has_band else ()))
        numbers = (point.get(name) for point in line["points"] for name in names)
        low, high = line.get("usual") or (-inf, inf)
        values += [number for number in numbers if number is not None and low <= number <= high]
    values = [value if abs(value) >= MIN_DRAWN else 0.0 for value in values]
    values = [value for value in values if value > 0 or not chart["log"]]
    return limits_of(values, is_log=chart["log"])


def _legend_label(chart: dict[str, Any], line: dict[str, Any], query: CurveQuery) -> str:
    """Return what the legend calls a line; empty for one of many that is faint behind others."""
    visible = _visible_lines(chart, query)
    is_faint = not _is_highlighted(line, query) and any(
        _is_highlighted(other, query) for other in visible
    )
    if is_faint and len(visible) > MANY:
        return ""
    facts = list[str]()
    if "runs" in line:
        facts.append(f"{line['runs']} run{'' if line['runs'] == 1 else 's'}")
    if line["failed"]:
        facts.append(f"{line['failed']} failed" if "runs" in line else "failed")
    if line["share"] is not None and line["share"] < 1:
        facts.append(f"in {percent(line['share'])}% of attempts")
    return f"{line['label']} ({', '.join(facts)})" if facts else str(line["label"])


def _notes(chart: dict[str, Any], query: CurveQuery) -> list[str]:
    lines = _visible_lines(chart, query)
    faint = sum(not _legend_label(chart, line, query) for line in lines)
    return [f"Thin: the other {faint:,} curves.", *chart["notes"]] if faint else chart["notes"]


def _visible_lines(chart: dict[str, Any], query: CurveQuery) -> list[dict[str, Any]]:
    return [
        line
        for line in chart["series"]
        if line["points"] and {*query.hidden}.isdisjoint((line["key"], line["curve"]))
    ]


def _bands(chart: dict[str, Any], query: CurveQuery) -> list[bool]:
    """Return whether each visible line of a chart has its bands."""
    lines = _visible_lines(chart, query)
    has_few = len(lines) <= chart["maxBands"]
    has_any = bool(chart["band"] or chart["extremes"])
    return [has_any and (has_few or _is_highlighted(line, query)) for line in lines]


def _is_highlighted(line: dict[str, Any], query: CurveQuery) -> bool:
    return not {*query.highlighted}.isdisjoint((line["key"], line["curve"]))
