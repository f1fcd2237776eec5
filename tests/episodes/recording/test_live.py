"""The events that followers of a channel receive, and when."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django_eventstream.views import Listener, get_listener_manager

from environments.cluster.messages import MAX_BYTES
from environments.models import Viewer
from environments.runtime.records import Row, SnapshotTaken
from episodes.models import Step
from episodes.recording.news import MAX_IDS, MAX_TEXTS, TEXT_ITEMS, News, channel_for, is_channel
from episodes.recording.recorder import Recorder
from tests.episodes.recorded import DEADLINE_SECONDS, commit, query, run
from tests.factories import episode_ended, episode_noted, episode_started, step_taken
from tests.rows import each
from tests.stored import make_environment, make_episode

Event = tuple[str, str, dict[str, Any]]


def events_for(*rows: Row, to: str = "episodes") -> list[Event]:
    news = News()
    news.add(rows)
    return list(news.events([to]))


@contextmanager
def following(channel: str) -> Iterator[Listener]:
    """Return a listener such as an open page has."""
    listener = Listener()
    listener.channels = {channel}
    listener.assign_loop()
    get_listener_manager().add_listener(listener)
    try:
        yield listener
    finally:
        get_listener_manager().remove_listener(listener)


async def heard(listener: Listener, channel: str, kind: str) -> Any:
    """Return the data of the next event of that type."""
    while True:
        await asyncio.wait_for(listener.aevent.wait(), DEADLINE_SECONDS)
        listener.aevent.clear()
        for event in listener.channel_items.pop(channel, ()):
            if event.type == kind:
                return json.loads(event.data)


@pytest.mark.parametrize("name", ["episodes", "episode-1", "episode-812345"])
def test_a_channel_has_one_of_two_forms(name: str) -> None:
    assert is_channel(name)


@each(
    "name",
    ["", "episode", "episode-", "episode-0", "episode-x", "episodes ", "runs", "episode-1\n"],
)
def test_everything_else_is_no_channel(name: str) -> None:
    assert not is_channel(name)


def test_followers_of_all_episodes_receive_ids_and_counts() -> None:
    counts = {"started": 1, "steps": 2, "ended": 1}
    rows = (episode_started(7), step_taken(7, 0), step_taken(7, 1), episode_ended(6))
    assert events_for(*rows) == [
        ("episodes", "started", {"ids": [7], "counts": counts}),
        ("episodes", "steps", {"ids": [7], "counts": counts}),
        ("episodes", "ended", {"ids": [6], "counts": counts}),
    ]


@pytest.mark.django_db
def test_followers_from_whom_an_environment_is_hidden_receive_the_rest() -> None:
    make_episode(pk=7)
    hidden = make_episode(pk=8, environment=make_environment("secret")).environment_id
    channel = channel_for(Viewer(frozenset([hidden])))
    rows = (
        episode_started(7),
        step_taken(7, 0),
        episode_started(8),
        step_taken(8, 0),
        episode_ended(8),
    )
    counts = {"started": 1, "steps": 1, "ended": 0}
    assert events_for(*rows, to=channel) == [
        (channel, "started", {"ids": [7], "counts": counts}),
        (channel, "steps", {"ids": [7], "counts": counts}),
    ]
    assert not is_channel(channel)


def test_a_snapshot_is_no_news() -> None:
    assert events_for(SnapshotTaken(7, 0, b"state", ""), to="episode-7") == []


def test_the_newest_ids_are_named_and_all_are_counted() -> None:
    ((_, _, data),) = events_for(*(episode_started(number) for number in range(1, 121)))
    assert data["ids"] == list(range(121 - MAX_IDS, 121)) and data["counts"]["started"] == 120


def test_followers_of_one_episode_receive_its_last_step() -> None:
    rows = (step_taken(7, 4), step_taken(8, 9), step_taken(7, 5), episode_noted(7))
    assert events_for(*rows, to="episode-7") == [
        ("episode-7", "noted", {"ids": [7], "last": 5}),
        ("episode-7", "steps", {"ids": [7], "last": 5}),
    ]


def test_followers_of_another_episode_receive_nothing() -> None:
    assert events_for(episode_started(7), episode_ended(7), to="episode-70") == []


def told(*rows: Row) -> News:
    """Return what another server knows that was told of these rows."""
    news, found = News(), News()
    news.add(rows)
    for text in news.texts():
        assert len(text.encode()) <= MAX_BYTES
        found.add_text(text)
    return found


@pytest.mark.parametrize("channel", ["episodes", "episode-7"])
def test_followers_at_another_server_receive_the_same(channel: str) -> None:
    rows = (
        episode_started(7),
        step_taken(7, 0),
        step_taken(7, 1),
        episode_noted(7),
        episode_ended(6),
    )
    assert list(told(*rows).events([channel])) == events_for(*rows, to=channel)


def test_other_servers_learn_of_many_episodes_in_several_texts() -> None:
    number = 10**15
    news = told(*(step_taken(number + one, 10**6) for one in range(1000)))
    [(_, _, data)] = news.events(["episodes"])
    assert data["counts"]["steps"] == 1000
    assert list(news.events([f"episode-{number}"])) == [
        (f"episode-{number}", "steps", {"ids": [number], "last": 10**6})
    ]


def test_what_is_too_much_for_other_servers_lets_their_pages_catch_up() -> None:
    news = told(*(episode_started(number) for number in range(1, TEXT_ITEMS * MAX_TEXTS + 2)))
    assert list(news.events(["episode-9"])) == [("episode-9", "catch-up", {"ids": []})]


@pytest.mark.django_db(transaction=True)
def test_a_step_is_announced_once_it_can_be_read() -> None:
    make_environment("echo")

    async def play(recorder: Recorder) -> None:
        with following("episode-1") as listener:
            recorder.record(episode_started(1), step_taken(1, 0))
            assert await heard(listener, "episode-1", "steps") == {"ids": [1], "last": 0}
            assert await query(Step.objects.count) == 1

    run(play)


@pytest.mark.django_db(transaction=True)
def test_the_next_announcement_follows_too() -> None:
    make_environment("echo")

    async def play(recorder: Recorder) -> None:
        with following("episodes") as listener:
            await commit(recorder, episode_started(1))
            assert (await heard(listener, "episodes", "started"))["ids"] == [1]
            await commit(recorder, episode_ended(1))
            assert (await heard(listener, "episodes", "ended"))["counts"]["ended"] == 1

    run(play)
