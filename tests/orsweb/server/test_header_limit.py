"""Headers that are too long are refused with an error, and the server's memory does not grow."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from tests.server import LiveServer

LIMIT = 64 * 1024
MIB = 1024 * 1024
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
PING = b"POST /ping HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture
def connection(server: LiveServer) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connected:
        yield connected


def read_answer(connection: socket.socket) -> tuple[int, bytes]:
    """Return the status and body of the next response."""
    with connection.makefile("rb") as stream:
        status = int(stream.readline().split()[1])
        length = 0
        while (line := stream.readline().strip().lower()) != b"":
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return status, stream.read(length)


def is_refused(connection: socket.socket) -> bool:
    status, body = read_answer(connection)
    detail = (
        f"The request header has more than {LIMIT} bytes, the limit set by ORSWEB_MAX_HEADER_BYTES"
    )
    return (status, json.loads(body)) == (431, {"detail": detail})


def send_much(connection: socket.socket, mebibytes: int) -> None:
    piece = b"a" * MIB
    for _ in range(mebibytes):
        connection.sendall(piece)


def test_it_takes_a_header_just_below_the_limit(connection: socket.socket) -> None:
    connection.sendall(HEALTH + b"X-Long: " + b"a" * (LIMIT - 1000) + b"\r\n\r\n")
    assert read_answer(connection)[0] == 200


def test_it_refuses_a_header_just_over_the_limit(connection: socket.socket) -> None:
    connection.sendall(HEALTH + b"X-Long: " + b"a" * (LIMIT + 1) + b"\r\n\r\n")
    assert is_refused(connection)


def test_it_refuses_many_short_headers(connection: socket.socket) -> None:
    connection.sendall(
        HEALTH + b"".join(b"X-%d: %s\r\n" % (n, b"a" * 50) for n in range(2000)) + b"\r\n"
    )
    assert is_refused(connection)


def test_it_refuses_a_long_url(connection: socket.socket) -> None:
    connection.sendall(b"GET /" + b"a" * LIMIT + b" HTTP/1.1\r\n\r\n")
    assert is_refused(connection)


def test_it_keeps_its_memory_while_200_mb_of_header_arrive(
    server: LiveServer, connection: socket.socket
) -> None:
    process = psutil.Process(server.pid)
    before = process.memory_info().rss
    connection.sendall(HEALTH + b"X-Long: ")
    send_much(connection, 200)
    assert is_refused(connection)
    assert process.memory_info().rss - before < 80 * MIB  # 43 were seen while modules were loaded


def test_it_keeps_its_memory_while_200_mb_of_trailer_arrive(
    server: LiveServer, connection: socket.socket
) -> None:
    process = psutil.Process(server.pid)
    before = process.memory_info().rss
    connection.sendall(PING + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-Long: ")
    # the request is being answered, so the connection is closed without an error
    with suppress(ConnectionError):
        send_much(connection, 200)
    assert process.memory_info().rss - before < 80 * MIB  # 43 were seen while modules were loaded


def test_it_refuses_the_second_request_of_a_connection(connection: socket.socket) -> None:
    connection.sendall(HEALTH + b"\r\n")
    first = read_answer(connection)[0]
    connection.sendall(HEALTH + b"X-Long: " + b"a" * 3 * LIMIT)
    assert first == 200
    assert is_refused(connection)


def test_it_lets_a_long_body_pass_between_short_headers(connection: socket.socket) -> None:
    connection.sendall(
        PING + b"X-Session-ID: x\r\nContent-Length: %d\r\n\r\n" % (8 * LIMIT) + b"a" * 8 * LIMIT
    )
    first = read_answer(connection)[0]
    connection.sendall(HEALTH + b"\r\n")
    assert first != 431
    assert read_answer(connection)[0] == 200


def test_it_answers_malformed_http_in_json(connection: socket.socket) -> None:
    connection.sendall(b"NONSENSE\r\n\r\n")
    status, body = read_answer(connection)
    assert (status, json.loads(body)) == (
        400,
        {"detail": "The request is not valid HTTP: Invalid method encountered"},
    )
