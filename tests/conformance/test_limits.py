"""The limits that settings define: expiry, tool timeout, sizes and counts."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import DjangoDbBlocker

from tests.conformance.agent import Agent, eventually, lines
from tests.conformance.record import Recorded, recorded
from tests.server import LiveServer

SETTINGS = {
    "ORSWEB_KEEPALIVE": "0.1",
    "ORSWEB_TOOL_TIMEOUT": "2",
    "ORSWEB_MAX_SESSIONS": "4",
    "ORSWEB_MAX_BODY_BYTES": "20000",
    "ORSWEB_MAX_RESULT_BYTES": "50000",
    "ORSWEB_RETURN_ERRORS": "stacktrace",
}


@pytest.fixture(scope="module")
def limited() -> Iterator[LiveServer]:
    classes = ["tests.envs:Slow", "tests.envs:Raises", "tests.envs:FailingSetup"]
    with LiveServer(*classes, env=SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def brief() -> Iterator[LiveServer]:
    """A server whose sessions expire quickly; those of the other tests must survive a machine that
    stalls."""
    with LiveServer("tests.envs:Slow", env={"ORSWEB_SESSION_TIMEOUT": "4"}) as running:
        yield running


@pytest.fixture
def record(limited: LiveServer, django_db_blocker: DjangoDbBlocker) -> Iterator[Recorded]:
    with recorded(limited, django_db_blocker) as reader:
        yield reader


def test_it_expires_an_idle_session_and_tears_it_down(
    brief: LiveServer, django_db_blocker: DjangoDbBlocker, tmp_path: Path
) -> None:
    with recorded(brief, django_db_blocker) as record:
        with Agent(brief).open({"log": str(tmp_path / "log")}, "slow") as agent:
            eventually(lambda: record.episode(agent.sid).status == "ended")
            assert agent.post("/ping").status_code == 404
        assert record.episode(agent.sid).cause == "expired"
    assert lines(tmp_path / "log") == ["teardown"]


def test_it_keeps_a_session_whose_tool_runs(brief: LiveServer) -> None:
    with Agent(brief).open({}, "slow") as agent:
        assert agent.call("wait", {"seconds": 6}).text == "waited"
        assert agent.call("echo", {"text": "still here"}).text == "still here"


def test_it_does_not_wait_for_a_thread_that_it_gave_up(limited: LiveServer) -> None:
    with Agent(limited).open({}, "slow") as agent:
        agent.call("sleep", {"seconds": 30})
        started = time.monotonic()
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("tool", ["wait", "sleep"])
def test_it_ends_a_tool_at_the_tool_timeout(
    limited: LiveServer, record: Recorded, tool: str
) -> None:
    with Agent(limited).open({}, "slow") as agent:
        answer = agent.call(tool, {"seconds": 4})
        assert answer.error == f"'{tool}' ran longer than 2 s (ORSWEB_TOOL_TIMEOUT)"
        assert agent.call("echo", {"text": "still here"}).text == "still here"
    assert [step.reason for step in record.steps(agent.sid)] == ["timeout", ""]


def test_it_refuses_a_session_too_many_and_has_room_again(limited: LiveServer) -> None:
    agents = [Agent(limited).open({}, "slow") for _ in range(4)]
    with Agent(limited) as late:
        late.sid = uuid.uuid4().hex
        refusal = late.create({}, "slow")
        assert (refusal.status_code, refusal.headers["Retry-After"]) == (429, "2")
        for agent in agents:
            agent.close()
        assert late.create({}, "slow").status_code == 200


def test_it_refuses_a_body_over_the_limit_and_the_session_goes_on(limited: LiveServer) -> None:
    with Agent(limited).open({}, "slow") as agent:
        refusal = agent.post("/call", {"name": "echo", "input": {"text": "x" * 30_000}})
        assert refusal.status_code == 413
        assert "ORSWEB_MAX_BODY_BYTES allows 20000" in refusal.json()["detail"]
        assert agent.call("echo", {"text": "still here"}).text == "still here"


def test_it_refuses_a_result_over_the_limit_without_paying_for_it(
    limited: LiveServer, record: Recorded
) -> None:
    with Agent(limited).open({}, "raises") as agent:
        assert (
            "ORSWEB_MAX_RESULT_BYTES allows 50000"
            in agent.call("huge", {"size_bytes": 60_000}).error
        )
        assert agent.call("huge", {"size_bytes": 40_000}).output["reward"] == 0.1
    assert [step.status for step in record.steps(agent.sid)] == ["failed", "ok"]


def test_it_tells_the_stack_where_it_is_asked_to(limited: LiveServer) -> None:
    with Agent(limited).open({}, "raises") as agent:
        error = agent.call("fault").error
    assert error.startswith("Traceback (most recent call last):")
    assert error.rstrip().endswith("RuntimeError: the valve is stuck")
    assert "/environments/runtime/" not in error
