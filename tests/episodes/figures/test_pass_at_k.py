"""pass@k is the share of all choices of k attempts in which one succeeded."""

from __future__ import annotations

from itertools import combinations
from math import comb

import pytest

from environments.scoring.success_interval import interval
from episodes.figures.pass_at_k import pass_at, pass_rates
from tests.rows import each


@each("attempts", range(1, 7))
def test_it_is_the_share_of_choices_with_a_success(attempts: int) -> None:
    for successes in range(attempts + 1):
        outcomes = [True] * successes + [False] * (attempts - successes)
        for k in range(1, attempts + 1):
            choices = [any(choice) for choice in combinations(outcomes, k)]
            assert pass_at(k, attempts, successes) == pytest.approx(sum(choices) / len(choices))


def test_large_numbers_are_no_trouble() -> None:
    assert pass_at(512, 100_000, 30) == pytest.approx(1 - comb(99_970, 512) / comb(100_000, 512))


def test_all_are_means_of_the_same_tasks() -> None:
    found = pass_rates([(1, 1, 2), (2, 0, 1), (4, 1, 3)])
    assert [(one.k, one.tasks) for one in found] == [(1, 3), (2, 3), (4, 3)]
    assert [one.rate for one in found] == pytest.approx([1 / 4, 1 / 2, 1.0])


def test_it_goes_as_far_as_half_of_the_tasks_have_attempts() -> None:
    assert [(one.k, one.tasks) for one in pass_rates([(1, 1, 4), (8, 0, 3)])] == [(1, 7)]


def test_an_interval_takes_tasks_as_observations() -> None:
    [once] = pass_rates([(1, 1, 30), (1, 0, 10)])
    assert (once.low, once.high) == pytest.approx(interval(30, 40))
    *_, four = pass_rates([(4, 4, 30), (4, 0, 10)])
    assert (four.low, four.high) == pytest.approx(interval(30, 40))


def test_more_attempts_at_tasks_that_are_alike_narrow_it() -> None:
    one, two = pass_rates([(4, 1, 20), (4, 2, 20)])[:2]
    assert one.high - one.low < interval(15, 40).high - interval(15, 40).low
    assert two.rate == pytest.approx((0.5 + 5 / 6) / 2) and two.low < two.rate < two.high


def test_without_tasks_there_is_none() -> None:
    assert pass_rates([]) == []
