"""Scripts write numbers as the server does."""

from __future__ import annotations

from itertools import pairwise

import pytest
from playwright.sync_api import Page

from environments.display.numbers import signed
from episodes.figures.curves.axis_limits import limits_of

SMALL = [
    0.0,
    0.075,
    0.015,
    0.125,
    0.625,
    -0.005,
    -0.0,
    -1.4e-17,
    0.0049,
    0.00123,
    5e-05,
    9.96e-05,
    0.995,
]
VALUES = [
    *SMALL,
    1234.5,
    999999.994,
    1e6,
    1234567.0,
    1125000.0,
    999999999.0,
    4.56e14,
    1.2e18,
    -3e290,
]


FLAT = """async () => {
  const canvas = document.createElement("canvas");
  document.querySelector("main").append(canvas);
  const { drawChart } = await import("/static/orsweb/chart.js");
  const points = [5.5e-17, -0, -1.4e-17].map((y, x) => ({ x, xTo: x, y, low: null, high: null, n: 1 }));
  const series = [{ key: "zeros", label: "zeros", colour: 0, dash: [], points }];
  drawChart(canvas, { x: "episode", unit: "return", log: false, band: "", extremes: "", maxBands: 2, series });
  return Chart.getChart(canvas).scales.y.max;
}"""
"""Draws what rounding leaves of zero; returns the top of the chart."""
AXIS = """async ([name, low, high, most, options]) => {
  const axes = await import("/static/orsweb/chart_axes.js");
  const { ticks, ...ends } = axes[`${name}Axis`](low, high, most, options);
  return [ends.low, ends.high, axes[name === "time" ? "timeTicks" : "numberTicks"](ticks)];
}"""
"""Returns the ends of an axis and what stands at its ticks."""
DAY, HOUR = 86_400, 3_600


def test_scripts_write_returns_as_the_server_does_and_a_chart_an_error_of_rounding_as_zero(
    page: Page,
) -> None:
    page.goto("/runs/curves/")
    written = page.evaluate(
        "async (values) => values.map((await import('/static/orsweb/figures.js')).signed)",
        VALUES,
    )
    assert written == [signed(value) for value in VALUES]
    drawn = page.evaluate(
        "async () => [-0, -1.4e-17, -0.5, 1234567].map((await "
        "import('/static/orsweb/chart.js')).number)"
    )
    assert drawn == ["0", "0", "\N{MINUS SIGN}0.5", "1.23M"]
    assert page.evaluate(FLAT) == 0.6


AXES = [
    (["linear", 1, 100, 6, {"least": 1}], 0, 100, ["0", "20", "40", "60", "80", "100"]),
    (["linear", 0, 39, 5, {"least": 1}], 0, 40, ["0", "10", "20", "30", "40"]),
    (
        ["linear", 10_001, 100_000, 5],
        10_001,
        100_000,
        ["20,000", "40,000", "60,000", "80,000", "100,000"],
    ),
    (["linear", 1, 3, 9, {"least": 1}], 1, 3, ["1", "2", "3"]),
    (["round", -0.07, 0.31, 5], -0.1, 0.4, ["\N{MINUS SIGN}0.1", "0", "0.1", "0.2", "0.3", "0.4"]),
    (["round", 1.1, 3.2, 13], 1, 3.5, ["1.0", "1.5", "2.0", "2.5", "3.0", "3.5"]),
    (["linear", 0, 1.4e10, 3], 0, 1.4e10, ["0", "5B", "10B"]),
    (["linear", 7, 7, 3], 6.5, 7.5, ["7"]),
    (["log", 0.8, 12, 9], 0.5, 20, ["0.5", "1", "2", "5", "10", "20"]),
    (["log", 3, 4e6, 9], 2, 5e6, ["10", "100", "1,000", "10,000", "100,000", "1M"]),
    (["log", 12, 14, 5], 10, 20, ["10", "12", "14", "16", "18", "20"]),
    (["time", 0, 3 * HOUR, 4], 0, 3 * HOUR, ["01-01 00:00", "01:00", "02:00", "03:00"]),
    (["time", 20 * HOUR, 30 * HOUR, 3], 20 * HOUR, 30 * HOUR, ["01-02 00:00", "06:00"]),
    (["time", 0, 10 * DAY, 3], 0, 10 * DAY, ["01-01", "01-06", "01-11"]),
]


def test_axes_have_round_ticks(page: Page) -> None:
    page.goto("/runs/curves/")
    for axis, low, high, texts in AXES:
        assert page.evaluate(AXIS, axis) == [low, high, texts]


def test_figures_for_papers_have_the_same_y_axis(page: Page) -> None:
    page.goto("/runs/curves/")
    values = [0.001, 0.03, 0.3, 1.0, 1.1, 4.2, 77.0, 1e6, 2.5e9]
    for low, high in pairwise(values):
        for name, is_log in (("round", False), ("log", True)):
            ends = page.evaluate(AXIS, [name, low, high, 9, {}])[:2]
            assert ends == pytest.approx(limits_of([low, high], is_log=is_log))
