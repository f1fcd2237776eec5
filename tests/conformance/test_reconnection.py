"""A lost connection never makes a tool run twice, and a result can be fetched as long as it is
recorded."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.agent import Agent, eventually, lines
from tests.conformance.clients import OpenRewardClient, OrsClient
from tests.conformance.proxy import Cut, cutting_proxy
from tests.conformance.record import Recorded
from tests.server import LiveServer

SLOW = {"seconds": 0.6}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.mark.parametrize("cut", ["before the task_id", "after the task_id"])
@pytest.mark.parametrize("make", [OrsClient, OpenRewardClient])
def test_it_runs_a_clients_tool_once_when_the_connection_is_lost(
    server: LiveServer,
    record: Recorded,
    log: Path,
    make: type[OrsClient | OpenRewardClient],
    cut: Cut,
) -> None:
    with cutting_proxy(server.port, cut) as proxy, make(server, url=proxy.url) as client:
        environment = client.environment("slow")
        task = environment.get_task("train", 0)
        task.task_spec["log"] = str(log)
        with environment.session(task) as session:
            assert session.call_tool("sleep", SLOW).blocks[0].text == "slept"
    assert proxy.cuts == 1
    assert lines(log).count("sleep starts") == 1
    assert len(record.steps(session.sid)) == 1


def test_it_gives_an_orphaned_run_to_the_same_request(server: LiveServer, log: Path) -> None:
    with Agent(server).open({"log": str(log)}, "slow") as agent:
        lost = agent.begin("wait", SLOW)
        eventually(lambda: "wait starts" in lines(log))
        lost.drop()
        assert agent.call("wait", SLOW).text == "waited"
    assert lines(log).count("wait starts") == 1


def test_it_tells_a_large_result_again_that_was_lost_on_the_way(
    server: LiveServer, record: Recorded
) -> None:
    # for some of them the server sees the repeat before the loss
    large, rounds = {"size_bytes": 8_000_000}, 12
    with Agent(server).open({"id": 1}, "raises") as agent:
        for _ in range(rounds):
            lost = agent.begin("huge", large)
            lost.hear(b"event: chunk")
            lost.drop()
            assert len(agent.call("huge", large).text) == large["size_bytes"]
    assert len(record.steps(agent.sid)) == rounds


def test_it_runs_the_same_request_again_when_the_first_was_answered(
    server: LiveServer, log: Path
) -> None:
    with Agent(server).open({"log": str(log)}, "counter") as agent:
        assert [agent.call("count").text for _ in range(3)] == ["1", "2", "3"]


def test_it_tells_a_running_call_to_every_reader(server: LiveServer, log: Path) -> None:
    with Agent(server).open({"log": str(log)}, "slow") as agent:
        readers = [agent.begin("wait", SLOW, task_id="mine") for _ in range(3)]
        assert all(b"waited" in reader.hear(b"event: end") for reader in readers)
    assert lines(log).count("wait starts") == 1


def test_it_takes_a_clients_own_task_id_and_runs_it_once(server: LiveServer) -> None:
    with Agent(server).open({"id": 1}, "counter") as agent:
        first, again = (agent.call("count", task_id="trace-123") for _ in range(2))
    assert first.events[0] == ("task_id", "trace-123")
    assert first.message == again.message


def test_it_keeps_the_ids_of_sessions_apart(server: LiveServer) -> None:
    with (
        Agent(server).open({"id": 1}, "counter") as one,
        Agent(server).open({"id": 1}, "counter") as other,
    ):
        one.call("count")
        one.call("count", task_id="trace-123")
        assert other.call("count", task_id="trace-123").text == "1"


def test_it_answers_from_the_record_after_the_linger(server: LiveServer, record: Recorded) -> None:
    with Agent(server).open({"id": 1}, "counter") as agent:
        result = agent.call("count")
        # the record is changed, so that its result differs from the one in memory
        step = record.steps(agent.sid)[0]
        step.output = step.output.replace('"text":"1"', '"text":"recorded"')
        step.save()
        eventually(lambda: agent.call("count", task_id=result.task_id).text == "recorded")
        assert agent.call("count").text == "2"


def test_it_answers_from_the_record_after_the_session(server: LiveServer) -> None:
    with Agent(server).open({"id": 1}, "raises") as agent:
        result = [
            agent.call("blanks"),
            agent.call("fault"),
            agent.call("recoverable"),
            agent.call("nope"),
        ]
    with Agent(server) as later:
        later.sid = agent.sid
        assert [later.call("any", task_id=one.task_id).message for one in result] == [
            one.message for one in result
        ]


def test_it_knows_no_call_that_an_ended_session_never_made(server: LiveServer) -> None:
    with Agent(server).open({"id": 1}, "counter") as agent:
        pass
    with Agent(server) as later:
        answer = later.post(
            "/call", {"name": "count", "input": {}, "task_id": "no"}, **{"X-Session-ID": agent.sid}
        )
    assert (answer.status_code, answer.json()) == (404, {"detail": "Active environment not found"})


def test_it_sends_comments_while_a_tool_runs(server: LiveServer) -> None:
    with Agent(server).open({"id": 1}, "slow") as agent:
        answer = agent.call("wait", {"seconds": 0.9})
    assert answer.comments >= 3
    assert [name for name, _ in answer.events] == ["task_id", "end"]


def test_it_tells_the_task_id_while_setup_still_runs(server: LiveServer) -> None:
    with Agent(server).open({"seconds": 1.0}, "slowsetup") as agent:
        call = agent.begin("echo", {"text": "patient"})
        heard = call.hear(b": ping", times=2)
        assert heard.index(b"event: task_id") < heard.index(b": ping")
        assert b"patient" in call.hear(b"event: end")


def test_it_tells_a_waiting_call_that_its_session_was_deleted(
    server: LiveServer, log: Path
) -> None:
    with Agent(server).open({"log": str(log)}, "slow") as agent:
        call = agent.begin("wait", {"seconds": 60})
        eventually(lambda: "wait starts" in lines(log))
        agent.close()
        assert b"Session deleted" in call.hear(b"event: error")
    assert lines(log)[1:] == ["wait cancelled", "teardown"]


def test_it_takes_a_deleted_sessions_id_again(server: LiveServer, record: Recorded) -> None:
    sid = uuid.uuid4().hex
    for text in ("first", "second"):
        with Agent(server) as agent:
            agent.sid = sid
            agent.create({"id": text}, "echo")
            assert agent.call("echo", {"text": text}, task_id="same").text == text
    assert record.episodes.filter(session_id=sid, status="ended").count() == 2


TASK_ID = re.compile(r"data: [0-9a-f]{32}\n")


async def closing_post(server: LiveServer, path: str, sid: str, body: dict[str, Any]) -> str:
    """Send a request on its own connection, which is closed as soon as the response is read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nX-Session-ID: {sid}\r\nContent-Type: "
        "application/json\r\n"
    )
    writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    answer = b""
    while not re.search(rb'event: end\ndata: .*\n\n|\{"sid":.*\}', answer):
        answer += await reader.read(65_536)
    writer.close()
    return answer.partition(b"\r\n\r\n")[2].decode()


async def test_a_client_that_closes_after_the_end_has_got_it(server: LiveServer) -> None:
    async def play(number: int) -> list[str]:
        sid = f"hurried-{number}-{uuid.uuid4().hex}"
        await closing_post(
            server, "/create", sid, {"env_name": "counter", "task_spec": {"id": sid}}
        )
        return [
            await closing_post(server, "/call", sid, {"name": "count", "input": {}})
            for _ in range(8)
        ]

    for answers in await asyncio.gather(*(play(number) for number in range(48))):
        assert len({TASK_ID.sub("", answer) for answer in answers}) == 8, (
            "an earlier call was told again"
        )
