"""Forty sessions whose plain code blocks its thread delay no other session, wherever in the environment it blocks."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conformance.agent import Agent, eventually, lines
from tests.conformance.envs import BLOCKED_SECONDS
from tests.server import LiveServer

SESSIONS = 40
LONGEST_CALL_SECONDS = 1.0


def play_blocked(server: LiveServer, environment: str, where: str, log: Path) -> None:
    with Agent(server).open({"where": where, "log": str(log)}, environment) as agent:
        if where == "tool":
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
def test_it_answers_others_at_once(server: LiveServer, tmp_path: Path, environment: str, where: str) -> None:
    log = tmp_path / "log"
    with Agent(server).open({"id": 1}, "slow") as other, ThreadPoolExecutor(SESSIONS) as players:
        blocked = [players.submit(play_blocked, server, environment, where, log) for _ in range(SESSIONS)]
        eventually(lambda: len(lines(log)) == SESSIONS)
        durations: list[float] = []
        while not any(player.done() for player in blocked) and len(durations) < 20:
            started = time.monotonic()
            other.call("echo", {"text": "hi"})
            durations.append(time.monotonic() - started)
        assert durations
        assert max(durations) < LONGEST_CALL_SECONDS < BLOCKED_SECONDS
        for player in blocked:
            player.result(timeout=30)
