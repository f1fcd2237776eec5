"""The follower in a process of its own, next to a real server, and in the server's process: both do
the same."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from episodes.rollups import follower_process
from episodes.rollups.follower_process import FollowerProcess
from tests.conformance.agent import Agent, eventually
from tests.server import LiveServer

pytestmark = pytest.mark.django_db

PRINTING = r"""
import os, sys
assert os.environ["DJANGO_SETTINGS_MODULE"] != "of.an.environment"
for line in (b"hello", b"", b"7", b"[1]", b"[1, 2]", b'{"a": 1}', b"\xff", b'[{"text": 7}, 0.0]', b"bye"):
    sys.stdout.buffer.write(line + b"\n")
sys.stdout.buffer.flush()
sys.stdin.read()
"""
"""A program in the place of the follower's, which prints more than reports."""


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer("tests.envs:Echo", env={"ORSWEB_FOLLOWER": "process"}) as running:
        yield running


def followers(server: LiveServer) -> list[psutil.Process]:
    children = psutil.Process(server.pid).children()
    return [one for one in children if "episodes.rollups.follower_process" in one.cmdline()]


def follower(server: LiveServer) -> psutil.Process:
    eventually(lambda: len(followers(server)) == 1)
    return followers(server)[0]


def play(server: LiveServer, word: str) -> None:
    with Agent(server).open({"id": 1}) as agent:
        agent.call("echo", {"text": word})


def is_found(server: LiveServer, word: str, count: int = 1) -> bool:
    found = httpx.get(
        f"{server.url}/api/episodes", params={"text": word}, follow_redirects=True
    ).json()
    return len(found["results"]) == count


COMPARED = (
    "episodes?text=walrus",
    "environments",
    "runs",
    "curves",
    "environments/echo/leaderboard?by=run",
)
PASSING = (
    "created",
    "ready",
    "ended",
    "acted",
    "duration",
    "session",
    "id",
    "url",
    "href",
    "snippet",
    "revision",
    "code",
)
"""Parts of the names of members that differ each time that the same is played."""


def lasting(value: Any) -> Any:
    """Return the JSON value without what differs each time."""
    if isinstance(value, dict):
        kept = {name: one for name, one in value.items() if not set(name.split("_")) & set(PASSING)}
        return {name: lasting(one) for name, one in kept.items()}
    return [lasting(one) for one in value] if isinstance(value, list) else value


def played_with(where: str) -> list[Any]:
    """Play on a server of its own until nothing is behind, and return what it says of it."""
    with LiveServer("tests.envs:Echo", env={"ORSWEB_FOLLOWER": where}) as server:
        for number in range(3):
            with Agent(server, **{"X-Run": "grpo", "X-Step": str(number)}).open(
                {"id": number}
            ) as agent:
                agent.call("echo", {"text": "walrus"})
                agent.call("nothing_like_it")
        eventually(lambda: is_found(server, "walrus", 3))
        eventually(lambda: behind(server) == {0.0})
        assert len(followers(server)) == (where == "process")
        answers = [httpx.get(f"{server.url}/api/{path}") for path in COMPARED]
    assert [answer.status_code for answer in answers] == [200] * len(COMPARED)
    return [lasting(answer.json()) for answer in answers]


def behind(server: LiveServer) -> set[float]:
    found = re.findall(
        r"follower_behind_episodes\{.*\} (.*)", httpx.get(f"{server.url}/metrics").text
    )
    return {float(count) for count in found}


def test_one_process_alone_behaves_alike() -> None:
    alone = played_with("thread")
    assert [one["figures"]["n"] for one in alone[1]] == [3]
    assert alone == played_with("process")


def test_it_starts_after_sessions_have_come_back() -> None:
    with LiveServer(
        "environments.builtin.guess:Guess", env={"ORSWEB_FOLLOWER": "process"}
    ) as server:
        with Agent(server).open(split="train", index=0) as agent:
            agent.call("guess", {"number": -1})
            server.kill()
            server.start()
            assert "out of range" in agent.call("guess", {"number": -2}).result["error"]
            assert not followers(server)
        eventually(lambda: len(followers(server)) == 1)


def test_lines_that_are_no_reports_are_skipped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "printing.py").write_text(PRINTING)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(follower_process, "__name__", "printing")
    # as an environment's module may set it
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "of.an.environment")
    following = FollowerProcess()
    following.start()
    eventually(lambda: following.places() == {"text": 7})
    following.stop(10)
    assert not following.is_alive()


def test_a_stop_of_all_processes_does_not_end_it_while_it_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "printing.py").write_text(PRINTING)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(follower_process, "__name__", "printing")
    following = FollowerProcess()
    following.start()
    eventually(lambda: following._process is not None)
    started = following._process
    assert started is not None
    started.terminate()
    eventually(lambda: following.places() == {"text": 7})
    assert following._process is started
    following.stop(10)


def test_it_has_a_lower_priority_than_the_server(server: LiveServer) -> None:
    follower(server)
    eventually(lambda: follower(server).nice() > psutil.Process(server.pid).nice())


def test_another_one_takes_the_place_of_a_killed_one(server: LiveServer) -> None:
    killed = follower(server)
    killed.kill()
    killed.wait(10)
    play(server, "narwhal")
    eventually(lambda: is_found(server, "narwhal"))
    assert follower(server).pid != killed.pid


def test_it_ends_with_the_server(server: LiveServer) -> None:
    following = follower(server)
    server.stop()
    following.wait(60)
    following = follower(server.start())
    server.kill()
    following.wait(60)
