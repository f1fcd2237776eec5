"""Sparklines, as a template draws them."""

from __future__ import annotations

import re

import pytest

from episodes.templatetags.charts import MAX_POINTS, sparkline


def lines(svg: str) -> list[list[tuple[float, float]]]:
    found = re.findall(r'points="([^"]+)"', svg)
    return [
        [(float(x), float(y)) for x, y in (pair.split(",") for pair in line.split())]
        for line in found
    ]


def test_it_goes_up_where_values_rise() -> None:
    assert lines(sparkline([0.0, 1.0], width=100, height=20)) == [[(1.5, 18.5), (98.5, 1.5)]]


def test_it_leaves_a_gap_where_nothing_is_known() -> None:
    assert [len(line) for line in lines(sparkline([1.0, 2.0, None, 3.0]))] == [2, 2]


def test_a_fixed_scale_keeps_a_flat_line_where_it_belongs() -> None:
    assert lines(sparkline([0.0, 0.0], low=0.0, high=1.0, height=20))[0][0][1] == 18.5


def test_it_averages_what_has_no_pixel_of_its_own() -> None:
    assert len(lines(sparkline([float(n % 7) for n in range(10_000)]))[0]) == MAX_POINTS


@pytest.mark.parametrize("points", [[], [None], [float("nan")]])
def test_it_is_empty_without_values(points: list[float | None]) -> None:
    assert "polyline" not in sparkline(points)


def test_it_bears_values_whose_difference_runs_over() -> None:
    assert "nan" not in sparkline([-1.7e308, float("inf"), 1.7e308])


def test_its_label_is_text() -> None:
    assert 'aria-label="&lt;b&gt;"' in sparkline([1.0], label="<b>")
