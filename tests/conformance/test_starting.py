"""A server that takes long to start, for the first time and again after a crash: both SDK clients
ride it out."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.conformance.agent import eventually
from tests.conformance.clients import Client, OpenRewardClient, OrsClient
from tests.server import LiveServer

START_SECONDS = 1.5
MODULE = f"import time\ntime.sleep({START_SECONDS})\nfrom tests.envs import Echo\n"


@pytest.fixture
def starting(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LiveServer]:
    """A server that was just launched. Its clients wait without an answer for as long as the
    parameter says."""
    (tmp_path / "slow_start.py").write_text(MODULE)
    server = LiveServer(
        "slow_start:Echo", cwd=tmp_path, env={"ORSWEB_STARTING_SILENCE": request.param}
    ).launch()
    try:
        eventually(lambda: _listens(server))
        yield server
    finally:
        server.discard()


def _listens(server: LiveServer) -> bool:
    try:
        httpx.get(f"{server.url}/health", timeout=0.01)
    except httpx.TimeoutException:
        return True
    except httpx.TransportError:
        return False
    return True


def play(client: Client) -> None:
    with client.environment("echo").session(split="train", index=0) as session:
        session.get_prompt()
        session.call_tool("echo", {"text": "there"})


@pytest.mark.parametrize(
    ("starting", "kind"),
    [("20", OrsClient), ("20", OpenRewardClient), ("0.3", OpenRewardClient)],
    indirect=["starting"],
)
def test_a_client_plays_before_the_server_is_up_and_right_after_a_crash(
    starting: LiveServer, kind: type[OrsClient | OpenRewardClient]
) -> None:
    with kind(starting) as client:
        play(client)
        os.kill(starting.pid, signal.SIGKILL)
        play(client)
    assert "is started again" in starting.log


@pytest.mark.parametrize("starting", ["0.2"], indirect=True)
def test_who_waits_longer_is_told_that_the_server_is_starting(starting: LiveServer) -> None:
    answer = httpx.post(
        f"{starting.url}/create", json={"task_spec": {"large": "x" * 2_000_000}}, timeout=20
    )
    assert (answer.status_code, answer.json()) == (503, {"detail": "Starting; try again."})
    assert (answer.headers["Retry-After"], answer.headers["X-Backend-State"]) == ("2", "starting")
    page = httpx.get(starting.url, headers={"Accept": "text/html,*/*"}, timeout=20)
    assert (page.status_code, page.headers["Content-Type"]) == (503, "text/html")
    assert "<p>Starting … This page loads again by itself.</p>" in page.text
    eventually(starting.is_healthy)


@pytest.mark.parametrize("starting", ["0.2"], indirect=True)
def test_it_hears_a_browser_out_and_sends_nobody_a_body_that_asks_for_none(
    starting: LiveServer,
) -> None:
    def connect() -> socket.socket:
        return socket.create_connection(("127.0.0.1", starting.port), timeout=20)

    def answer(client: socket.socket, request: str) -> str:
        client.sendall(
            f"{request} / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n".encode()
        )
        with client, client.makefile("rb") as received:
            return received.read().decode()

    with connect() as first:
        assert answer(connect(), "HEAD").endswith("\r\n\r\n")  # by when `first` was accepted
        assert "This page loads again by itself" in answer(first, "GET")


def test_a_first_start_says_that_it_prepares_the_database() -> None:
    """At once, however long clients of other starts wait; and the log alarms nobody with an account
    that it made."""
    server = LiveServer("tests.envs:Echo", is_new=True).launch()
    try:
        pages: list[httpx.Response] = []
        eventually(lambda: _took_page(server, pages) and pages[-1].status_code == 200, seconds=300)
        assert "Preparing the database, on the first start only …" in pages[0].text
        assert server.log.startswith(
            f"Preparing the database, on the first start only …\n\norsweb is ready: {server.url}"
        )
        assert "account" not in server.log
    finally:
        server.discard()


def _took_page(server: LiveServer, pages: list[httpx.Response]) -> bool:
    """Append the page that a browser gets, and return whether there was any."""
    assert server.returncode is None, server.log
    try:
        pages.append(httpx.get(server.url, headers={"Accept": "text/html"}, timeout=60))
    except httpx.TransportError:  # it does not listen yet
        return False
    return True
