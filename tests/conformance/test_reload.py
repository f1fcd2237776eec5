"""`manage.py reload`: new code takes over from the old one, and no client is refused or loses its session."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.agent import Agent, eventually
from tests.conformance.clients import OpenRewardClient, OrsClient
from tests.conformance.reloading import ready_since, reload, visited, write
from tests.server import ROOT, LiveServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    here = tmp_path_factory.mktemp("reload")
    write(here, "one")
    # PYTHONPATH also makes it start a new interpreter, whose command line the supervisor can repeat
    variables = {"PYTHONPATH": f"{here}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1", "ORSWEB_RELOAD_WAIT": "0.3"}
    with LiveServer("changing_env:Changing", "changing_env:Dropping", env=variables) as running:
        yield running


def directory(server: LiveServer) -> Path:
    return Path(server.env["PYTHONPATH"].partition(":")[0])


def test_sessions_go_on_and_nobody_is_refused(server: LiveServer) -> None:
    supervisor, old = server.process.pid, server.pid
    with OrsClient(server) as ors, OpenRewardClient(server) as openreward, visited(server) as problems:
        sessions = [one.environment("changing").session(split="train", index=0) for one in (ors, openreward)]
        for session in sessions:
            session.__enter__()
            assert session.call_tool("add", {"number": 1}).blocks[0].text == "1"
        write(directory(server), "two")
        assert reload(server) == (0, "The server goes on with the new code.\n")
        for session in sessions:
            assert session.call_tool("add", {"number": 2}).blocks[0].text == "3"
            assert session.call_tool("version", {}).blocks[0].text == "two"
            session.__exit__(None, None, None)
    assert not problems
    assert server.process.pid == supervisor and server.pid != old


def test_sighup_reloads_too_and_other_sessions_end_after_a_while(server: LiveServer) -> None:
    old, since = server.pid, ready_since(server)
    agent = Agent(server).open({"id": 1}, "dropping")
    agent.call("add", {"number": 1})
    server.process.send_signal(signal.SIGHUP)
    eventually(lambda: ready_since(server) != since)
    assert server.pid not in (old, server.process.pid) and server.is_healthy()
    assert "The server was stopped before the episode had ended" in agent.post("/ping").text


def test_a_reload_that_is_asked_for_during_another_comes_after_it(server: LiveServer) -> None:
    checks = server.log.count("the new code is checked")
    server.process.send_signal(signal.SIGHUP)
    eventually(lambda: server.log.count("the new code is checked") == checks + 1)
    write(directory(server), "three")
    assert reload(server) == (0, "The server goes on with the new code.\n")
    assert server.log.count("the new code is checked") == checks + 2
    with Agent(server).open({"id": 1}, "changing") as agent:
        assert agent.call("version", {}).text == "three"


def test_it_goes_on_as_it_was_if_the_new_code_is_broken(server: LiveServer) -> None:
    old = server.pid
    (directory(server) / "changing_env.py").write_text("this is no Python")
    status, text = reload(server)
    assert status == 1
    assert text.startswith("CommandError: The server goes on as it was, because the new code cannot be served. ")
    assert "SyntaxError" in text or "changing_env" in text
    assert server.pid == old and server.is_healthy()
    assert server.stop() == 0
    assert reload(server) == (
        1,
        "CommandError: No server of this database runs on this machine. Start it with `serve`.\n",
    )
