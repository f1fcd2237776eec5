"""Tests of what happens to running calls, to environments and to the process when the server is
asked to stop."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.conformance.clients import OrsClient
from tests.server import LiveServer

SID = {"X-Session-ID": "notes"}
OTHER = {"X-Session-ID": "later"}
QUICK_STOP = {"ORSWEB_SHUTDOWN_TIMEOUT": "6"}
LONG_SECONDS = 15
"""ors-sdk 0.1.0 pings every 10 s, and gives up 3 s after the server stopped to answer."""


class Agent(threading.Thread):
    """Plays one call of `tests.envs:Slow` in a thread of its own; `answer` is the call's whole
    stream."""

    def __init__(self, server: LiveServer, notes: Path, tool: str, seconds: float) -> None:
        super().__init__(daemon=True)
        self.url, self.notes, self.answer = server.url, notes, ""
        self.call = {"name": tool, "input": {"seconds": seconds}}

    def run(self) -> None:
        task = {"task_spec": {"id": "train-0", "log": str(self.notes)}}
        with httpx.Client(
            base_url=self.url, headers={"X-Session-ID": self.notes.name}, timeout=60
        ) as client:
            client.post("/create", json=task).raise_for_status()
            with client.stream("POST", "/slow/call", json=self.call) as stream:
                self.answer = stream.read().decode()

    def play(self) -> None:
        """Start and wait until the tool runs."""
        self.start()
        _until(lambda: self.notes.exists() and "starts" in self.notes.read_text())


def _until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


@pytest.fixture
def server() -> Iterator[LiveServer]:
    with LiveServer("tests.envs:Slow", env=QUICK_STOP) as running:
        yield running


def test_it_answers_a_running_call_and_tears_its_environment_down(
    server: LiveServer, notes: Path
) -> None:
    agent = Agent(server, notes, "wait", 0.5)
    agent.play()
    status = server.stop()
    agent.join(60)
    assert status == 0
    assert "event: end" in agent.answer
    assert notes.read_text().splitlines()[-1] == "teardown"


def test_it_answers_the_first_request_of_a_connection_that_was_accepted_before(
    server: LiveServer,
) -> None:
    request, address = (
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ("127.0.0.1", server.port),
    )
    with socket.create_connection(address) as used, socket.create_connection(address) as fresh:
        used.sendall(request)
        assert used.recv(4096).startswith(b"HTTP/1.1 200")
        server.process.send_signal(signal.SIGTERM)
        used.settimeout(30)
        assert used.recv(4096) == b""  # the server has closed all that wait for nothing
        fresh.sendall(request)
        fresh.settimeout(30)
        answer = b"".join(iter(lambda: fresh.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 200") and b"connection: close" in answer.lower()


def test_it_ends_in_time_although_calls_hang(server: LiveServer, tmp_path: Path) -> None:
    agents = [Agent(server, tmp_path / tool, tool, 600) for tool in ("sleep", "wait")]
    for agent in agents:
        agent.play()
    assert server.stop() == 0
    for agent in agents:
        agent.join(60)
        assert "event: error" in agent.answer
    assert "Traceback" not in server.log


def test_it_answers_clients_of_running_calls_and_refuses_what_is_new_while_it_stops(
    notes: Path,
) -> None:
    with LiveServer("tests.envs:Slow") as server:  # with half a minute to stop in
        agent = Agent(server, notes, "wait", 3)
        agent.play()
        server.process.send_signal(signal.SIGTERM)
        with httpx.Client(base_url=server.url, headers=SID) as client:
            _until(
                lambda: (
                    client.post("/create", json={"task_spec": {}}, headers=OTHER).status_code == 503
                )
            )
            assert client.post("/ping").json() == {"status": "ok"}
            refused = client.post("/slow/call", json={"name": "wait", "input": {"seconds": 0}})
            assert (refused.status_code, refused.headers["X-Backend-State"]) == (503, "starting")
        assert not agent.answer and server.returncode is None
        agent.join(60)
        assert "event: end" in agent.answer


def test_it_answers_the_call_of_a_real_client_that_takes_longer_than_its_pings(notes: Path) -> None:
    with (
        LiveServer("tests.envs:Slow") as server,
        OrsClient(server) as ors,
        ThreadPoolExecutor(1) as player,
    ):
        environment = ors.environment("slow")
        task = environment.get_task("train", 0)
        task.task_spec["log"] = str(notes)
        with environment.session(task) as session:
            call = player.submit(session.call_tool, "wait", {"seconds": LONG_SECONDS})
            _until(lambda: notes.exists() and "starts" in notes.read_text())
            assert server.stop() == 0
            assert call.result(timeout=60).blocks[0].text == "waited"


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
    with LiveServer("tests.envs:Slow", env={"ORSWEB_SHUTDOWN_TIMEOUT": "600"}) as server:
        with httpx.stream("GET", f"{server.url}/events/?channel=episodes", timeout=60) as page:
            next(page.iter_lines())
            assert server.stop() == 0
        assert "Traceback" not in server.log
