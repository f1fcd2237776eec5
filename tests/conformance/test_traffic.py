"""Compares every request of both SDKs' clients, and every answer to them, with the OpenAPI document
of the protocol."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from openreward.api.environments.types import GroupCandidate, Message, TextBlock

from tests.conformance.clients import Client, OpenRewardClient, OrsClient
from tests.conformance.traffic import recording_proxy
from tests.described import Exchange, check_exchange, events_of
from tests.server import LiveServer

SHARED = {
    *("tools", "splits", "tasks", "num_tasks", "task", "task_range"),
    *("create_session", "delete_session", "create", "delete", "prompt", "task_tools", "call"),
}
"""Last segments of the paths that both clients ask for in `play`, besides pings."""
LONG = "a long text " * 2000


def play(client: Client) -> None:
    """Use all that both clients offer, and whatever a server answers to it."""
    echo = client.environment("echo")
    task = echo.get_task("train", 0)
    for found in (
        echo.list_tools(),
        echo.list_splits(),
        echo.list_tasks("train"),
        echo.get_task_range("train", 0, 2),
    ):
        assert found
    assert echo.num_tasks("train") == 3
    with echo.session(task, secrets=client.secrets({"orsweb_run": "traffic"})) as session:
        assert session.get_prompt() and session.list_tools()
        for call in (
            ("echo", {"text": "hi"}),
            ("echo", {"text": LONG}),
            ("echo", {"wrong": 1}),
            ("finish", {}),
        ):
            _attempt(session, *call)
    _play_what_fails(client)


def _play_what_fails(client: Client) -> None:
    with client.environment("raises").session(split="train", index=0) as session:
        _attempt(session, "fault", {})
    with client.environment("slow").session(split="train", index=0) as session:
        _attempt(session, "work", {"seconds": 0.8})
    with client.environment("tasktools").session(split="train", index=0) as session:
        assert session.list_tools() is not None
    with client.environment("pictures").session(split="train", index=0) as session:
        assert session.get_prompt()
        _attempt(session, "look", {})


def _attempt(session: Any, tool: str, arguments: dict[str, Any]) -> None:
    with contextlib.suppress(Exception):  # each SDK has errors of its own for what a tool answers
        session.call_tool(tool, arguments)


def play_openreward(client: OpenRewardClient) -> None:
    """Use what only this client offers."""
    with client.environment("acme/conversation").session(split="train", index=0) as session:
        assert session.get_messages() and session.version()
    with client.environment("terminal").session(split="train", index=0) as session:
        assert session.call_terminal_tool("42").finished
    with client.environment("scored").session(split="train", index=0) as session:
        candidate = GroupCandidate(
            messages=[Message(role="assistant", blocks=[TextBlock(text="four")])]
        )
        assert session.score_group([candidate])
    assert client.variant("acme/suite", "terminal").list_tools()


@pytest.fixture(scope="module")
def ors_traffic(server: LiveServer) -> Iterator[list[Exchange]]:
    with recording_proxy(server.port) as proxy:
        with OrsClient(server, url=proxy.url) as client:
            play(client)
        yield proxy.exchanges


@pytest.fixture(scope="module")
def openreward_traffic(server: LiveServer) -> Iterator[list[Exchange]]:
    with recording_proxy(server.port) as proxy:
        with OpenRewardClient(server, url=proxy.url) as client:
            play(client)
            play_openreward(client)
        yield proxy.exchanges


@pytest.fixture(params=["ors", "openreward"])
def traffic(request: pytest.FixtureRequest) -> list[Exchange]:
    exchanges: list[Exchange] = request.getfixturevalue(f"{request.param}_traffic")
    return exchanges


def test_every_exchange_is_described(traffic: list[Exchange]) -> None:
    for exchange in traffic:
        check_exchange(exchange)


def test_every_kind_of_stream_was_compared(traffic: list[Exchange]) -> None:
    calls = [exchange for exchange in traffic if exchange.word == "call"]
    kinds = {tuple(event["event"] for event in events_of(one.answer.decode())) for one in calls}
    assert ("task_id", "end") in kinds and ("task_id", "error") in kinds
    assert any(kind[:2] == ("task_id", "chunk") for kind in kinds)


def test_ors_asked_for_all_that_it_can(ors_traffic: list[Exchange]) -> None:
    assert {exchange.word for exchange in ors_traffic} >= SHARED


def test_openreward_asked_for_all_that_it_can(openreward_traffic: list[Exchange]) -> None:
    assert {exchange.word for exchange in openreward_traffic} >= SHARED | {
        "messages",
        "version",
        "score_group",
    }
