"""Sketches of distributions: exact for few values, and close for many."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from random import Random

import pytest

from episodes.attempts.sketches import (
    MAX_VALUES,
    above,
    compressed,
    count_of,
    error_of,
    mean_of,
    merged,
    quantile,
    scatter_of,
    sketch_of,
    without,
)
from tests.rows import each

NORMAL = [random.gauss(0, 1) for random in [Random(3)] for _ in range(2000)]
KINDS = {
    "normal": NORMAL,
    "half of them one": [1.0 if n % 2 else value for n, value in enumerate(NORMAL)],
    "far tails": [value**5 for value in NORMAL],
    "one outlier": [0.0] * 500 + [1e290],
    "all different": [float(n) for n in range(129)],
}


def test_few_values_stay_as_they_are() -> None:
    sketch = sketch_of([1.0, 0.0, 1.0, 0.5])
    assert compressed(sketch) == sketch == [(0.0, 1), (0.5, 1), (1.0, 2)]


@each("values", KINDS.values(), ids=KINDS)
def test_many_become_few_with_the_same_mean(values: list[float]) -> None:
    small = compressed(sketch_of(values), [0.5])
    assert len(small) <= MAX_VALUES
    assert count_of(small) == len(values)
    assert mean_of(small) == pytest.approx(sum(values) / len(values))
    assert list(small) == sorted(small)


@each("values", KINDS.values(), ids=KINDS)
def test_the_lowest_and_the_highest_stay_exact_however_often_it_is_merged(
    values: list[float],
) -> None:
    halves = (compressed(sketch_of(part)) for part in (values[:250], values[250:]))
    small = compressed(merged(halves))
    assert (small[0][0], small[-1][0]) == (min(values), max(values))


@each("values", KINDS.values(), ids=KINDS)
@each("share", [0.1, 0.5, 0.9])
def test_a_quantile_is_off_by_a_group_at_most(values: list[float], share: float) -> None:
    found, ordered = quantile(compressed(sketch_of(values)), share), sorted(values)
    assert found is not None
    low, high = (
        bisect_left(ordered, found) / len(values),
        bisect_right(ordered, found) / len(values),
    )
    assert low - 1 / 16 <= share <= high + 1 / 16


@each("edge", [-0.7, 0.0, 0.5, 1.0])
@each("values", KINDS.values(), ids=KINDS)
def test_the_share_above_the_edge_stays_exact(values: list[float], edge: float) -> None:
    edges = sorted({edge, 0.9})
    parts = [compressed(sketch_of(values[start::4]), edges) for start in range(4)]
    assert above(compressed(merged(parts), edges), edge) == sum(value > edge for value in values)


def test_a_value_that_many_share_stays_itself() -> None:
    assert dict(compressed(sketch_of(KINDS["half of them one"])))[1.0] == 1000


def test_nothing_has_no_mean_and_no_quantile() -> None:
    assert mean_of([]) is quantile([], 0.5) is error_of([]) is error_of([(1.0, 1)]) is None


def test_the_error_of_the_mean_is_the_samples() -> None:
    assert error_of([(0.0, 2), (1.0, 2)]) == pytest.approx((1 / 3 / 4) ** 0.5)


def test_huge_values_have_an_error_too() -> None:
    assert error_of([(-1e290, 1), (1e290, 1)]) == pytest.approx(1e290)


@each("values", KINDS.values(), ids=KINDS)
def test_the_error_stays_exact_in_a_compressed_sketch_and_without_some_values(
    values: list[float],
) -> None:
    fine = sketch_of(values)
    small, scatter = compressed(fine), scatter_of(fine, compressed(fine))
    assert error_of(small, scatter) == pytest.approx(error_of(fine))
    left, rest = without(small, scatter, values[10:120:3])
    assert error_of(left, rest) == pytest.approx(
        error_of(
            sketch_of(values[:10] + values[10:120][1::3] + values[10:120][2::3] + values[120:])
        )
    )
