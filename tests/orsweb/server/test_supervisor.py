"""The server's process dies under hosted code: what clients, the operator and the record see."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from orsweb.server.listening import listen
from orsweb.server.server_process import ServerPlace, ServerProcess
from orsweb.server.supervisor import POLL_SECONDS
from orsweb.server.thread_stacks import LOOP_STACK_SIGNAL, STACKS_SIGNAL
from tests.conformance.agent import Agent, eventually
from tests.server import ROOT, LiveServer


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer("tests.envs:Echo") as running:
        yield running


def test_it_starts_the_server_again_and_clients_wait_meanwhile(server: LiveServer) -> None:
    supervisor, first, starts = server.process.pid, server.pid, server.log.count("started again")
    os.kill(first, signal.SIGSEGV)
    eventually(lambda: server.log.count("started again") == starts + 1)
    # it waited in the backlog
    assert httpx.get(f"{server.url}/health", timeout=60).status_code == 200
    assert server.process.pid == supervisor and server.pid != first
    assert "by signal 11 (SIGSEGV)" in server.log
    with Agent(server).open({"id": 1}) as agent:
        assert agent.call("echo", {"text": "again"}).text == "again"


def test_it_rests_shortly_while_clients_wait(tmp_path: Path) -> None:
    process = ServerProcess(
        ServerPlace(0, listen("127.0.0.1", 0)[0], "", tmp_path), silence_seconds=100
    )
    pauses = [process.pause() for _ in range(8)]
    assert pauses[:2] == [{"pause_seconds": 0.0}, {"pause_seconds": 1.0}]
    assert pauses[-1] == {"pause_seconds": 30.0, "pause_seconds_while_clients_wait": 5.0}
    process.answer_waiting()
    assert process.starts_at - time.monotonic() > 20
    with socket.create_connection(process.place.listeners[0].getsockname()):
        process.answer_waiting()
        assert process.starts_at - time.monotonic() <= 5
    process.close()


def test_it_watches_on_after_it_was_suspended(server: LiveServer) -> None:
    starts = server.log.count("started again")
    os.kill(server.process.pid, signal.SIGSTOP)
    time.sleep(2 * POLL_SECONDS)  # its wait is over when it goes on
    os.kill(server.process.pid, signal.SIGCONT)
    os.kill(server.pid, signal.SIGKILL)
    eventually(lambda: server.log.count("started again") == starts + 1)
    assert httpx.get(f"{server.url}/health", timeout=60).status_code == 200


def test_a_stopped_server_is_not_asked_for_the_stacks_of_its_threads(server: LiveServer) -> None:
    """It would write them when its threads run again, which can end it."""
    pid, looks = server.pid, server.log.count("the event loop stands still")
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: server.log.count("the event loop stands still") > looks)
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        pending = next(int(line.split()[1], 16) for line in lines if line.startswith("ShdPnd"))
    finally:
        os.kill(pid, signal.SIGCONT)
    asked = [number for number in (LOOP_STACK_SIGNAL, STACKS_SIGNAL) if pending >> number - 1 & 1]
    assert asked == [LOOP_STACK_SIGNAL]


def test_the_sockets_listen_before_the_server_has_started() -> None:
    starting = LiveServer("tests.envs:Echo").launch()
    try:
        eventually(lambda: _connects(starting.port))
        assert httpx.get(f"{starting.url}/health", timeout=60).status_code == 200
    finally:
        starting.discard()


def _connects(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_a_server_that_dies_while_it_starts_is_not_started_again(tmp_path: Path) -> None:
    (tmp_path / "fatal.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    server = LiveServer("fatal:Env", cwd=tmp_path).launch()
    try:
        assert server.process.wait(60) == 1
        assert "The server died by signal 11 (SIGSEGV) before it was ready." in server.log
    finally:
        server.discard()


def test_code_that_holds_the_interpreters_lock_does_not_hold_up_a_stop() -> None:
    with LiveServer("tests.envs_fatal:Fatal", env={"ORSWEB_SHUTDOWN_TIMEOUT": "0.5"}) as server:
        agent = Agent(server).open({"id": 1})
        agent.begin("hold", {})
        eventually(lambda: not server.is_healthy())
        assert server.stop() == 1


def test_it_loads_its_own_code_anew_after_a_crash_if_that_has_changed(tmp_path: Path) -> None:
    """As after a `git pull`, whose modules would not fit to those that the supervisor has
    loaded."""
    # with what is compiled already, but nothing that other tests are compiling
    unfinished = shutil.ignore_patterns("*.pyc.*")
    for name in ("environments", "episodes", "orsweb", "static", "templates"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=unfinished)
    shutil.copy(ROOT / "manage.py", tmp_path)
    server = LiveServer()
    try:
        with server._log_path.open("wb") as log:
            command = [
                sys.executable,
                str(tmp_path / "manage.py"),
                "serve",
                "--port",
                str(server.port),
            ]
            server._process = subprocess.Popen(
                command, env=server.env, cwd=tmp_path, stdout=log, stderr=log
            )
        eventually(lambda: server.is_healthy() and _is_settled(server), seconds=120)
        banner = tmp_path / "orsweb/management/commands/serve.py"
        banner.write_text(banner.read_text().replace("orsweb is ready", "orsweb is newer"))
        os.kill(server.pid, signal.SIGKILL)
        eventually(lambda: "orsweb is newer" in server.log, seconds=120)
        assert server.log.count("orsweb is ready") == 1 and server.is_healthy()
        assert "the code of orsweb has changed" in server.log
    finally:
        server.discard()


def _is_settled(server: LiveServer) -> bool:
    return any(json.loads(state.read_text())["at"] for state in server.data_dir.rglob("serve.json"))
