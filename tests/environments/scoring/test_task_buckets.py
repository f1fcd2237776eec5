"""Which bucket a task is in, by the Python function and by the database's conditions."""

from __future__ import annotations

import pytest
from django.db.models.expressions import RawSQL

from environments import conf
from environments.models import Environment, Task, TaskStatistics
from environments.scoring.success_interval import interval
from environments.scoring.task_buckets import (
    BUCKETS,
    Bucket,
    Thresholds,
    bucket_of,
    bucket_sql,
    statistics_in,
    tasks_in,
)
from tests.rows import each

STRICT = Thresholds(hopeless=0.0, saturated=1.0, attempts=4)
WIDE = Thresholds(hopeless=0.1, saturated=0.9, attempts=1)

SEEN = [
    (attempts, failures, successes)
    for attempts in (1, 3, 4, 10, 100)
    for failures in (0, 3, 4, 10)
    for successes in {0, 1, attempts - 1, attempts}
]
"""Attempts, failures and successes of each task."""


@each(
    ("attempts", "failures", "rate", "thresholds", "bucket"),
    [
        (0, 0, 0.0, STRICT, "unseen"),
        (0, 1, 0.0, STRICT, "failing"),
        (3, 3, 1.0, STRICT, "learnable"),
        (4, 4, 1.0, STRICT, "failing"),
        (5, 4, 1.0, STRICT, "saturated"),
        (1, 2, 0.0, WIDE, "failing"),
        (3, 0, 0.0, STRICT, "learnable"),
        (3, 0, 1.0, STRICT, "learnable"),
        (4, 0, 0.0, STRICT, "hopeless"),
        (4, 0, 1.0, STRICT, "saturated"),
        (1000, 0, 0.001, STRICT, "learnable"),
        (1000, 0, 0.999, STRICT, "learnable"),
        (10, 0, 0.1, WIDE, "hopeless"),
        (10, 0, 0.2, WIDE, "learnable"),
        (10, 0, 0.9, WIDE, "saturated"),
        (1, 0, 0.0, WIDE, "hopeless"),
    ],
)
def test_it_names_the_bucket(
    attempts: int, failures: int, rate: float, thresholds: Thresholds, bucket: Bucket
) -> None:
    assert bucket_of(attempts, failures, rate, thresholds) == bucket


def test_the_default_thresholds_are_those_of_the_settings() -> None:
    assert conf.thresholds() == Thresholds()


@each(
    ("successes", "attempts", "low", "high"),
    [
        (0, 0, 0.0, 1.0),
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (5, 10, 0.2366, 0.7634),
        (1, 4, 0.0456, 0.6994),
    ],
)
def test_the_interval_is_wilsons(successes: int, attempts: int, low: float, high: float) -> None:
    assert interval(successes, attempts) == pytest.approx((low, high), abs=5e-5)


def test_the_interval_reaches_both_ends_exactly() -> None:
    assert [interval(0, n).low for n in range(200)] == [0.0] * 200
    assert [interval(n, n).high for n in range(200)] == [1.0] * 200


@pytest.fixture
def tasks(db: None) -> dict[int, tuple[int, int, float]]:
    """Return the id of each task -> its attempts, failures and success rate."""
    math = Environment.objects.create(name="math")
    rates: dict[int, tuple[int, int, float]] = {}
    counts = [(0, 0, 0), (0, 0, 0), (0, 1, 0), *SEEN]
    for number, (attempts, failures, successes) in enumerate(counts):
        task = Task.objects.create(environment=math, content_hash=str(number), spec=str(number))
        rates[task.pk] = attempts, failures, successes / (attempts or 1)
        values = {
            "attempts": attempts,
            "scored": attempts,
            "successes": successes,
            "return_total": 0.0,
            "env_error": failures,
            "rate": rates[task.pk][2],
        }
        for by, key in [("all", ""), ("run", "r1")] if attempts or failures else []:
            TaskStatistics.objects.create(task=task, environment=math, by=by, key=key, **values)
    return rates


@each("thresholds", [STRICT, WIDE])
@each("bucket", BUCKETS)
def test_the_database_agrees(
    tasks: dict[int, tuple[int, int, float]], bucket: Bucket, thresholds: Thresholds
) -> None:
    expected = {task for task, counts in tasks.items() if bucket_of(*counts, thresholds) == bucket}
    assert expected
    assert (
        set(Task.objects.filter(tasks_in(bucket, thresholds)).values_list("pk", flat=True))
        == expected
    )
    rows = TaskStatistics.objects.filter(statistics_in(bucket, thresholds))
    assert sorted(rows.values_list("task", flat=True)) == sorted(
        expected if bucket != "unseen" else ()
    )


@pytest.mark.parametrize("thresholds", [STRICT, WIDE])
def test_the_statement_that_counts_agrees(
    tasks: dict[int, tuple[int, int, float]], thresholds: Thresholds
) -> None:
    buckets = RawSQL(bucket_sql("attempts", "env_error", "rate", thresholds), ())
    rows = TaskStatistics.objects.values_list("attempts", "env_error", "rate", buckets)
    for attempts, failures, rate, bucket in rows:
        assert bucket == bucket_of(attempts, failures, rate, thresholds)
