"""A requested stop: running calls are answered, environments are torn down, and everything is
recorded.

Afterwards a new server on the same database returns old results.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from pytest_django import DjangoDbBlocker

from tests.conformance.agent import Agent, Answer, eventually, lines
from tests.conformance.record import recorded
from tests.server import LiveServer

SECONDS = 1.0


class Stopped(NamedTuple):
    """A server that was stopped while two calls ran, one of them plain code, and started again."""

    server: LiveServer
    status: int
    sids: list[str]
    heard: list[bytes]
    early: Answer
    """A call of the first session that was answered long before the stop."""
    log: Path


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    log = tmp_path_factory.mktemp("stopped") / "log"
    with LiveServer("tests.envs:Slow", env={"ORSWEB_KEEPALIVE": "0.2"}) as server:
        agents = [Agent(server).open({"log": str(log)}) for _ in range(2)]
        early = agents[0].call("echo", {"text": "early"})
        calls = [
            agents[0].begin("wait", {"seconds": SECONDS}),
            agents[1].begin("sleep", {"seconds": SECONDS}),
        ]
        eventually(lambda: {"wait starts", "sleep starts"} <= set(lines(log)))
        status = server.stop()
        heard = [call.hear(b"event: end\n") for call in calls]
        server.start()
        yield Stopped(server, status, [agent.sid for agent in agents], heard, early, log)


def test_it_ends_well(stopped: Stopped) -> None:
    assert stopped.status == 0


def test_it_answers_running_calls(stopped: Stopped) -> None:
    assert b"waited" in stopped.heard[0]
    assert b"slept" in stopped.heard[1]


def test_it_tears_environments_down_after_their_tools(stopped: Stopped) -> None:
    noted = lines(stopped.log)
    assert sorted(noted) == sorted(
        ["wait starts", "sleep starts", "wait ends", "sleep ends", "teardown", "teardown"]
    )
    assert noted.index("teardown") > min(noted.index("wait ends"), noted.index("sleep ends"))
    assert noted[-1] == "teardown"


def test_it_records_the_calls_and_the_interruption(
    stopped: Stopped, django_db_blocker: DjangoDbBlocker
) -> None:
    with recorded(stopped.server, django_db_blocker) as record:
        episodes = [record.episode(sid) for sid in stopped.sids]
        tools = [[step.tool for step in record.steps(sid)] for sid in stopped.sids]
    assert tools == [["echo", "wait"], ["sleep"]]
    assert [(one.status, one.cause, one.steps_count) for one in episodes] == [
        ("ended", "interrupted", 2),
        ("ended", "interrupted", 1),
    ]
    assert {one.detail for one in episodes} == {
        "The server was stopped before the episode had ended."
    }


@pytest.mark.parametrize("path", ["/ping", "/slow/call"])
def test_the_next_request_of_its_client_says_that_it_was_interrupted(
    stopped: Stopped, path: str
) -> None:
    body = {"name": "echo", "input": {"text": "x"}}
    answer = httpx.post(
        f"{stopped.server.url}{path}", json=body, headers={"X-Session-ID": stopped.sids[0]}
    )
    assert (answer.status_code, answer.json()["detail"]) == (
        404,
        "Active environment not found: the episode was interrupted. "
        "The server was stopped before the episode had ended.",
    )


def test_it_tells_an_old_result_after_the_restart(stopped: Stopped) -> None:
    with Agent(stopped.server) as later:
        later.sid = stopped.sids[0]
        assert (
            later.call("echo", {"text": "early"}, task_id=stopped.early.task_id).message
            == stopped.early.message
        )


def test_it_tells_the_result_of_the_interrupted_call_after_the_restart(stopped: Stopped) -> None:
    result = stopped.heard[0].split(b"data: ")[1].split()[0].decode()
    with Agent(stopped.server) as later:
        later.sid = stopped.sids[0]
        assert later.call("wait", {"seconds": SECONDS}, task_id=result).text == "waited"
    assert lines(stopped.log).count("wait starts") == 1
