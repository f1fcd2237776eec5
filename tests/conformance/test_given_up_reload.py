"""`ORSWEB_PROCESSES=2`: a reload whose servers never become ready ends, and the old ones go on until the next one."""

from __future__ import annotations

from pathlib import Path

import psutil

from tests.conformance.agent import Agent, eventually
from tests.conformance.reloading import ready_since, reload, visited, write
from tests.server import LiveServer

NEVER_READY = (
    "deaths = open('deaths', 'a'); print('.', end='', file=deaths, flush=True); "
    "deaths.tell() > 2 or os._exit(3); time.sleep(600)"
)
"""The new servers, which list their tasks one after the other, die twice, and then hang."""


def servers(server: LiveServer) -> set[int]:
    return {one.pid for one in psutil.Process(server.process.pid).children()}


def is_ready(server: LiveServer) -> bool:
    """Return whether all servers are ready, without which there is nothing to reload."""
    return len(servers(server)) == 2 and any(ready_since(server))


def version(server: LiveServer) -> str:
    with Agent(server).open({"id": 1}) as agent:
        return agent.call("version").text


def test_the_old_servers_go_on_and_can_be_reloaded_again(tmp_path: Path) -> None:
    write(tmp_path, "one")
    variables = {
        "ORSWEB_PROCESSES": "2",
        "ORSWEB_RELOAD_WAIT": "0.3",
        "ORSWEB_RELOAD_LIMIT": "10",
    }
    with (
        LiveServer("changing_env:Changing", cwd=tmp_path, env=variables) as server,
        visited(server, pause_seconds=0.1) as problems,
    ):
        eventually(lambda: is_ready(server))
        old = servers(server)
        write(tmp_path, "two", NEVER_READY)
        status, text = reload(server)
        assert status == 1
        assert "The new servers were not ready after 10 s (ORSWEB_RELOAD_LIMIT)" in text
        assert server.log.count("the server died and is started again") == 2
        eventually(lambda: servers(server) == old)
        assert version(server) == "one"
        write(tmp_path, "three")
        assert reload(server) == (0, "The server goes on with the new code.\n")
        assert version(server) == "three"
        eventually(lambda: len(servers(server)) == 2 and not servers(server) & old)
        assert not problems
        assert server.stop() == 0
