"""Slow tools, lost connections, reconnection, and the ways in which a session ends."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator

import httpx
import pytest
from pytest_django import DjangoDbBlocker

from tests.conformance.agent import eventually
from tests.conformance.proxy import cutting_proxy
from tests.conformance.record import Recorded, recorded
from tests.environments.agents.mcp.playing import Raw, events, playing, refusal
from tests.rows import each
from tests.server import LiveServer


@pytest.fixture
def raw(server: LiveServer) -> Raw:
    return Raw(f"{server.url}/mcp/slow").opened()


async def test_a_slow_tool_reports_its_progress(server: LiveServer) -> None:
    seen: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with playing(f"{server.url}/mcp/slow") as player:
        result = await player.client.call_tool("sleep", {"seconds": 1.2}, progress_callback=note)
    assert result.content[0].text == "slept"
    assert seen and seen == sorted(seen)


def test_a_slow_tool_keeps_its_stream_alive(raw: Raw) -> None:
    with raw.stream(raw.call("wait", seconds=1.0)) as answer:
        lines = [line for line in answer.iter_lines() if line]
    assert lines[0] == "id: 1-0" and ": ping" in lines
    assert json.loads(lines[-1].removeprefix("data: "))["result"]["content"][0]["text"] == "waited"


def test_older_clients_get_no_event_without_data(server: LiveServer) -> None:
    raw = Raw(f"{server.url}/mcp/slow").opened("2025-06-18")
    with raw.stream(raw.call("wait", seconds=0.7)) as answer:
        assert not [line for line in answer.iter_lines() if line.startswith("id:")]


def test_a_lost_stream_is_resumed(raw: Raw, record: Recorded) -> None:
    with raw.stream(raw.call("wait", seconds=1.0)) as answer:
        assert events(answer.iter_lines(), 1) == ["id: 1-0"]
    with raw.get(**{"Last-Event-ID": "1-0"}) as resumed:
        last = [line for line in resumed.iter_lines() if line][-1]
    assert json.loads(last.removeprefix("data: "))["result"]["content"][0]["text"] == "waited"
    assert [step.status for step in record.steps(raw.sid)] == ["ok"]


async def test_the_packages_client_resumes_a_lost_stream(
    server: LiveServer, record: Recorded
) -> None:
    with cutting_proxy(
        server.port, "after the task_id", call=b'"tools/call"', task_id=b"id: "
    ) as proxy:
        async with playing(f"{proxy.url}/mcp/slow") as player:
            assert await player.text("wait", seconds=1.5) == "waited"
    assert proxy.cuts == 1
    assert len(await asyncio.to_thread(record.steps, player.sid)) == 1


@each("event", ["1-0", "99-0", "x", "-1-0", "9" * 30])
def test_a_stream_that_is_over_or_unknown_is_not_resumed(raw: Raw, event: str) -> None:
    raw.request("ping")
    with raw.get(**{"Last-Event-ID": event}) as answer:
        answer.read()
    assert refusal(answer)[0] == 400 and "is unknown" in refusal(answer)[1]


def test_a_call_that_is_repeated_after_a_lost_connection_runs_once(
    raw: Raw, record: Recorded
) -> None:
    with raw.stream(raw.call("wait", seconds=3.0)) as answer:
        events(answer.iter_lines(), 1)
    raw.headers["Accept"] = "application/json"
    result = raw.post(raw.call("wait", seconds=3.0)).json()["result"]
    assert result["content"][0]["text"] == "waited"
    assert len(record.steps(raw.sid)) == 1


def test_a_call_goes_on_when_its_client_vanishes(raw: Raw, record: Recorded) -> None:
    with raw.stream(raw.call("wait", seconds=0.7)) as answer:
        events(answer.iter_lines(), 1)
    eventually(lambda: len(record.steps(raw.sid)) == 1)
    assert record.steps(raw.sid)[0].status == "ok"


def test_a_call_that_was_answered_runs_again(raw: Raw, record: Recorded) -> None:
    for _ in range(2):
        raw.post(raw.call("echo", text="hi"))
    assert len(record.steps(raw.sid)) == 2


def test_a_client_reconnects_with_the_id_of_its_session(raw: Raw, record: Recorded) -> None:
    raw.post(raw.call("echo", text="before"))
    other = Raw(raw.url, {"Mcp-Session-Id": raw.sid})
    assert (
        other.post(other.call("echo", text="after")).json()["result"]["content"][0]["text"]
        == "after"
    )
    assert [json.loads(step.input_json)["text"] for step in record.steps(raw.sid)] == [
        "before",
        "after",
    ]


def test_a_cancelled_request_is_answered_and_its_tool_goes_on(raw: Raw, record: Recorded) -> None:
    message = raw.call("wait", seconds=3.0)
    cancel = {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": message["id"]},
    }
    with raw.stream(message) as answer:
        lines = answer.iter_lines()
        events(lines, 1)
        assert raw.post(cancel).status_code == 202
        last = [line for line in lines if line][-1]
    assert json.loads(last.removeprefix("data: "))["error"] == {
        "code": -32800,
        "message": "Request cancelled",
    }
    eventually(lambda: len(record.steps(raw.sid)) == 1)
    assert record.steps(raw.sid)[0].status == "ok"


def test_delete_ends_the_episode(raw: Raw, record: Recorded) -> None:
    raw.post(raw.call("echo", text="hi"))
    assert raw.delete().status_code == 204
    assert record.episode(raw.sid).cause == "abandoned"
    assert refusal(raw.request("ping")) == (404, "Active environment not found")
    assert raw.delete().status_code == 404


def test_a_call_that_runs_when_the_session_is_deleted_is_answered(
    raw: Raw, record: Recorded
) -> None:
    with raw.stream(raw.call("wait", seconds=20)) as answer:
        lines = answer.iter_lines()
        events(lines, 1)
        assert raw.delete().status_code == 204
        result = json.loads([line for line in lines if line][-1].removeprefix("data: "))["result"]
    assert (result["isError"], result["content"][0]["text"]) == (True, "Session deleted")
    assert record.steps(raw.sid)[0].status == "failed"


def test_the_session_can_be_used_by_the_open_reward_standard_too(
    raw: Raw, server: LiveServer
) -> None:
    answer = httpx.post(f"{server.url}/ping", headers={"X-Session-ID": raw.sid})
    assert answer.status_code == 200


# --- with a server whose sessions expire soon -----------------------------------------------------


IDLE_SECONDS = 4
"""After this the sessions below expire. A machine that stands still for a moment ends none of those
that are in use."""


@pytest.fixture(scope="module")
def hasty() -> Iterator[LiveServer]:
    settings = {"ORSWEB_KEEPALIVE": "0.2", "ORSWEB_SESSION_TIMEOUT": str(IDLE_SECONDS)}
    with LiveServer("tests.envs:Slow", env=settings) as running:
        yield running


def is_live(raw: Raw) -> bool:
    return (
        httpx.get(
            raw.url.replace("/mcp/slow", "/task_tools"), headers={"X-Session-ID": raw.sid}
        ).status_code
        == 200
    )


def test_an_idle_session_expires(hasty: LiveServer) -> None:
    raw = Raw(f"{hasty.url}/mcp/slow").opened()
    eventually(lambda: "session expired" in hasty.log)
    assert refusal(raw.request("tools/list")) == (404, "Active environment not found")


def test_a_client_that_vanishes_in_a_call_ends_its_own_episode_only(
    hasty: LiveServer, django_db_blocker: DjangoDbBlocker
) -> None:
    gone, other = (Raw(f"{hasty.url}/mcp/slow").opened() for _ in range(2))
    with gone.stream(gone.call("wait", seconds=0.7)) as answer:
        events(answer.iter_lines(), 1)
    with recorded(hasty, django_db_blocker) as record:
        with other.get():  # who listens does not expire
            eventually(lambda: record.episode(gone.sid).status == "ended")
        assert other.post(other.call("echo", text="still here")).status_code == 200
        assert [(step.tool, step.status) for step in record.steps(gone.sid)] == [("wait", "ok")]
        assert record.episode(gone.sid).cause == "expired"
        assert record.episode(other.sid).status == "running" and len(record.steps(other.sid)) == 1


def test_a_session_does_not_expire_while_its_client_listens(hasty: LiveServer) -> None:
    raw = Raw(f"{hasty.url}/mcp/slow").opened()
    with raw.get() as answer:
        lines = answer.iter_lines()
        started = time.monotonic()
        while time.monotonic() - started < 1.5 * IDLE_SECONDS:
            assert events(lines, 1) == [": ping"]
    assert is_live(raw)
    eventually(lambda: raw.request("ping").status_code == 200)


def test_a_session_does_not_expire_while_a_tool_runs(hasty: LiveServer) -> None:
    raw = Raw(f"{hasty.url}/mcp/slow").opened()
    answer = raw.post(raw.call("wait", seconds=1.5 * IDLE_SECONDS))
    assert "waited" in answer.text


async def test_the_packages_client_keeps_its_session_alive(hasty: LiveServer) -> None:
    async with playing(f"{hasty.url}/mcp/slow") as player:
        await asyncio.sleep(1.5 * IDLE_SECONDS)
        assert await player.text("echo", text="still here") == "still here"


# --- the end of the server ------------------------------------------------------------------------


def test_the_server_stops_at_once_though_clients_listen() -> None:
    with LiveServer(
        "tests.envs:Slow", env={"ORSWEB_KEEPALIVE": "60", "ORSWEB_SHUTDOWN_TIMEOUT": "600"}
    ) as server:
        raw = Raw(f"{server.url}/mcp/slow").opened()
        with raw.get() as answer:
            events(answer.iter_lines(), 1)
            assert server.stop() == 0


def test_after_a_restart_sessions_are_not_found() -> None:
    with LiveServer("tests.envs:Slow") as server:
        raw = Raw(f"{server.url}/mcp/slow").opened()
        server.kill()
        server.start()
        status, text = refusal(raw.request("ping"))
        assert status == 404 and text.startswith(
            "Active environment not found: the episode was interrupted. "
        )
        assert raw.opened().request("ping").status_code == 200
