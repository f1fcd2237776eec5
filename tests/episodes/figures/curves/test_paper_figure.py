"""Figures for papers: the file of what is drawn, the script, and what the script draws."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client
from pytest import MonkeyPatch

from episodes.figures.curves import pages, paper_figure
from tests.episodes.ended import end_episode
from tests.rows import each
from tests.stored import make_run

pytestmark = pytest.mark.django_db
CURVES = "/runs/curves/"
NAMES = ("=a $x$ <b>", "_second", "third")


def address(format_: str, **more: str) -> str:
    """Return the address of a figure of three runs, of which the third is hidden."""
    runs = [make_run(name) for name in NAMES]
    for run in runs:
        for step in (1, 2):
            end_episode(step * 1e9, run=run, run_step=step)
    values = {"runs": ",".join(str(run.pk) for run in runs), "hidden": str(runs[2].pk)}
    values |= {"x": "step", "y": "return,success", "format": format_, **more}
    return f"{CURVES}?{urlencode(values)}"


def test_its_data_are_the_points_of_the_lines_that_are_shown(client: Client) -> None:
    answer = client.get(address("data", smooth="0.5"))
    assert answer["Content-Disposition"] == 'attachment; filename="curves-data.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    of_return = [row for row in rows if row["chart"] == "return"]
    assert [(row["line"], row["x"], row["n"]) for row in of_return] == [
        *(("0", "1", "1"), ("0", "2", "1")),
        *(("1", "1", "1"), ("1", "2", "1")),
    ]
    assert float(of_return[1]["y"]) == pytest.approx(1e9 * 5 / 3)  # as it is drawn: smoothed


@each(
    ("format_", "start", "kind"),
    [
        ("svg", b"<?xml", "image/svg+xml"),
        ("pdf", b"%PDF", "application/pdf"),
        ("png", b"\x89PNG", "image/png"),
    ],
)
def test_it_is_drawn_with_legend_and_titles(
    client: Client, format_: str, start: bytes, kind: str
) -> None:
    answer = client.get(address(format_, size="5x2"))
    assert answer.content.startswith(start) and answer["Content-Type"] == kind
    if format_ == "svg":
        picture = answer.content.decode()
        for text in ("=a $x$ &lt;b&gt;", "_second", "Training step", "Return (sum), math", "1G"):
            assert f">{text}<" in picture
        assert "third" not in picture
        height = re.search(r'width="360pt" height="([\d.]+)pt"', picture)
        assert height and float(height[1]) > 2 * 2 * 72  # below two charts are note and legend


def test_a_label_cannot_become_a_line_of_the_script(client: Client) -> None:
    end_episode(1.0, model="x\nraise SystemExit\r# '")
    script = client.get(f"{CURVES}?by=model&format=py").content.decode()
    assert not re.search(r"^\s*raise", script, re.MULTILINE)
    compile(script, "curves.py", "exec")


def test_the_script_draws_the_data_with_what_the_page_highlights(client: Client) -> None:
    script = client.get(address("py", group="nothing")).content.decode()
    compile(script, "curves.py", "exec")
    assert "SIZE = (7.0, 3." in script and "'Return: sum" in script
    highlighted = client.get(address("py", highlight=str(make_run("_second").pk)))
    drawn = r"\('_second', '#\w{6}', \(\), 2.0, 1.0, 3, True, False\)"
    assert re.search(drawn, highlighted.content.decode())


def note_of(script: str) -> str:
    """Return the sentences below the charts, and the labels of the legend."""
    constants: dict[str, Any] = {}
    exec(script[: script.index("import csv")], constants)
    labels = [line[0] for line in constants["LINES"]["return"]]
    return " ".join([constants["NOTE"].replace("\n", " "), *labels])


def test_it_says_what_bands_and_smoothing_are_and_how_many_runs_a_group_has(
    client: Client,
) -> None:
    note = note_of(client.get(address("py", smooth="0.5")).content.decode())
    for sentence in (
        "Band of the return: 10th to 90th percentile.",
        "Band of the success rate: 95% interval.",
        "Success: return above 0.9.",
        "Smoothing: exponential average of strength 0.5.",
    ):
        assert sentence in note
    alone = note_of(client.get(address("py", band="no")).content.decode())
    assert "Band" not in alone and "Smoothing: none." in alone
    grouped = note_of(client.get(address("py", group="nothing", hidden="")).content.decode())
    assert "mean and standard deviation over the runs" in grouped
    assert "no nothing (3 runs)" in grouped


def test_it_has_the_axis_the_markers_and_the_raw_values_of_the_page(
    client: Client, monkeypatch: MonkeyPatch
) -> None:
    query = address("py", smooth="0.5")
    constants: dict[str, Any] = {}
    script = client.get(query).content.decode()
    exec(script[: script.index("import csv")], constants)
    assert constants["CHARTS"]["return"] == ("Return (sum), math", "linear", (1e9, 2e9))
    assert constants["CHARTS"]["success"][2] == (0.0, 1.0)
    assert [line[5] for line in constants["LINES"]["return"]] == [3, 3]
    answer = client.get(query.replace("format=py", "format=data")).content.decode()
    rows = list(csv.DictReader(io.StringIO(answer)))
    assert [float(row["raw"]) for row in rows[:2]] == [1e9, 2e9]
    monkeypatch.setattr(paper_figure, "MAX_MARKED", 2)
    assert ", 0, True, False)" in client.get(query).content.decode()


MEASURE = """
from matplotlib.backends.backend_agg import FigureCanvasAgg
canvas = FigureCanvasAgg(figure)
canvas.draw()
extent = figure.legends[0].get_window_extent(canvas.get_renderer())
print(*extent.extents, *figure.bbox.size, *(axes.bbox.height for axes in figure.axes))
"""


@each("size", ["3.4x2.4", "7x3", "1.5x1.5"])
@each("group", ["", "learning_rate,temperature"])
def test_the_legend_lies_within_the_picture(
    client: Client, tmp_path: Path, size: str, group: str
) -> None:
    runs = []
    for number in range(4):
        run = make_run(f"{number}-of-repair-grpo-with-a-name-of-40-chars"[:40])
        run.config = json.dumps({"learning_rate": 0.00003 + number // 2, "temperature": 0.7})
        run.state = "failed" if number % 2 else "ended"
        run.save()
        runs.append(str(run.pk))
        end_episode(1.0, run=run, run_step=1)
        end_episode(1.0, run=run, run_step=2)
    values = {"runs": ",".join(runs), "x": "step", "y": "return", "size": size, "group": group}
    values["smooth"] = "0.5"
    for format_, name in (("data", "curves-data.csv"), ("py", "curves.py")):
        answer = client.get(f"{CURVES}?{urlencode({**values, 'format': format_})}")
        (tmp_path / name).write_bytes(answer.content)
    script = (tmp_path / "curves.py").read_text()
    assert not group or "(2 runs, 1 failed)" in script
    (tmp_path / "curves.py").write_text(script + MEASURE)
    command = [sys.executable, "curves.py", "figure.svg"]
    printed = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    left, bottom, right, top, width, height, chart = map(float, printed.stdout.split())
    assert 0 <= left < right <= width and 0 <= bottom < top <= height
    assert chart > 0.3 * float(size.split("x")[1]) * 100  # the legend takes nothing from it


@each("size", ["3", "0x3", "3x21", "ax3"])
def test_a_size_that_no_figure_has_is_refused(client: Client, size: str) -> None:
    answer = client.get(address("svg", size=size))
    assert answer.status_code == 400 and "3.4x2.4" in answer.content.decode()


def test_a_png_of_too_many_pixels_is_refused(client: Client, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(paper_figure, "MAX_PIXELS", 1_500_000)
    answer = client.get(address("png", size="5x2"))
    page = answer.content.decode()
    assert answer.status_code == 400 and "5x2" in page
    assert "5 by 4.5 in, which are 1.9 million pixels; a PNG has at most 1.5 million" in page


def test_a_script_of_any_length_is_drawn(client: Client, monkeypatch: MonkeyPatch) -> None:
    write = paper_figure.figure_script
    monkeypatch.setattr(paper_figure, "figure_script", lambda *of: write(*of) + "#" * 2**17)
    assert client.get(address("svg")).content.startswith(b"<?xml")


def test_figures_are_drawn_in_turn_and_none_waits_long(
    client: Client, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(paper_figure, "MAX_WAIT_SECONDS", 0)
    with paper_figure.drawing_lock:
        answer = client.get(address("svg"))
    assert answer.status_code == 503
    assert "Another figure is being drawn; try again." in answer.content.decode()


@each(
    ("name", "value"),
    [("figure_script", lambda *_: "raise SystemExit('_second')"), ("TIMEOUT_SECONDS", 0)],
)
def test_a_figure_that_fails_is_logged_without_its_data(
    client: Client,
    monkeypatch: MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    value: object,
) -> None:
    monkeypatch.setattr(paper_figure, name, value)
    answer = client.get(address("svg"))
    assert answer.status_code == 503 and "could not be drawn" in answer.content.decode()
    assert "figure_not_drawn" in caplog.text and "_second" not in caplog.text
    assert not paper_figure.drawing_lock.locked()


def test_without_matplotlib_there_are_data_and_script(
    client: Client, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "can_draw", lambda: False)
    refused = client.get(address("pdf"))
    assert refused.status_code == 400 and "orsweb[figures]" in refused.content.decode()
    page = client.get(address("")).content.decode()
    assert 'value="py"' in page and 'value="svg"' not in page
