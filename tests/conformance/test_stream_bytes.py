"""The exact bytes of event streams, stored in tests/snapshots/streams; only the ids that change are
replaced."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conformance.agent import Agent
from tests.rows import each
from tests.server import LiveServer

SNAPSHOTS = Path(__file__).parent.parent / "snapshots" / "streams"
WORDS = "words and words, "

CALLS = [
    ("short", "raises", "echo", {"text": "hi"}),
    ("chunked", "raises", "echo", {"text": WORDS * 700}),
    ("blanks", "raises", "echo", {"text": "a" + " " * 9000 + "b"}),
    ("line_ends", "raises", "echo", {"text": 'one\ntwo\r\n\u2028\x85 "three" é🙂'}),
    ("refused", "echo", "nope", {}),
    ("error", "raises", "fault", {}),
    ("tool_error", "raises", "recoverable", {}),
    ("error_without_text", "raises", "silent_fault", {}),
]


def snapshot(name: str) -> bytes:
    return (SNAPSHOTS / f"{name}.txt").read_bytes()


def without_ids(stream: bytes) -> bytes:
    return re.sub(rb"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", b"<id>", stream)


@each(("name", "environment", "tool", "arguments"), CALLS, ids=[call[0] for call in CALLS])
def test_it_sends_a_call_as_in_the_snapshot(
    server: LiveServer, name: str, environment: str, tool: str, arguments: dict[str, str]
) -> None:
    with Agent(server).open({"id": 1}, environment) as agent:
        assert without_ids(agent.call(tool, arguments).message) == snapshot(name)


def test_it_sends_a_new_sessions_id_as_in_the_snapshot(server: LiveServer) -> None:
    with Agent(server) as agent:
        stream = agent.http.post("/create_session", headers={"Accept": "text/event-stream"})
        agent.sid = "none"
    assert without_ids(stream.content) == snapshot("create_session")
    assert len(set(re.findall(rb"[0-9a-f-]{36}", stream.content))) == 1


@each(("name", "environment", "tool", "arguments"), CALLS, ids=[call[0] for call in CALLS])
def test_it_sends_a_replay_as_the_first_time(
    server: LiveServer, name: str, environment: str, tool: str, arguments: dict[str, str]
) -> None:
    with Agent(server).open({"id": 1}, environment) as agent:
        first = agent.call(tool, arguments)
        assert agent.call(tool, arguments, task_id=first.task_id).message == first.message


def test_it_sends_a_slow_call_in_the_same_events_as_a_fast_one(server: LiveServer) -> None:
    with Agent(server).open({"id": 1}, "slow") as agent:
        stream = agent.call("wait", {"seconds": 0.6}).raw
    comment = rb": ping - \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+00:00\n\n"
    assert re.search(comment, stream)
    assert re.sub(comment, b"", without_ids(stream)) == snapshot("slow")


@pytest.mark.parametrize(
    ("tool", "arguments"), [("echo", {"text": "hi"}), ("wait", {"seconds": 0.3})]
)
def test_it_sends_the_headers_of_an_event_stream(
    server: LiveServer, tool: str, arguments: dict[str, str]
) -> None:
    with Agent(server).open({"id": 1}, "slow") as agent:
        headers = agent.post("/call", {"name": tool, "input": arguments}).headers
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["cache-control"] == "no-cache"
    assert headers["x-accel-buffering"] == "no"
    assert headers["connection"] == "keep-alive"
    assert not [name for name in headers if name.startswith("access-control")]
