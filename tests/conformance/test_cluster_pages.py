"""Two servers on one PostgreSQL database, as pages see them: whichever a page reaches, it shows what both do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import psycopg
import pytest

from tests.conformance.agent import Agent
from tests.server import LiveServer

TIMEOUT = 60


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[LiveServer, LiveServer]]:
    first = LiveServer("tests.envs:Echo")
    second = LiveServer("tests.envs:Echo", beside=first)
    for name, server in (("one", first), ("two", second)):
        server.env["ORSWEB_CLUSTER"] = str(server.data_dir / f"{name}.sock")
    with first, second:
        yield first, second


@contextmanager
def stream(server: LiveServer, channel: str) -> Iterator[Iterator[tuple[str, Any]]]:
    """Yield the types and data of the events of an open page."""
    with httpx.stream("GET", f"{server.url}/events/", params={"channel": channel}, timeout=TIMEOUT) as response:
        events = _events(response.iter_lines())
        assert next(events)[0] == "stream-open"
        yield events


def _events(lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
    kind = ""
    for line in lines:
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data:") and kind != "keep-alive":
            text = line.removeprefix("data:").strip()
            yield kind, json.loads(text) if text else None


def heard(events: Iterator[tuple[str, Any]], kind: str) -> Any:
    """Return the data of the next event of that type."""
    return next(data for one, data in events if one == kind)


def listed(server: LiveServer) -> str:
    """Return the list of episodes as an open page fetches it again."""
    return httpx.get(f"{server.url}/episodes/", headers={"HX-Request": "true", "X-Refetch": "1"}, timeout=TIMEOUT).text


def test_an_open_page_follows_what_another_server_records(servers: tuple[LiveServer, LiveServer]) -> None:
    first, second = servers
    with stream(second, "episodes") as events, Agent(first) as agent:
        before = listed(second)
        agent.open({"id": "live"}, "echo")
        [episode] = heard(events, "started")["ids"]
        assert f"/episodes/{episode}/" in listed(second) and f"/episodes/{episode}/" not in before
        with stream(second, f"episode-{episode}") as steps:
            agent.call("echo", {"text": "hello"})
            assert heard(steps, "steps") == {"ids": [episode], "last": 0}
        agent.close()
        assert heard(events, "ended")["ids"] == [episode]


def test_a_page_catches_up_when_messages_may_have_been_lost(servers: tuple[LiveServer, LiveServer]) -> None:
    first, second = servers
    with stream(second, "episodes") as events, Agent(first) as agent, psycopg.connect(first.database_url) as database:
        database.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
        assert heard(events, "catch-up") == {"ids": []}
        agent.open({"id": "later"}, "echo")
        assert heard(events, "started")["counts"]["started"] == 1
