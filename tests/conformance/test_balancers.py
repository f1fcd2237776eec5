"""nginx and HAProxy with the configurations of docs/balancers, in front of two servers on one
PostgreSQL database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect
from websockets.typing import Origin

from tests import programs
from tests.conformance.agent import Agent, eventually, lines
from tests.conformance.clients import OpenRewardClient, OrsClient
from tests.proxies import PASSWORD, begin_to_play, cookies_of, haproxy, log_in, nginx
from tests.server import ROOT, LiveServer, free_port

KEY = "secret-of-alice"
FILES = {
    "nginx": (nginx, "nginx.conf", "listen 80;", "listen {};"),
    "haproxy": (haproxy, "haproxy.cfg", "bind :80 ", "bind :{} "),
}
MEGABYTES_31 = 31 * 2**20


@dataclass
class Balanced:
    """Two servers, and the address of a balancer in front of them."""

    servers: tuple[LiveServer, LiveServer]
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def agent(self) -> Agent:
        agent = Agent(self.servers[0], **{"X-API-Key": KEY})
        agent.http.base_url = httpx.URL(self.url)
        return agent


@pytest.fixture(scope="module")
def servers(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[tuple[LiveServer, LiveServer], Path]]:
    log = tmp_path_factory.mktemp("balancers") / "log"
    settings = {
        "ORSWEB_API_KEYS": f"alice:{KEY}",
        "ORSWEB_KEEPALIVE": "0.2",
        "ADDING_LOG": str(log),
    }
    first = LiveServer("tests.envs_returning:Adding", "tests.envs_slow:Slow", env=settings)
    second = LiveServer(*first.args, env=settings, beside=first)
    for server in (first, second):
        server.env["ORSWEB_CLUSTER"] = str(server.data_dir / f"{server.port}.sock")
    with first, second:
        account = first.env | {"DJANGO_SUPERUSER_PASSWORD": PASSWORD}
        who = ("--username", "ann", "--email", "ann@example.org")
        programs.run("createsuperuser", "--noinput", *who, env=account, check=True)
        yield (first, second), log


@pytest.fixture(params=FILES, scope="module")
def balanced(
    request: pytest.FixtureRequest,
    servers: tuple[tuple[LiveServer, LiveServer], Path],
    tmp_path_factory: Any,
) -> Iterator[Balanced]:
    run, name, listens, replaced = FILES[request.param]
    (first, second), log = servers
    port, text = free_port(), (ROOT / "docs/balancers" / name).read_text()
    addresses = {
        "10.0.0.11:8080": f"127.0.0.1:{first.port}",
        "10.0.0.12:8080": f"127.0.0.1:{second.port}",
    }
    for ours, theirs in {listens: replaced.format(port), **addresses}.items():
        assert ours in text
        text = text.replace(ours, theirs)
    with run(tmp_path_factory.mktemp(request.param), text, port):
        yield Balanced((first, second), port, log)


def test_sessions_are_spread_and_each_stays_at_its_server(balanced: Balanced) -> None:
    players = []
    for number in range(12):
        agent = balanced.agent().open({"id": number}, "adding")
        players.append({agent.call("process").text for _ in range(3)})
    assert all(len(processes) == 1 for processes in players)
    assert len(set.union(*players)) == 2


def test_a_stream_arrives_while_the_call_runs(balanced: Balanced, tmp_path: Path) -> None:
    log = tmp_path / "log"
    agent = balanced.agent().open({"log": str(log)}, "slow")
    call = {"name": "wait", "input": {"seconds": 2}}
    with agent.http.stream(
        "POST", "/call", json=call, headers={"X-Session-ID": agent.sid}
    ) as answer:
        pieces = answer.iter_raw()
        assert next(pieces) and "wait ends" not in log.read_text()
        assert b"waited" in b"".join(pieces)


def test_people_play_over_a_websocket(balanced: Balanced) -> None:
    with httpx.Client(base_url=balanced.url, timeout=60) as browser:
        log_in(browser, balanced.url)
        episode, cookies = begin_to_play(browser, "slow"), cookies_of(browser)
    address = f"{balanced.url.replace('http', 'ws')}/ws/play/{episode}/?after=-1"
    with connect(
        address, origin=Origin(balanced.url), additional_headers={"Cookie": cookies}
    ) as player:
        player.send(
            json.dumps(
                {"type": "call", "tool": "echo", "input": {"text": "hello"}, "task_id": "first"}
            )
        )
        while (message := json.loads(player.recv(timeout=30)))["type"] != "step":
            pass
    assert "hello" in message["html"]


@pytest.mark.parametrize(("size", "status"), [(MEGABYTES_31, 422), (MEGABYTES_31 + 2**21, 413)])
def test_large_bodies_reach_the_server(balanced: Balanced, size: int, status: int) -> None:
    body = b'{"split": "train", "unknown": "' + b"x" * size + b'"}'
    with balanced.agent().http as client:
        answer = client.post(
            "/slow/tasks", content=body, headers={"Content-Type": "application/json"}
        )
    assert (answer.status_code, "unknown" in answer.text) == (status, status == 422)


def test_clients_go_on_when_the_server_of_their_session_dies(balanced: Balanced) -> None:
    """Both servers die in turn while a call runs, so each session loses its own at least once."""
    clients = [
        one(balanced.servers[0], KEY, url=balanced.url) for one in (OrsClient, OpenRewardClient)
    ]
    with clients[0], clients[1], ThreadPoolExecutor() as threads:
        sessions = [
            client.environment("adding").session(split="train", index=0) for client in clients
        ]
        for session in sessions:
            session.__enter__()
        for number, server in enumerate(balanced.servers):
            before = lines(balanced.log).count("add 5 starts")
            running: list[Future[str]] = [
                threads.submit(_added, session, 5, 1.0) for session in sessions
            ]
            eventually(lambda: lines(balanced.log).count("add 5 starts") == before + 2)  # noqa: B023 # within the turn
            server.kill()
            assert [one.result(60) for one in running] == [str(number * 6 + 5)] * 2
            assert [_added(session, 1) for session in sessions] == [str(number * 6 + 6)] * 2
            server.start()
            balanced.agent().open({"id": 1}, "adding").close()
        for session in sessions:
            session.__exit__(None, None, None)


def _added(session: Any, number: int, seconds: float = 0.0) -> str:
    return str(session.call_tool("add", {"number": number, "seconds": seconds}).blocks[0].text)
