"""Client limits: connections without progress are closed, and an address may open only so many."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import psutil
import pytest

from tests.conformance.agent import eventually
from tests.rows import each
from tests.server import LiveServer

CLIENT_TIMEOUT = 1.0
HEAD = b"POST /echo/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
PAGE = b"POST /accounts/login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\nabc"
MAX_CONNECTIONS = 1500


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    limits = {
        "ORSWEB_CLIENT_TIMEOUT": str(CLIENT_TIMEOUT),
        "ORSWEB_MAX_CONNECTIONS_PER_ADDRESS": str(MAX_CONNECTIONS),
    }
    with LiveServer("tests.envs_slow:Slow", env=limits) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def many_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connect(server: LiveServer, *pieces: bytes, source: str = "127.0.0.1") -> socket.socket:
    connection = socket.create_connection(
        ("127.0.0.1", server.port), timeout=30, source_address=(source, 0)
    )
    connection.sendall(b"".join(pieces))
    return connection


def connections_of(server: LiveServer) -> int:
    return len(
        [
            one
            for one in psutil.Process(server.pid).net_connections("tcp")
            if one.status == "ESTABLISHED"
        ]
    )


@each(
    "sent",
    [
        b"",
        HEAD,
        HEAD + b"Content-Length: 20\r\n\r\n{",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
        PAGE,
    ],
    ids=[
        "nothing",
        "half a header",
        "half a body",
        "half a body in chunks",
        "half a body of a page",
    ],
)
def test_a_half_open_connection_is_ended(server: LiveServer, sent: bytes) -> None:
    with connect(server, sent) as connection:
        assert connection.recv(1) == b""


def test_the_rest_of_a_header_that_comes_after_a_response_has_the_same_deadline(
    server: LiveServer,
) -> None:
    with connect(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /he") as connection:
        received = b""
        while piece := connection.recv(1000):
            received += piece
        assert received.startswith(b"HTTP/1.1 200")


def test_a_body_in_drops_is_ended(server: LiveServer) -> None:
    with (
        connect(server, HEAD, b"Content-Length: 3000\r\n\r\n") as connection,
        pytest.raises(OSError),
    ):
        for _ in range(3000):
            connection.sendall(b" ")
            time.sleep(0.02)


def test_a_response_that_nobody_reads_is_dropped(server: LiveServer) -> None:
    with connect(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
        eventually(lambda: connections_of(server) == 0)


def test_a_connection_that_waits_for_the_server_is_kept(server: LiveServer) -> None:
    with httpx.Client(base_url=server.url, timeout=30) as agent:
        agent.headers["X-Session-ID"] = "slow"
        agent.post("/create", json={"env_name": "slow", "task_spec": {}}).raise_for_status()
        answer = agent.post(
            "/call", json={"name": "wait", "input": {"seconds": 3 * CLIENT_TIMEOUT}}
        )
        assert "waited" in answer.text


def test_a_thousand_half_open_connections_are_gone_after_the_deadline(
    server: LiveServer,
) -> None:
    with ExitStack() as opened:
        for number in range(1000):
            opened.enter_context(connect(server, HEAD if number % 2 else b""))
        eventually(lambda: connections_of(server) == 0)
        assert httpx.get(f"{server.url}/health", timeout=30).status_code == 200


def test_an_address_has_only_so_many_connections(server: LiveServer) -> None:
    with (
        LiveServer("tests.envs:Echo", env={"ORSWEB_MAX_CONNECTIONS_PER_ADDRESS": "3"}) as small,
        ExitStack() as opened,
    ):
        eventually(lambda: connections_of(small) == 0)
        for _ in range(3):
            opened.enter_context(connect(small))
        with connect(small) as fourth:
            assert b"ORSWEB_MAX_CONNECTIONS_PER_ADDRESS" in fourth.recv(2000)
        with connect(
            small, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", source="127.0.0.2"
        ) as other:
            assert other.recv(2000).startswith(b"HTTP/1.1 200")
        opened.close()
        eventually(lambda: small.is_healthy())


def test_connections_leave_files_for_the_server_itself(tmp_path: Path) -> None:
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (400, 400))\n"
    (tmp_path / "sitecustomize.py").write_text(limit)
    with (
        LiveServer("tests.envs:Echo", env={"PYTHONPATH": str(tmp_path)}) as small,
        ExitStack() as opened,
    ):
        connections = [opened.enter_context(connect(small)) for _ in range(500)]
        assert b"ulimit -n" in connections[300].recv(2000)
        with connect(
            small, b"GET /accounts/login/ HTTP/1.1\r\nHost: localhost\r\n\r\n", source="127.0.0.2"
        ) as other:
            assert other.recv(2000).startswith(b"HTTP/1.1 302")
