"""Tests of how scalars are stored in chunks, and read with summaries of them."""

from __future__ import annotations

import math
from random import Random

import pytest
from django.db import transaction
from pytest_django import DjangoAssertNumQueries

from episodes.models import Run, ScalarChunk, ScalarSeries
from episodes.runs import scalar_curves as reading
from episodes.runs.scalar_curves import scalar_curves
from episodes.runs.scalar_summaries import POINT, merged, summary_of_point
from episodes.runs.scalars import store_scalars
from tests.stored import make_run

pytestmark = pytest.mark.django_db


def store(run: Run, values: dict[int, float]) -> ScalarSeries:
    with transaction.atomic():
        store_scalars(run, [(step, {"loss": value}) for step, value in values.items()])
    return ScalarSeries.objects.get()


def stored(series: ScalarSeries) -> dict[int, float]:
    chunks = series.chunks.order_by("start")
    return dict(point for chunk in chunks for point in POINT.iter_unpack(chunk.values))


def test_points_in_any_order_are_stored_as_in_one_report() -> None:
    run, random = make_run(), Random(1)
    values = {random.randrange(10**9): random.random() for _ in range(6000)}
    steps = list(values)
    for place in range(0, len(steps), 1500):
        series = store(run, {step: values[step] for step in steps[place : place + 1500]})
    assert stored(series) == dict(sorted(values.items()))
    assert (series.points, series.last_step, series.last) == (
        len(values),
        max(values),
        values[max(values)],
    )
    assert all(chunk.numbers <= 1024 for chunk in series.chunks.all())


def test_a_report_changes_the_last_chunk_alone() -> None:
    run = make_run()
    store(run, dict.fromkeys(range(3000), 1.0))
    first = set(ScalarChunk.objects.order_by("start").values_list("pk", flat=True)[:2])
    series = store(run, {3000: 2.0})
    assert first < set(ScalarChunk.objects.values_list("pk", flat=True))
    assert [chunk.numbers for chunk in series.chunks.order_by("start")] == [1024, 1024, 953]


@pytest.mark.parametrize("most", [40_000, 1000, 100, 10])
def test_every_resolution_has_the_same_ends_means_and_gaps(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_READ", most)
    values = {step: float(step % 7) for step in range(5000)}
    series = store(make_run(), {**values, 77: math.nan, 4000: math.inf})
    [curve] = scalar_curves([series], points=50)
    whole = merged(curve.points)
    assert (whole.start, whole.end, whole.numbers, whole.gaps) == (0, 4999, 4998, 2)
    assert (whole.low, whole.high) == (0.0, 6.0)
    assert whole.mean == pytest.approx((sum(values.values()) - 77 % 7 - 4000 % 7) / 4998)
    assert len(curve.points) <= 50


def test_means_of_the_largest_numbers_are_finite() -> None:
    largest = merged([summary_of_point(step, 1.7e308) for step in range(3)])
    assert largest.mean == 1.7e308


def test_the_database_adds_up_chunks_of_any_numbers_into_as_many_points_as_are_drawn(
    monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    monkeypatch.setattr(reading, "MAX_READ", 10)
    values = [1.7e308, 1e-320, math.nan, -1.0]
    numbers = {step: values[step // 1024 % 4] for step in range(4096)}
    series = store(make_run(), {step + 10**9: value for step, value in numbers.items()})
    with django_assert_num_queries(2):  # of which one has a row for each point
        [curve] = scalar_curves([series], points=5)
    means = [(point.numbers, point.gaps, point.mean) for point in curve.points]
    assert means == [(1024, 0, 1.7e308), (1024, 0, 1e-320), (0, 1024, 0.0), (1024, 0, -1.0)]
    [curve] = scalar_curves([series], points=2, low=10**9 + 1024, high=10**9 + 4095)
    assert merged(curve.points).numbers == 2048 and len(curve.points) <= 2
