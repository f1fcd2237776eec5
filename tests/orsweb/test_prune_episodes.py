"""`manage.py prune_episodes` removes what its filter finds, and says so first."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from environments.models import TaskStatistics
from episodes.models import Blob, Episode, Removal
from tests.episodes.ended import count_statistics, end_episode
from tests.rows import each
from tests.stored import make_blob, make_environment, make_episode, make_step

pytestmark = pytest.mark.django_db(transaction=True)


def prune(**options: Any) -> str:
    out = StringIO()
    call_command("prune_episodes", stdout=out, no_input=True, **options)
    return out.getvalue()


def left() -> list[int]:
    return list(Episode.objects.order_by("pk").values_list("pk", flat=True))


def test_it_removes_by_age() -> None:
    _old = end_episode(created=timezone.now() - timedelta(days=91))
    young = end_episode(created=timezone.now() - timedelta(days=89))
    assert "1 episode with 2 steps would be removed: math (1)." in prune(older_than="90d")
    assert left() == [young.pk]


def test_it_removes_by_the_filter_of_the_pages() -> None:
    kept = end_episode(environment=make_environment("code"))
    end_episode()
    prune(query="environment=math&ending=finished")
    assert left() == [kept.pk]


def test_bounds_that_leave_something_out_are_a_filter() -> None:
    kept = end_episode(created=timezone.now(), steps_count=9)
    end_episode(created=timezone.now(), steps_count=3)
    prune(query="steps_to=3&since=7d")
    assert left() == [kept.pk]
    prune(query="steps_from=0", all=True)
    assert left() == []


@each(
    ("query", "bounds"),
    [
        ("steps_from=0", "steps_from=0"),
        ("steps_to=9999", "steps_to=9999"),
        ("since=0001-01-01", "since=0001-01-01"),
        ("since=99999w", "since=99999w"),
        ("since=1d", "since=1d"),
        ("return_from=-1e300", "return_from=-1e+300"),
        ("ends_from=0", "ends_from=0"),
        ("ends=0..9223372036854775807", "ends=0..9223372036854775807"),
        ("return=sum&steps_from=0&since=7d", "steps_from=0 and since=7d"),
    ],
)
def test_bounds_that_leave_nothing_out_are_no_filter(query: str, bounds: str) -> None:
    end_episode(created=timezone.now())
    with pytest.raises(CommandError) as refused:
        prune(query=query)
    assert str(refused.value).startswith(
        f"No ended episode is outside of {bounds}. Say which episodes to remove"
    )
    assert Episode.objects.exists()


def test_it_removes_the_oldest_until_the_rest_fits() -> None:
    episodes = [end_episode() for _ in range(5)]
    for episode in episodes:
        make_step(episode, text="x" * 10_000)
    prune(keep_size="25kB")
    assert left() == [episode.pk for episode in episodes[-2:]]


def test_a_dry_run_removes_nothing() -> None:
    episode = end_episode()
    assert "Nothing was removed." in prune(query="environment=math", dry_run=True)
    assert (left(), Removal.objects.count()) == ([episode.pk], 0)


def test_it_counts_statistics_again_and_deletes_blobs() -> None:
    episode = end_episode(prompt=make_blob("prompt"))
    count_statistics()
    assert "1 blob deleted." in prune(query="environment=math", reason="a test run")
    removal = Removal.objects.get()
    assert (TaskStatistics.objects.count(), Blob.objects.count(), left()) == (0, 0, [])
    assert (removal.query, removal.reason, removal.episodes) == (
        "environment=math",
        "a test run",
        1,
    )
    assert removal.last_episode == episode.pk


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "Say which episodes to remove"),
        ({"query": "environment=maths"}, "maths"),
        ({"older_than": "soon"}, "soon"),
        ({"older_than": "1d", "query": "until=2d"}, "both set an end"),
        ({"older_than": "0d"}, "--older-than='0d' cannot be used: .* a span before now"),
        (
            {"older_than": "2999-01-01"},
            "--older-than='2999-01-01' cannot be used: it has to be a span before now",
        ),
        ({"older_than": ""}, "--older-than='' cannot be used"),
        ({"older_than": "-1d"}, "--older-than='-1d' cannot be used"),
        ({"query": "until=2999-01-01"}, "until='2999-01-01' cannot be used: it is after now"),
        ({"query": "environment=math&until=9999-12-31T23:59:59-14:00"}, "it is after now"),
        ({"query": "environment=math&run="}, "run='' cannot be used: it is blank"),
        ({"query": "run=+", "all": True}, "run=' ' cannot be used: it is blank"),
        ({"query": "run=a&run=b"}, "it also has the value 'a'"),
        ({"query": "return=sum"}, "Say which episodes to remove"),
        ({"keep_size": "0"}, "bytes above 0"),
        ({"keep_size": "0.1b"}, "bytes above 0"),
        ({"keep_size": "\u0661GB"}, "bytes above 0"),
    ],
)
def test_it_refuses_what_it_does_not_understand(options: dict[str, Any], words: str) -> None:
    make_episode()
    with pytest.raises(CommandError, match=words):
        prune(**options)
    assert Episode.objects.count() == 1
