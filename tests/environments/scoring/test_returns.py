"""A return against a threshold of success, in Python and in the database: the same for every pair
of numbers."""

from __future__ import annotations

import math
import random

import pytest
from django.db import connection

from environments.display.numbers import threshold_text
from environments.scoring.returns import bar_of, floor_of, rounded, rounded_sql
from tests.rows import each


@each(
    "value, threshold, is_above",
    [
        (0.1 + 0.2, 0.3, False),
        (0.3, 0.1 + 0.2, False),
        (0.300000000001, 0.3, True),
        (0.3000000000001, 0.3, False),
        (0.1 + 0.2 - 0.3, 0.0, False),
        (1e-9, 0.0, True),
        (0.0, 0.1 + 0.2 - 0.3, False),
        (-0.3, -0.1 - 0.2, False),
        (-0.1 - 0.2, -0.3, False),
        (0.7 + 0.1, 0.8, False),
        (0.8, 0.7 + 0.1, False),
        (1e290, 1e290, False),
        (1.00000000001, 1.0, True),
    ],
)
def test_a_return_is_above_a_threshold_if_12_digits_say_so(
    value: float, threshold: float, is_above: bool
) -> None:
    assert (value > bar_of(threshold)) is is_above
    assert (rounded(value) > rounded(threshold)) is is_above


def test_the_bar_is_the_largest_number_that_is_no_success() -> None:
    drawn = random.Random(7)
    thresholds = [0.0, 1.0, -1.0, 9.99999999999, 1e-12, -1e-12, 5e-13, 1e290]
    for threshold in thresholds + [
        drawn.uniform(-1, 1) * 10.0 ** drawn.randint(-13, 12) for _ in range(200)
    ]:
        bar = bar_of(threshold)
        assert rounded(bar) <= rounded(threshold) < rounded(math.nextafter(bar, math.inf)), (
            threshold
        )


def test_a_least_return_admits_what_is_rounded_to_it() -> None:
    assert (
        floor_of(0.8) <= 0.1 + 0.7 < 0.8
        and floor_of(0.8) > 0.799999999999
        and floor_of(0.0) <= -5.6e-17
    )


@pytest.mark.django_db
def test_the_database_rounds_in_the_same_way() -> None:
    drawn = random.Random(7)
    values = [sum(drawn.choices((0.1, 0.2, 0.3, -0.7), k=drawn.randint(1, 30))) for _ in range(300)]
    values += [drawn.uniform(-1, 1) * 10.0 ** drawn.randint(-15, 15) for _ in range(300)] + [
        0.0,
        1e290,
        -1e290,
    ]
    sql = rounded_sql("v", is_sqlite=connection.vendor == "sqlite")
    with connection.cursor() as cursor:
        for value in values:
            cursor.execute(
                f"SELECT {sql} FROM (SELECT CAST(%s AS double precision) AS v) AS t", [value]
            )
            assert cursor.fetchone()[0] == pytest.approx(rounded(value), rel=1e-15, abs=0.0), value


@each(
    "threshold, text",
    [
        (0.9, "0.9"),
        (0.1 + 0.2, "0.3"),
        (0.1234567891, "0.1234567891"),
        (1234567.25, "1,234,567.25"),
        (-0.5, "\N{MINUS SIGN}0.5"),
    ],
)
def test_a_threshold_is_written_with_the_digits_that_decide(threshold: float, text: str) -> None:
    assert threshold_text(threshold) == text
