"""Tests of the stream of one episode, from a real server while the episode is played."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import psutil
import pytest

from tests.rows import each
from tests.server import LiveServer

SESSION = {"X-Session-ID": "one"}


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer("tests.envs:Echo") as running:
        yield running


@pytest.fixture
def client(server: LiveServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=20) as open_client:
        yield open_client


def begin(client: httpx.Client, session: str) -> int:
    """Start an episode and return its number."""
    client.post(
        "/create",
        json={"env_name": "echo", "split": "train", "index": 0},
        headers={"X-Session-ID": session},
    )
    call(client, session, "first")
    [newest, *_] = client.get("/api/episodes").json()["results"]
    return int(newest["id"])


def call(client: httpx.Client, session: str, text: str, tool: str = "echo") -> None:
    body = {"name": tool, "input": {"text": text} if tool == "echo" else {}}
    client.post("/echo/call", json=body, headers={"X-Session-ID": session}).raise_for_status()


def end(client: httpx.Client, session: str) -> None:
    client.post("/delete", headers={"X-Session-ID": session}).raise_for_status()


def events(response: httpx.Response) -> Iterator[tuple[str, str, Any]]:
    """Yield the kind, id and data of each event as it arrives."""
    event: dict[str, str] = {}
    for line in response.iter_lines():
        name, _, value = line.partition(": ")
        if line and name:
            event[name] = value
        elif event:
            yield event["event"], event["id"], json.loads(event["data"])
            event = {}


def stream(client: httpx.Client, episode: int, last: str = "") -> Any:
    return client.stream(
        "GET", f"/api/episodes/{episode}/events", headers={"Last-Event-ID": last} if last else {}
    )


def test_steps_come_as_they_are_taken_and_then_the_end(client: httpx.Client) -> None:
    episode = begin(client, "follow")
    with stream(client, episode) as response:
        assert response.headers["content-type"] == "text/event-stream"
        found = events(response)
        assert next(found)[:2] == ("step", "0")
        call(client, "follow", "second")
        kind, number, data = next(found)
        assert (kind, number, data["input"]) == ("step", "1", {"text": "second"})
        end(client, "follow")
        kind, number, data = next(found)
        assert (kind, number, data["status"], data["steps"]) == ("ended", "end", "ended", 2)
        assert list(found) == []


def test_an_ended_episode_streams_all_and_closes(client: httpx.Client) -> None:
    episode = begin(client, "over")
    call(client, "over", "second")
    end(client, "over")
    with stream(client, episode) as response:
        received = list(events(response))
    assert [number for _, number, _ in received] == ["0", "1", "end"]
    assert received[1][2] == client.get(f"/api/episodes/{episode}/steps/1").json()
    assert received[2][2] == client.get(f"/api/episodes/{episode}").json()


def test_it_goes_on_after_the_last_event_that_was_received(client: httpx.Client) -> None:
    episode = begin(client, "again")
    call(client, "again", "second")
    end(client, "again")
    with stream(client, episode, "0") as response:
        assert [number for _, number, _ in events(response)] == ["1", "end"]


def test_a_client_that_received_the_end_is_stopped_from_reconnecting(client: httpx.Client) -> None:
    episode = begin(client, "heard")
    with stream(client, episode, "end") as response:
        assert response.status_code == 204


@each("last", ["x", "-1", "1,2", "99999999999"])
def test_an_id_that_no_event_has_is_refused(client: httpx.Client, last: str) -> None:
    episode = begin(client, f"refused{last}")
    with stream(client, episode, last) as response:
        assert (response.status_code, response.read() and response.json()["value"]) == (400, last)


def test_streams_hold_no_thread(server: LiveServer, client: httpx.Client) -> None:
    episode = begin(client, "many")
    process = psutil.Process(server.pid)
    with httpx.Client(
        base_url=server.url, timeout=20, limits=httpx.Limits(max_connections=None)
    ) as many:
        open_streams = []
        for _ in range(40):
            request = many.build_request("GET", f"/api/episodes/{episode}/events")
            open_streams.append(many.send(request, stream=True))
            next(events(open_streams[-1]))  # or as many threads read the database at the same time
        assert process.num_threads() < 30
        for response in open_streams:
            response.close()


def test_a_stop_is_not_held_up_by_a_stream() -> None:
    with LiveServer("tests.envs:Echo") as own, httpx.Client(base_url=own.url, timeout=20) as client:
        episode = begin(client, "stop")
        with stream(client, episode) as response:
            next(events(response))
            assert own.stop(timeout_seconds=20) == 0
