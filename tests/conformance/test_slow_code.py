"""Forty sessions whose plain code blocks its thread delay no other session, wherever in the
environment it blocks.

They block until the test releases them, so everything answered before that did not wait for any of
them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conformance.agent import Agent, eventually, lines
from tests.server import LiveServer

SESSIONS = 40
CALLS = 20


def play_blocked(server: LiveServer, environment: str, task: dict[str, str]) -> None:
    with Agent(server).open(task, environment) as agent:
        if task["where"] == "tool":
            assert agent.call("work").output["finished"]
        else:
            assert agent.get("/prompt").status_code == 200


@pytest.mark.parametrize(
    ("environment", "where"),
    [
        ("blocking", "constructor"),
        ("blocking", "setup"),
        ("blocking", "prompt"),
        ("blocking", "tool"),
        ("orsblocking", "tool"),
    ],
)
def test_it_answers_others_at_once(
    server: LiveServer, tmp_path: Path, environment: str, where: str
) -> None:
    log, released = tmp_path / "log", tmp_path / "released"
    task = {"where": where, "log": str(log), "until": str(released)}
    with Agent(server).open({"id": 1}, "slow") as other, ThreadPoolExecutor(SESSIONS) as players:
        blocked = [players.submit(play_blocked, server, environment, task) for _ in range(SESSIONS)]
        eventually(lambda: len(lines(log)) == SESSIONS)
        answered = [other.call("echo", {"text": "hi"}).text for _ in range(CALLS)]
        still_blocked = [not player.done() for player in blocked]
        released.touch()
        assert answered == ["hi"] * CALLS and all(still_blocked)
        for player in blocked:
            player.result(timeout=30)
