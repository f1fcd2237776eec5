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
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from environments.files.csv_lines import csv_line
from episodes.figures.curves.curve_query import CurveQuery
from episodes.rendering.line_colours import ON_WHITE

TITLES = {"episode": "Episodes", "time": "Time (UTC)", "step": "Training step"}
MAX_BANDS = 2
"""Lines that all have bands; of more, only highlighted ones and means of groups do."""
MAX_THICK = 12
COLUMNS = ("chart", "line", "curve", "x", "x_to", "y", "low", "high", "n")
DATA = "curves-data.csv"
TIMEOUT_SECONDS = 60
_drawing = Lock()
"""A figure takes a second of CPU time, so figures are drawn one after another."""
_SCRIPT = """
import csv
import sys
from datetime import datetime, timezone

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

matplotlib.rcParams.update({"font.size": 8, "svg.fonttype": "none", "pdf.fonttype": 42})
matplotlib.rcParams.update({"axes.grid": True, "grid.color": "#e5e7ea"})
matplotlib.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

with open(DATA, newline="", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
is_wide = SIZE[0] >= 6  # charts beside each other
grid = (1, len(CHARTS)) if is_wide else (len(CHARTS), 1)
labels = dict.fromkeys(line[0].replace("$", "\\$") for lines in LINES.values() for line in lines)
columns = max(1, min(4, int(SIZE[0] * 12 / max(map(len, labels), default=1))))
legend_rows = -(-len(labels) // columns) if len(labels) > 1 else 0
figure = Figure((SIZE[0], SIZE[1] * grid[0] + legend_rows / 6), layout="constrained")
handles = {}
for axes, (chart, (title, scale, limits)) in zip(
    figure.subplots(*grid, squeeze=False).flat, CHARTS.items()
):
    for line, (label, color, dashes, width, alpha, has_band) in enumerate(LINES[chart]):
        points = [row for row in rows if (row["chart"], row["line"]) == (chart, str(line))]
        x, y, low, high = (
            [float(row[name] or "nan") for row in points] for name in ("x", "y", "low", "high")
        )
        if X == "Time (UTC)":
            x = [datetime.fromtimestamp(second, timezone.utc) for second in x]
        style = {"color": color, "alpha": alpha, "linewidth": width}
        [handles[label.replace("$", "\\$")]] = axes.plot(x, y, linestyle=(0, dashes) if dashes else "-", **style)
        if has_band:
            axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
    axes.set(xlabel=X, ylabel=title, yscale=scale, ylim=limits)
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        if max(abs(low), abs(high)) >= 1e6 and axis.get_scale() == "linear":
            axis.set_major_formatter(EngFormatter(sep=""))
    if X == "Time (UTC)":
        axes.tick_params("x", rotation=30)
if legend_rows:
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=columns, frameon=False
    )
for name in sys.argv[1:] or ["curves.svg", "curves.pdf"]:
    figure.savefig(name, dpi=288)  # three times the pixels of a screen
"""


def can_draw() -> bool:
    return find_spec("matplotlib") is not None


def figure_data(charts: Sequence[dict[str, Any]], query: CurveQuery) -> Iterator[str]:
    """Yield the lines of a CSV file: one for each point that the charts show, with what smoothing
    and groups make of it. Times are seconds since the epoch."""
    yield csv_line(COLUMNS)
    for chart in charts:
        for number, line in enumerate(_shown(chart, query)):
            for point in line["points"]:
                values = (point[name] for name in ("x", "xTo", "y", "low", "high", "n"))
                yield csv_line([chart["figure"], number, line["label"], *values])


def figure_script(charts: Sequence[dict[str, Any]], query: CurveQuery) -> str:
    """Return a program that draws the charts from the file `figure_data`."""
    titles, lines, about = {}, {}, list[str]()
    for chart in charts:
        shown = _shown(chart, query)
        has_bands = chart["band"] and (len(shown) <= MAX_BANDS or bool(query.group))
        marked = [_is_highlighted(line, query) for line in shown]
        limits = (0, 1) if chart["isShare"] and not chart["log"] else None
        title = chart["unit"][:1].upper() + chart["unit"][1:]
        titles[chart["figure"]] = (title, "log" if chart["log"] else "linear", limits)
        lines[chart["figure"]] = [
            (
                line["label"],
                ON_WHITE[line["colour"]],
                tuple(line["dash"]),
                2.0 if is_marked else 0.7 if len(shown) > MAX_THICK else 1.2,
                1.0 if is_marked or not any(marked) else 0.3,
                has_bands or (chart["band"] and is_marked),
            )
            for line, is_marked in zip(shown, marked, strict=True)
        ]
        about += chart["caption"]
    constants = {
        "ABOUT": list(dict.fromkeys(about)),
        "DATA": DATA,
        "SIZE": query.size,
        "X": TITLES[query.x],
        "CHARTS": titles,
        "LINES": lines,
    }
    head = [
        "# Draws figures with matplotlib 3.8 or later: python curves.py figure.pdf figure.svg",
        "# SIZE: inches of a chart. CHARTS: title of the y axis, scale, limits. LINES: label,",
        "# colour, dashes, width, opacity and whether the band is drawn, in the order of DATA.",
        *(f"{name} = {value!r}" for name, value in constants.items()),
    ]
    return "\n".join(head) + "\n" + _SCRIPT


def drawn(charts: Sequence[dict[str, Any]], query: CurveQuery) -> bytes:
    """Return the figure as a file of the kind `query.format`: svg, pdf or png."""
    script = figure_script(charts, query)
    with _drawing, TemporaryDirectory(prefix="orsweb-figure-") as directory:
        Path(directory, DATA).write_text("".join(figure_data(charts, query)), encoding="utf-8")
        file = Path(directory, f"figure.{query.format}")
        subprocess.run(  # nosec B603 # the script above
            [sys.executable, "-P", "-c", script, file.name],
            cwd=directory,
            check=True,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
        )
        return file.read_bytes()


def _shown(chart: dict[str, Any], query: CurveQuery) -> list[dict[str, Any]]:
    return [
        line
        for line in chart["series"]
        if line["points"] and {*query.hidden}.isdisjoint((line["key"], line["curve"]))
    ]


def _is_highlighted(line: dict[str, Any], query: CurveQuery) -> bool:
    return not {*query.highlighted}.isdisjoint((line["key"], line["curve"]))
