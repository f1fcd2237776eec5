"""Tests of the ends of y axes; `tests/browser/test_figures.py` compares them with those of pages."""

from __future__ import annotations

from episodes.figures.curves.axis_limits import limits_of
from tests.rows import each


@each(
    ("values", "is_log", "limits"),
    [
        ([0.03, 0.88], False, (0.0, 1.0)),
        ([-0.07, 0.31], False, (-0.1, 0.4)),
        ([2.0], False, (1.0, 3.0)),
        ([0.0], False, (-0.6, 0.6)),
        ([], False, (0.0, 1.0)),
        ([0.8, 12.0], True, (0.5, 20.0)),
        ([5.0], True, (2.5, 10.0)),
        ([], True, (0.1, 10.0)),
    ],
)
def test_ends_are_round(values: list[float], is_log: bool, limits: tuple[float, float]) -> None:
    assert limits_of(values, is_log=is_log) == limits
