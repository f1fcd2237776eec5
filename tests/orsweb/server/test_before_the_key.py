"""What a client without a key or a login can make the server take: nothing that grows with what it
sends."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import psutil
import pytest

from tests.rows import each
from tests.server import LiveServer

MEGABYTE = 1024 * 1024
BODY_BYTES = 31 * MEGABYTE
KEY = "correct-horse"
DOORS = {
    "POST /create": 401,
    "POST /mcp/echo": 401,
    "POST /v1/rollouts/events": 401,
    "PUT /api/runs/by-name/one": 401,
    "POST /admin/environments/task/import/": 413,
    "POST /accounts/login/": 413,
}


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer("tests.envs:Echo", env={"ORSWEB_API_KEYS": f"lab:{KEY}"}) as running:
        httpx.get(f"{running.url}/accounts/login/", timeout=60)  # loads the pages
        yield running


def begin(server: LiveServer, door: str, *headers: str, is_chunked: bool = False) -> socket.socket:
    """Open a connection and send the header of a request with a body."""
    length = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {BODY_BYTES}"
    lines = [
        f"{door} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        length,
        *headers,
        "",
        "",
    ]
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    connection.sendall("\r\n".join(lines).encode())
    return connection


def status(connection: socket.socket) -> int:
    return int(connection.recv(65536).split()[1])


def files_of(server: LiveServer) -> list[str]:
    folder = Path(f"/proc/{server.pid}/fd")
    return [str(file.readlink()) for file in folder.iterdir() if file.exists() or file.is_symlink()]


def test_thirty_uploads_without_a_key_take_no_memory(server: LiveServer) -> None:
    process, piece = psutil.Process(server.pid), b" " * MEGABYTE
    before = process.memory_info().rss
    with ExitStack() as opened:
        connections = [
            (opened.enter_context(begin(server, door)), DOORS[door])
            for door in DOORS
            for _ in range(5)
        ]
        for connection, _ in connections:
            # the last megabyte is missing, so nothing is over yet
            for _ in range(BODY_BYTES // MEGABYTE - 1):
                connection.sendall(piece)
        assert process.memory_info().rss - before < 30 * MEGABYTE
        assert [status(connection) for connection, _ in connections] == [
            code for _, code in connections
        ]


@each("door", DOORS)
def test_a_body_without_a_length_is_not_taken_either(server: LiveServer, door: str) -> None:
    with begin(server, door, is_chunked=True) as connection:
        for _ in range(3):
            connection.sendall(b"%x\r\n%b\r\n" % (MEGABYTE, b" " * MEGABYTE))
        assert status(connection) == DOORS[door]


@pytest.mark.parametrize("door", ["POST /create", "POST /mcp/echo", "PUT /api/runs/by-name/one"])
def test_a_wrong_key_is_as_good_as_none(server: LiveServer, door: str) -> None:
    with begin(server, door, "X-API-Key: wrong-horse") as connection:
        assert status(connection) == 401


def test_an_answer_to_an_early_refusal_is_that_of_a_small_request(server: LiveServer) -> None:
    small, large = (
        httpx.post(f"{server.url}/mcp/echo", json={"text": "x" * size}, timeout=60)
        for size in (1, MEGABYTE)
    )
    assert (large.status_code, large.json()["error"]) == (401, small.json()["error"])


def test_a_large_body_with_a_key_is_read(server: LiveServer) -> None:
    spec = {"env_name": "echo", "task_spec": {"text": "x" * MEGABYTE}}
    headers = {"X-API-Key": KEY, "X-Session-ID": "large"}
    assert (
        httpx.post(f"{server.url}/create", json=spec, headers=headers, timeout=60).status_code
        == 200
    )


def test_uploads_of_people_wait_in_the_data_directory(tmp_path: Path) -> None:
    with LiveServer("tests.envs:Echo", env={"TMPDIR": str(tmp_path)}) as open_to_all:
        with begin(open_to_all, "POST /admin/environments/task/import/") as connection:
            connection.sendall(b" " * 10 * MEGABYTE)
            deadline = time.monotonic() + 30
            while not (found := [one for one in files_of(open_to_all) if "/uploads/" in one]):
                assert time.monotonic() < deadline, files_of(open_to_all)
                time.sleep(0.02)
        assert all(str(open_to_all.data_dir) in one for one in found)
        assert not any(str(tmp_path) in one for one in files_of(open_to_all))
