"""Tests of the figures of a task's attempts."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from environments.models import Environment, Task, TaskStatistics
from environments.scoring.convention import Convention, coverage_of
from environments.scoring.success_interval import Interval
from environments.scoring.task_buckets import Thresholds
from environments.scoring.task_statistics import Statistics, TaskResult, result_of, statistics_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def task() -> Task:
    environment = Environment.objects.create(name="math")
    return Task.objects.create(environment=environment, content_hash="1", spec="1")


def counted(task: Task, by: str = "all", key: str = "", **changes: Any) -> TaskStatistics:
    values: dict[str, Any] = {
        "attempts": 4,
        "scored": 2,
        "successes": 1,
        "return_total": 1.5,
        "rate": 0.25,
    }
    place = {"task": task, "environment": task.environment, "by": by, "key": key}
    return TaskStatistics.objects.create(
        **place, return_low=0.5, return_high=1.0, **(values | changes)
    )


def test_it_counts_all_attempts(task: Task) -> None:
    counted(task)
    expected = TaskResult(
        key="",
        coverage=coverage_of({"": 4}, Convention()),
        n=4,
        scored=2,
        successes=1,
        mean=0.75,
        low=0.5,
        high=1.0,
        bucket="learnable",
    )
    assert statistics_of(task, Thresholds()) == Statistics(expected, (), ())


def test_a_task_without_attempts_is_unseen(task: Task) -> None:
    overall = statistics_of(task, Thresholds()).overall
    assert (overall.n, overall.mean, overall.low, overall.high, overall.success) == (
        0,
        None,
        None,
        None,
        None,
    )
    assert (overall.interval, overall.bucket) == (Interval(0.0, 1.0), "unseen")


def test_attempts_without_return_have_no_mean(task: Task) -> None:
    row = counted(task, scored=0, return_total=0.0, successes=0, rate=0.0)
    result = result_of(row, Thresholds(), Convention())
    assert (result.mean, result.bucket) == (None, "hopeless")


def test_runs_and_models_with_most_attempts_come_first(
    task: Task, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for key, attempts in [("b", 5), ("a", 5), ("c", 9)]:
        counted(task, "run", key, attempts=attempts)
        counted(task, "model", key.upper(), attempts=attempts)
    with django_assert_num_queries(3):
        found = statistics_of(task, Thresholds())
    assert [run.key for run in found.runs] == ["c", "a", "b"]
    assert [model.key for model in found.models] == ["C", "A", "B"]
