"""Websockets of players on a real server: huge messages, foreign pages, a stop, a crash."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import psutil
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.server import LiveServer

MEGABYTE = 1_000_000


@pytest.fixture
def server() -> Iterator[LiveServer]:
    with LiveServer("tests.envs:Echo", env={"ORSWEB_MAX_BODY_BYTES": str(MEGABYTE)}) as running:
        yield running


def begin(server: LiveServer) -> int:
    """Start an episode as a person; return its number."""
    with httpx.Client(base_url=server.url, timeout=30) as browser:
        [token] = set(
            re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', browser.get("/play/").text)
        )
        form = {"environment": "echo", "split": "train", "pick": "number", "number": "0"}
        answer = browser.post("/play/", data={"csrfmiddlewaretoken": token, **form})
        return int(answer.headers["Location"].split("/")[2])


def tab(server: LiveServer, episode: int, origin: str = "") -> ClientConnection:
    address = f"ws://127.0.0.1:{server.port}/ws/play/{episode}/?after=-1"
    return connect(address, origin=origin or server.url, max_size=None)  # type: ignore[arg-type]


def next_message(socket: ClientConnection, kind: str) -> dict[str, Any]:
    """Return the next message of this kind."""
    while (message := json.loads(socket.recv(timeout=30)))["type"] != kind:
        pass
    return dict(message)


def call(socket: ClientConnection, text: str) -> str:
    """Make a call and return the HTML of its step."""
    socket.send(
        json.dumps({"type": "call", "tool": "echo", "input": {"text": text}, "task_id": text[:20]})
    )
    return str(next_message(socket, "step")["html"])


def test_a_message_of_50_megabytes_ends_its_socket_and_nothing_else(server: LiveServer) -> None:
    episode, process = begin(server), psutil.Process(server.pid)
    with tab(server, episode) as other:
        assert "first" in call(other, "first")
        before = process.memory_info().rss
        with tab(server, episode) as socket, pytest.raises(ConnectionClosed):
            socket.send("x" * 50 * MEGABYTE)
            next_message(socket, "error")
        assert process.memory_info().rss - before < 25 * MEGABYTE
        assert "second" in call(other, "second")


@pytest.mark.parametrize(
    "origin", ["http://elsewhere.example.org", "http://localhost", "http://127.0.0.1"]
)
def test_a_foreign_page_opens_no_socket(server: LiveServer, origin: str) -> None:
    with pytest.raises(InvalidStatus) as refused, tab(server, begin(server), origin):
        pass
    assert refused.value.response.status_code == 403


def test_an_open_tab_does_not_hold_up_a_stop(server: LiveServer) -> None:
    with tab(server, begin(server)) as socket:
        next_message(socket, "state")
        assert server.stop(timeout_seconds=30) == 0


def test_after_a_crash_the_page_is_reported_that_the_server_stopped(server: LiveServer) -> None:
    episode = begin(server)
    with tab(server, episode) as socket:
        call(socket, "kept")
        server.kill()
    server.start()
    with tab(server, episode) as socket:
        assert "The server stopped" in next_message(socket, "ended")["html"]
    page = httpx.get(f"{server.url}/play/{episode}/", timeout=30).text
    assert "kept" in page and "Play again" in page
