"""Fisher's exact test, against the definition computed with whole numbers."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest

from episodes.figures.comparison.success_test import exact_test, largest_significant
from tests.rows import each


def by_definition(successes: int, attempts: int, others: int, other_attempts: int) -> float:
    total = successes + others
    chances = {
        count: Fraction(
            comb(attempts, count) * comb(other_attempts, total - count),
            comb(attempts + other_attempts, total),
        )
        for count in range(max(0, total - other_attempts), min(total, attempts) + 1)
    }
    return float(sum(chance for chance in chances.values() if chance <= chances[successes]))


@each(
    ("successes", "attempts", "others", "other_attempts"),
    [(4, 4, 0, 4), (3, 4, 1, 4), (2, 4, 2, 4), (0, 1, 0, 9), (30, 32, 17, 40), (5, 300, 40, 200)],
)
def test_it_is_exact(successes: int, attempts: int, others: int, other_attempts: int) -> None:
    counts = (successes, attempts, others, other_attempts)
    assert exact_test(*counts) == pytest.approx(by_definition(*counts))


def test_many_attempts_do_not_overflow() -> None:
    assert exact_test(90_000, 100_000, 10_000, 100_000) == 0.0
    assert exact_test(50_000, 100_000, 50_000, 100_000) == pytest.approx(1.0)


@each(
    ("ps", "largest"),
    [
        ([], 0.0),
        ([0.03], 0.03),
        ([0.03, 0.9], 0.0),
        ([0.01, 0.04, 0.03, 0.005], 0.01),
        ([0.02] + [1.0] * 57, 0.0),
        ([0.0, 0.6], 0.0),
    ],
)
def test_of_several_tasks_noise_makes_none_significant(ps: list[float], largest: float) -> None:
    assert largest_significant(ps) == largest
