"""Tests of what happens to running calls, to environments and to the process when the server is asked to stop."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.server import LiveServer

SID = {"X-Session-ID": "stopping"}
QUICK_STOP = {"ORSWEB_SHUTDOWN_TIMEOUT": "3"}


class Agent(threading.Thread):
    """Plays one call of `tests.envs:Slow` in a thread of its own; `answer` is the call's whole stream."""

    def __init__(self, server: LiveServer, notes: Path, tool: str, seconds: float) -> None:
        super().__init__(daemon=True)
        self.url, self.notes, self.answer = server.url, notes, ""
        self.call = {"name": tool, "input": {"seconds": seconds}}

    def run(self) -> None:
        task = {"task_spec": {"id": "train-0", "log": str(self.notes)}}
        with httpx.Client(base_url=self.url, headers=SID, timeout=60) as client:
            client.post("/create", json=task).raise_for_status()
            with client.stream("POST", "/slow/call", json=self.call) as stream:
                self.answer = stream.read().decode()

    def play(self) -> None:
        """Start and wait until the tool runs."""
        self.start()
        deadline = time.monotonic() + 30
        while not (self.notes.exists() and "starts" in self.notes.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


@pytest.fixture
def server() -> Iterator[LiveServer]:
    with LiveServer("tests.envs:Slow", env=QUICK_STOP) as running:
        yield running


def test_it_answers_a_running_call(server: LiveServer, notes: Path) -> None:
    agent = Agent(server, notes, "wait", 0.5)
    agent.play()
    status = server.stop()
    agent.join(10)
    assert status == 0
    assert "event: end" in agent.answer


def test_it_tears_environments_down(server: LiveServer, notes: Path) -> None:
    Agent(server, notes, "wait", 0.1).play()
    server.stop()
    assert notes.read_text().splitlines()[-1] == "teardown"


@pytest.mark.parametrize("tool", ["sleep", "wait"])
def test_it_ends_in_time_although_a_call_hangs(server: LiveServer, notes: Path, tool: str) -> None:
    agent = Agent(server, notes, tool, 600)
    agent.play()
    asked = time.monotonic()
    status = server.stop()
    agent.join(10)
    assert (status, "event: error" in agent.answer) == (0, True)
    assert time.monotonic() - asked < 20
    assert "Traceback" not in server.log


def test_it_refuses_new_connections_while_it_stops(notes: Path) -> None:
    with LiveServer("tests.envs:Slow") as server:  # with half a minute to stop in
        agent = Agent(server, notes, "wait", 4)
        agent.play()
        server.process.send_signal(signal.SIGTERM)
        while server.is_healthy():
            assert not agent.answer
        assert server.returncode is None
        agent.join(10)


def test_it_ends_although_a_thread_of_an_author_hangs(tmp_path: Path) -> None:
    (tmp_path / "stuck.py").write_text(
        "import asyncio, time\n"
        "from tests.envs import Echo\n"
        "class Stuck(Echo):\n"
        "    async def setup(self):\n"
        "        asyncio.get_running_loop().run_in_executor(None, time.sleep, 600)\n"
    )
    with LiveServer("stuck:Stuck", env=QUICK_STOP, cwd=tmp_path) as server:
        httpx.post(f"{server.url}/create", json={"task_spec": {}}, headers=SID).raise_for_status()
        httpx.get(f"{server.url}/stuck/prompt", headers=SID).raise_for_status()
        assert server.stop() == 0


def test_an_open_page_does_not_hold_it_up() -> None:
    with LiveServer("tests.envs:Slow") as server:  # with half a minute to stop in
        with httpx.stream("GET", f"{server.url}/events/?channel=episodes", timeout=60) as page:
            next(page.iter_lines())
            asked = time.monotonic()
            assert server.stop() == 0
        assert time.monotonic() - asked < 10
        assert "Traceback" not in server.log
