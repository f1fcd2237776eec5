"""Tests of the stream of events that open pages follow."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from django.db import connection
from django.test import AsyncClient, Client
from django_eventstream.views import get_listener_manager
from pytest_django import Settings

from environments.runtime.call_table import RunningCall
from episodes.dashboard import events as events_page
from episodes.recording import live
from episodes.recording.live import Live
from tests.environments.agents.ors.serving import in_database
from tests.people import client_of
from tests.rows import each
from tests.server import LiveServer
from tests.stored import make_environment, make_episode

SID = {"X-Session-ID": "followed"}


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer("tests.envs:Echo") as running:
        yield running


@contextmanager
def stream(server: LiveServer, channel: str) -> Iterator[Iterator[str]]:
    """Open a stream and provide its lines."""
    with httpx.stream("GET", f"{server.url}/events/?channel={channel}", timeout=60) as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()
        next(line for line in lines if line == "event: stream-open")
        yield lines


def data_of(lines: Iterator[str], kind: str) -> dict[str, object]:
    """Return the data of the next event of type `kind`."""
    next(line for line in lines if line == f"event: {kind}")
    return dict(json.loads(next(lines).removeprefix("data: ")))


def start_episode(server: LiveServer) -> None:
    httpx.post(f"{server.url}/create", json={"task_spec": {}}, headers=SID).raise_for_status()
    httpx.get(f"{server.url}/echo/prompt", headers=SID).raise_for_status()


def test_it_tells_of_an_episode_as_it_begins_and_ends(server: LiveServer) -> None:
    with stream(server, "episodes") as lines:
        start_episode(server)
        begun = data_of(lines, "started")
        httpx.post(f"{server.url}/delete", headers=SID).raise_for_status()
        assert data_of(lines, "ended")["ids"] == begun["ids"]


async def beginning(query: dict[str, str]) -> str:
    """Return what a stream begins with."""
    answer: Any = await AsyncClient().get("/events/", {"channel": "episodes", **query})
    events = aiter(answer.streaming_content)
    first = await anext(events)
    await events.aclose()
    return str(first.decode())


def position_of(page: str) -> str:
    [position] = re.findall(r'data-position="([^"]+)"', page)
    return str(position)


@pytest.mark.django_db(transaction=True)
async def test_a_page_is_told_to_catch_up_only_if_something_was_recorded_since() -> None:
    page: Any = await AsyncClient().get("/episodes/")
    position = position_of(page.content.decode())
    assert "catch-up" not in await beginning({"position": position})
    assert "catch-up" not in await beginning({})
    assert 'event: catch-up\ndata: {"ids": []}' in await beginning({"position": f"{position}0"})
    assert "catch-up" in await beginning({"position": ""})


@pytest.mark.django_db(transaction=True)
async def test_a_replay_is_told_of_the_calls_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Service:
        def running_calls(self, episode: int) -> list[RunningCall]:
            return [RunningCall(time.monotonic() - 6.0, f"dig-{episode}")]

    monkeypatch.setattr(events_page, "service_or_none", Service)
    number = (await in_database(make_episode)).pk
    answer: Any = await AsyncClient().get("/events/", {"channel": f"episode-{number}"})
    events = aiter(answer.streaming_content)
    await anext(events)
    kind, _, data = (await anext(events)).decode().partition("\ndata: ")
    [call] = json.loads(data)["calls"]
    assert kind == "event: calls" and call["tool"] == f"dig-{number}" and call["seconds"] >= 6
    await events.aclose()


@pytest.mark.django_db
def test_a_page_has_the_position_from_before_it_read_anything(client: Client) -> None:
    before = live.position()

    def record(execute: Any, sql: str, *arguments: Any) -> Any:
        if "episodes_episode" in sql:
            Live().tell([])  # without a listener
        return execute(sql, *arguments)

    with connection.execute_wrapper(record):
        page = client.get("/episodes/").content.decode()
    assert position_of(page) == before != live.position()


@pytest.mark.django_db(transaction=True)
async def test_who_may_not_see_an_environment_follows_the_episodes_of_all_others() -> None:
    browser = AsyncClient()
    browser.cookies = (await in_database(lambda: client_of("viewer"))).cookies
    hidden = await in_database(lambda: make_environment(is_private=True).pk)
    answer: Any = await browser.get("/events/", {"channel": "episodes"})
    events = aiter(answer.streaming_content)
    await anext(events)
    assert set(get_listener_manager().listeners_by_channel) == {
        f"episodes-without-studies-{hidden}"
    }
    await events.aclose()


def test_its_answer_opens_to_no_other_site(server: LiveServer) -> None:
    with httpx.stream(
        "GET", f"{server.url}/events/?channel=episodes", headers={"Origin": "http://x.example"}
    ) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.django_db
@each(
    "query", ["", "?channel=secrets", "?channel=episodes&channel=episode-1", "?channel=episode-0"]
)
def test_it_refuses_other_channels_and_names_the_legal_ones(client: Client, query: str) -> None:
    response = client.get(f"/events/{query}")
    assert (
        response.status_code == 400
        and "give one of: episodes, episode-ID" in response.content.decode()
    )


@pytest.mark.django_db
@pytest.mark.parametrize("extra", ["es-meta=x", "recover=true", "link=next"])
def test_it_refuses_what_it_does_not_know(client: Client, extra: str) -> None:
    assert client.get(f"/events/?channel=episodes&{extra}").status_code == 400


@pytest.mark.django_db
def test_with_keys_strangers_follow_nothing(client: Client, settings: Settings) -> None:
    settings.ORSWEB_API_KEYS = {"lab": "0123456789"}
    response = client.get("/events/?channel=episodes")
    assert response.status_code == 302 and response["Location"].startswith("/accounts/login/")
