"""`ORSWEB_PROCESSES=2`: two servers on one port and one PostgreSQL database, of which one dies, and
which reload.

A reload whose servers never become ready ends, and the old ones go on until the next one.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from django.db import connections
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import DjangoDbBlocker

from environments.cluster.leases import lease_of
from tests.conformance.agent import Agent, eventually, lines
from tests.conformance.clients import OpenRewardClient, OrsClient
from tests.conformance.record import ALIAS, recorded
from tests.conformance.reloading import reload, visited, write
from tests.server import LiveServer, children_of

_OWNER = (
    "SELECT s.pid FROM environments_sessionlease AS l JOIN environments_clusterserver AS s ON s.id "
    "= l.server_id "
    "WHERE l.session = %s"
)
NEVER_READY = (
    "import sys; is_check = '--check' in sys.argv; deaths = open('deaths', 'a'); "
    "print('' if is_check else '.', end='', file=deaths, flush=True); "
    "is_check or deaths.tell() > 2 or os._exit(3); is_check or time.sleep(600)"
)
"""The check of the new code succeeds. The new servers list their tasks one after the other: two
die, the next hangs."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("processes") / "log"


@pytest.fixture(scope="module")
def server(log: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[LiveServer]:
    settings = {"ORSWEB_PROCESSES": "2", "ORSWEB_KEEPALIVE": "0.2", "ADDING_LOG": str(log)}
    settings |= {"ORSWEB_RELOAD_WAIT": "0.3", "ORSWEB_RELOAD_LIMIT": "10"}
    write(log.parent, "one")
    running = LiveServer("changing_env:Changing", env=settings, cwd=log.parent)
    with running, recorded(running, django_db_blocker):
        yield running


def servers(server: LiveServer) -> set[int]:
    """Return the process ids of its servers."""
    return set(children_of(server.process.pid))


def player_of(server: LiveServer) -> int:
    """Play on a connection of its own; return which process has played."""
    with Agent(server).open({"id": 1}) as agent:
        return int(agent.call("process").text)


def owner_of(sid: str) -> int:
    with connections[ALIAS].cursor() as cursor:
        cursor.execute(_OWNER, [lease_of(sid)])
        return int(cursor.fetchone()[0])


def wait_for_all(server: LiveServer) -> set[int]:
    """Wait until both servers play, and nobody else; return their process ids."""
    seen = set[int]()
    eventually(lambda: seen.add(player_of(server)) or (len(seen & servers(server)) == 2))
    return servers(server)


def test_connections_are_spread_over_servers_that_share_the_work(server: LiveServer) -> None:
    assert len(wait_for_all(server)) == 2
    eventually(lambda: server.log.count("orsweb is ready") == 1)
    assert "  processes     2, on one port\n" in server.log
    assert server.log.count("this server leads") == 1


def test_clients_go_on_when_the_process_of_their_session_dies(
    server: LiveServer, log: Path
) -> None:
    before = wait_for_all(server)
    with (
        OrsClient(server) as ors,
        OpenRewardClient(server) as openreward,
        ThreadPoolExecutor() as threads,
    ):
        sessions = [
            one.environment("changing").session(split="train", index=0) for one in (ors, openreward)
        ]
        for number, session in enumerate(sessions, start=2):
            session.__enter__()
            assert added(session, number) == str(number)
            running: Future[str] = threads.submit(added, session, number * 10, 1.0)
            eventually(lambda: f"add {number * 10} starts" in lines(log))  # noqa: B023 # it is over within the turn
            os.kill(owner_of(session.sid), signal.SIGKILL)
            assert running.result(60) == str(number * 11)
            assert added(session, number * 100) == str(number * 111)
            session.__exit__(None, None, None)
    assert wait_for_all(server) != before
    assert server.log.count("the server died and is started again") == 2


def added(session: Any, number: int, seconds: float = 0.0) -> str:
    return str(session.call_tool("add", {"number": number, "seconds": seconds}).blocks[0].text)


def leases_in(metrics: str) -> float:
    found = re.findall(
        r'orsweb_cluster_leases\{server="server.\d",of="this server"\} (\S+)', metrics
    )
    return sum(map(float, found))


def test_metrics_and_the_operators_page_tell_of_all(server: LiveServer) -> None:
    wait_for_all(server)
    with Agent(server).open({"id": 1}):
        # earlier ones are deleted late
        eventually(lambda: leases_in(httpx.get(f"{server.url}/metrics").text) == 1)
        text = httpx.get(f"{server.url}/metrics").text
        page = httpx.get(f"{server.url}/operations/?part=state").text
    found = {
        sample.labels["server"]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found == {"server.0", "server.1"}
    assert sorted(re.findall(r"orsweb_cluster_leader\{.*\} (\S+)", text)) == ["0.0", "1.0"]
    assert re.findall(r"orsweb_cluster_servers\{.*\} (\S+)", text) == ["2.0", "2.0"]
    assert (
        page.count("✓ alive"),
        page.count("✕ ended"),
        page.count(">leader<"),
        page.count("<b>this one<"),
    ) == (
        2,
        2,
        1,
        1,
    )


def test_a_reload_is_given_up_or_replaces_all_and_refuses_nobody(server: LiveServer) -> None:
    supervisor, old = server.process.pid, wait_for_all(server)
    deaths = server.log.count("the server died and is started again")
    with (
        OrsClient(server) as ors,
        OpenRewardClient(server) as openreward,
        visited(server, 0.1) as problems,
    ):
        sessions = [
            one.environment("changing").session(split="train", index=0) for one in (ors, openreward)
        ]
        for session in sessions:
            session.__enter__()
            assert added(session, 1) == "1"
        write(server.cwd, "two", NEVER_READY)
        status, text = reload(server)
        assert status == 1
        assert "The new servers were not ready after 10 s (ORSWEB_RELOAD_LIMIT)" in text
        assert server.log.count("the server died and is started again") == deaths + 2
        eventually(lambda: servers(server) == old)
        assert version(server) == "one"
        write(server.cwd, "three")
        assert reload(server) == (0, "The server goes on with the new code.\n")
        assert version(server) == "three"
        assert [added(session, 2) for session in sessions] == ["3", "3"]
        for session in sessions:
            session.__exit__(None, None, None)
    assert not problems
    assert server.process.pid == supervisor
    assert not wait_for_all(server) & old


def version(server: LiveServer) -> str:
    with Agent(server).open({"id": 1}) as agent:
        return agent.call("version").text


def test_while_a_server_that_dies_again_and_again_rests_the_others_take_its_connections(
    server: LiveServer,
) -> None:
    wait_for_all(server)
    deaths = server.log.count("the server died and is started again")
    while "pause_seconds=8.0" not in server.log:
        eventually(lambda: len(servers(server)) == 2)
        os.kill(
            max(servers(server), key=lambda pid: psutil.Process(pid).create_time()), signal.SIGKILL
        )
        deaths += 1
        eventually(lambda: server.log.count("the server died and is started again") == deaths)  # noqa: B023 # it is over
    for _ in range(30):  # by chance, each would wait for the other one with a probability of a half
        assert httpx.get(f"{server.url}/health", timeout=2).status_code == 200
    assert len(servers(server)) == 1
    assert server.process.poll() is None


def test_two_programs_do_not_share_a_port(server: LiveServer) -> None:
    second = LiveServer(*server.args, cwd=server.cwd, env={"ORSWEB_PROCESSES": "2"}, beside=server)
    second.port = server.port
    assert second.launch().process.wait(60) == 1
    assert f"Port {server.port} of 127.0.0.1 is in use" in second.log


def test_a_stop_ends_all_in_order(server: LiveServer) -> None:
    assert server.stop() == 0


def test_a_problem_is_told_once() -> None:
    refused = LiveServer("no_such_module:Env", env={"ORSWEB_PROCESSES": "2"}).launch()
    assert refused.process.wait(60) == 1
    assert refused.log.count("cannot be imported") == 1
    refused.discard()
