"""Tests of what paired differences say, against figures that are computed in another way."""

from __future__ import annotations

import math
from random import Random
from statistics import fmean, stdev

import pytest

from episodes.figures.comparison.paired_statistics import MAX_RESAMPLED, evidence_of, sign_test
from tests.rows import each


@each(("wins", "losses"), [(0, 0), (0, 1), (3, 3), (9, 1), (13, 4), (200, 260)])
def test_the_sign_test_is_exact(wins: int, losses: int) -> None:
    count = wins + losses
    tail = sum(math.comb(count, place) for place in range(min(wins, losses) + 1))
    assert sign_test(wins, losses) == pytest.approx(min(1.0, 2 * tail / 2**count))


def test_the_bootstrap_agrees_with_the_normal_interval_where_both_hold() -> None:
    random = Random(5)
    differences = [random.gauss(0.2, 1.0) for _ in range(MAX_RESAMPLED)]
    resampled, normal = evidence_of(differences), evidence_of([*differences, fmean(differences)])
    assert (resampled.is_resampled, normal.is_resampled) == (True, False)
    assert (resampled.low, resampled.high) == pytest.approx((normal.low, normal.high), abs=0.02)
    assert resampled == evidence_of(differences)


def test_an_interval_of_few_skewed_differences_stays_within_them() -> None:
    found = evidence_of([0.0, 0.0, 0.0, 0.0, 1.0])
    assert 0 <= found.low < found.difference < found.high <= 1
    assert not found.is_significant


def test_the_effect_and_the_number_that_would_show_it() -> None:
    differences = [0.5, -0.3, 0.4, 0.1, -0.2, 0.3]
    found = evidence_of(differences)
    assert found.effect == pytest.approx(fmean(differences) / stdev(differences))
    assert found.needed == math.ceil((2.8015852 / found.effect) ** 2)
    assert found.more == found.needed - 6 > 0 and not found.is_significant


def test_equal_differences_are_significant_without_a_deviation() -> None:
    found = evidence_of([0.25] * 3)
    assert (found.low, found.high, found.effect, found.is_significant, found.more) == (
        0.25,
        0.25,
        None,
        True,
        0,
    )


def test_without_a_difference_no_number_of_tasks_would_show_one() -> None:
    found = evidence_of([1.0, -1.0, 0.0])
    assert (found.needed, found.more, found.is_significant, found.p) == (None, 0, False, 1.0)
