"""Tests of change points: noise has next to none, and a change of level is found where it begins."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from episodes.figures.curves.change_points import change_points

SERIES = 500
MOST_ALARMS = 10
"""2 % of SERIES; about 1 % is meant."""

Noise = Callable[[random.Random, int], float]
"""Returns the mean of as many observations of noise."""


def normal(dice: random.Random, count: int) -> float:
    return dice.gauss(5.0, count**-0.5)


def successes(dice: random.Random, count: int) -> float:
    return sum(dice.random() < 0.3 for _ in range(count)) / count


@pytest.mark.parametrize("noise", [normal, successes])
@pytest.mark.parametrize("points", [15, 40, 100])
def test_noise_around_a_level_has_next_to_no_change_points(noise: Noise, points: int) -> None:
    dice, alarms = random.Random(20), 0
    for _ in range(SERIES):
        weights = [dice.randint(8, 40) for _ in range(points)]
        series = [[noise(dice, weight) for weight in weights] for _ in range(3)]
        alarms += bool(change_points(series, weights))
    assert alarms <= MOST_ALARMS


@pytest.mark.parametrize("place", [10, 30, 50])
def test_a_change_of_one_series_is_found_where_it_begins(place: int) -> None:
    dice = random.Random(20)
    levels = [5.0 if x < place else 7.0 for x in range(60)]
    series = [[level + normal(dice, 16) for level in levels], [normal(dice, 16) for _ in levels]]
    assert change_points(series, [16] * 60) == [place]


def test_a_rise_and_a_fall_are_two_change_points() -> None:
    dice = random.Random(20)
    levels = [0.2] * 20 + [0.7] * 20 + [0.05] * 20
    rates = [sum(dice.random() < level for _ in range(32)) / 32 for level in levels]
    assert change_points([rates], [32] * 60) == [20, 40]


def test_equal_values_have_no_change_points() -> None:
    assert change_points([[0.5] * 40], [1] * 40) == []


def test_few_points_have_no_change_points() -> None:
    assert change_points([[0.0] * 5 + [9.0] * 6], [1] * 11) == []
