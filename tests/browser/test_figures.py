"""Scripts write numbers as the server does."""

from __future__ import annotations

from playwright.sync_api import Page

from environments.display.numbers import signed

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
  const series = [{ name: "zeros", hue: 0, dash: [], points }];
  drawChart(canvas, { x: "episode", unit: "return", log: false, band: false, series, caption: [] });
  return Chart.getChart(canvas).scales.y.max;
}"""
"""Draws what rounding leaves of zero; returns the top of the chart."""
LEFT = """async (values) => {
  const ticks = values.map((value) => ({ value }));
  (await import('/static/orsweb/chart.js')).dropCovered(ticks);
  return ticks.map(({ value }) => value);
}"""
"""Returns the numbers of an axis that are left when those that would cover a neighbour are
dropped."""


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
    assert page.evaluate(FLAT) == 1
    for values, left in (
        ([19, 20, 40, 60, 61], [20, 40, 60]),
        ([0, 20, 40, 60, 75], [0, 20, 40, 60, 75]),
    ):
        assert page.evaluate(LEFT, values) == left
