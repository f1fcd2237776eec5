"""What ended lately, from the rows that the follower keeps."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from episodes.activity import SPANS, fitting_span, lately
from episodes.derived import Activity

HOUR, DAY, MONTH = SPANS
NOW = 1_700_000_123.0

pytestmark = pytest.mark.django_db


def make_activity(ago_seconds: float, period: int = 3600, environment: int = 1, **values: Any) -> None:
    start = int(NOW - ago_seconds) // period * period
    Activity.objects.create(period=period, start=start, environment_id=environment, **values)


def test_every_bucket_is_there_oldest_first() -> None:
    make_activity(0, episodes=2, steps=9)
    make_activity(3 * 3600, episodes=1)
    found = lately(DAY, NOW)
    assert [bucket.episodes for bucket in found.buckets] == [0] * 20 + [1, 0, 0, 2]
    assert (found.episodes, found.steps) == (3, 9)


def test_a_bucket_ends_where_the_next_begins() -> None:
    buckets = lately(HOUR, NOW).buckets
    assert all(one.until == other.start for one, other in pairwise(buckets))
    assert buckets[-1].start.timestamp() <= NOW < buckets[-1].until.timestamp()


def test_environments_are_added_up() -> None:
    make_activity(0, episodes=2, attempts=2, successes=1)
    make_activity(0, environment=2, episodes=3, attempts=2, successes=2)
    found = lately(DAY, NOW)
    assert (found.episodes, found.attempts, found.successes, found.rate) == (5, 4, 3, 0.75)


def test_what_is_older_is_left_out() -> None:
    make_activity(24 * 3600, episodes=7)
    assert lately(DAY, NOW).episodes == 0


def test_endings_are_told_by_cause_and_probes_as_such() -> None:
    make_activity(0, episodes=6, finished=3, abandoned=1, probes=2)
    assert lately(DAY, NOW).endings == [("finished", 3), ("abandoned", 1), ("probe", 2)]


def test_failures_are_those_of_the_machinery_the_most_frequent_first() -> None:
    make_activity(0, episodes=9, expired=4, setup_failed=1, env_error=3, interrupted=1)
    assert lately(DAY, NOW).failures == [("env_error", 3), ("setup_failed", 1), ("interrupted", 1)]
    assert lately(DAY, NOW).buckets[-1].failures == 5


def test_a_bucket_without_attempts_has_no_success() -> None:
    make_activity(0, episodes=1, probes=1)
    assert lately(DAY, NOW).buckets[-1].success is None


def test_a_span_takes_one_query(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(1):
        lately(MONTH, NOW)


@pytest.mark.parametrize(("ago", "period", "span"), [(600, 60, HOUR), (7200, 3600, DAY), (9 * 86400, 86400, MONTH)])
def test_the_shortest_span_with_enough_in_it_fits(ago: float, period: int, span: object) -> None:
    make_activity(ago, period, episodes=10)
    assert fitting_span(NOW) == span


def test_the_day_fits_where_little_happened() -> None:
    make_activity(0, 60, episodes=9)
    assert fitting_span(NOW) == DAY
