"""An agent's request is answered however it is sent, and its connection is kept or closed as it
requests."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.server import LiveServer

HOST = b"Host: localhost\r\n"
SESSION = b"X-Session-ID: nobody\r\nContent-Type: application/json\r\n"
CALL = b'{"name": "echo", "input": {}}'


@pytest.fixture
def connection(server: LiveServer) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connected:
        yield connected


def ask(connection: socket.socket, *pieces: bytes) -> None:
    for piece in pieces:
        connection.sendall(piece)


def answer(connection: socket.socket) -> tuple[bytes, bytes]:
    """Return the head and body of the next response. Raises: AssertionError at the end of the
    connection."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        assert byte, f"the connection ended after {head!r}"
        head += byte
    length = next(
        (
            int(line.split(b":")[1])
            for line in head.splitlines()
            if line.startswith(b"content-length")
        ),
        0,
    )
    body = b""
    while len(body) < length:
        body += connection.recv(length - len(body))
    return head, body


def status(connection: socket.socket) -> int:
    return int(answer(connection)[0].split()[1])


@pytest.mark.parametrize(
    "request_line",
    [b"GET /health HTTP/1.1\r\n", b"GET /h%65alth HTTP/1.1\r\n", b"GET //health?a=b HTTP/1.1\r\n"],
)
def test_it_answers_one_request_after_another(
    connection: socket.socket, request_line: bytes
) -> None:
    for _ in range(3):
        ask(connection, request_line, HOST, b"\r\n")
        assert status(connection) == 200


def test_it_takes_a_body_in_pieces(connection: socket.socket) -> None:
    ask(
        connection,
        b"POST /call HTTP/1.1\r\n",
        HOST,
        SESSION,
        b"Content-Length: %d\r\n\r\n" % len(CALL),
    )
    ask(connection, *(CALL[at : at + 1] for at in range(len(CALL))))
    assert status(connection) == 404


def test_it_takes_a_body_in_chunks(connection: socket.socket) -> None:
    ask(
        connection, b"POST /call HTTP/1.1\r\n", HOST, SESSION, b"Transfer-Encoding: chunked\r\n\r\n"
    )
    ask(connection, b"5\r\n", CALL[:5], b"\r\n%x\r\n" % len(CALL[5:]), CALL[5:], b"\r\n0\r\n\r\n")
    assert status(connection) == 404


def test_it_answers_pipelined_requests_in_order(connection: socket.socket) -> None:
    ask(
        connection,
        (
            b"GET /health HTTP/1.1\r\n"
            + HOST
            + b"\r\n"
            + b"GET /nothing/at/all HTTP/1.1\r\n"
            + HOST
            + b"\r\n"
        )
        * 3,
    )
    assert [status(connection) for _ in range(6)] == [200, 404] * 3


def test_it_tells_a_client_that_waits_to_go_on(connection: socket.socket) -> None:
    ask(connection, b"POST /call HTTP/1.1\r\n", HOST, SESSION, b"Expect: 100-continue\r\n")
    ask(connection, b"Content-Length: %d\r\n\r\n" % len(CALL))
    assert status(connection) == 100
    ask(connection, CALL)
    assert status(connection) == 404


@pytest.mark.parametrize(
    "request_line", [b"GET /health HTTP/1.0\r\n", b"GET /health HTTP/1.1\r\nConnection: close\r\n"]
)
def test_it_closes_the_connection_when_it_is_asked_to(
    connection: socket.socket, request_line: bytes
) -> None:
    ask(connection, request_line, HOST, b"\r\n")
    head, _ = answer(connection)
    assert b"connection: close" in head.lower()
    assert connection.recv(1) == b""


def test_it_refuses_a_body_that_says_it_is_too_large_before_it_comes(
    connection: socket.socket,
) -> None:
    ask(
        connection,
        b"POST /call HTTP/1.1\r\n",
        HOST,
        SESSION,
        b"Content-Length: 999999999999\r\n\r\n",
    )
    assert status(connection) == 413


def test_it_refuses_a_body_that_becomes_too_large(connection: socket.socket) -> None:
    ask(
        connection, b"POST /call HTTP/1.1\r\n", HOST, SESSION, b"Transfer-Encoding: chunked\r\n\r\n"
    )
    mebibyte = b"100000\r\n" + b" " * 1_048_576 + b"\r\n"
    ask(connection, *[mebibyte] * 65, b"0\r\n\r\n")
    assert status(connection) == 413
    ask(connection, b"GET /health HTTP/1.1\r\n", HOST, b"\r\n")
    assert status(connection) == 200


@pytest.mark.parametrize("length", [b"Content-Length: 33554432", b"Transfer-Encoding: chunked"])
def test_it_refuses_a_foreign_host_before_a_large_body_has_come(
    connection: socket.socket, length: bytes
) -> None:
    ask(connection, b"POST /call HTTP/1.1\r\nHost: evil.example\r\n", SESSION, length, b"\r\n\r\n")
    ask(connection, b"100000\r\n", *[b" " * 65_536] * 16)
    assert status(connection) == 400


def test_it_refuses_a_foreign_host_whatever_it_says_of_its_body(connection: socket.socket) -> None:
    ask(
        connection,
        b"POST /call HTTP/1.1\r\nHost: evil.example\r\n",
        SESSION,
        b"Content-Length: 999999999999\r\n\r\n",
    )
    assert status(connection) == 400


def test_a_path_cannot_put_a_line_into_the_answer(connection: socket.socket) -> None:
    ask(connection, b"GET /health%0d%0aX-Odd:%20yes/ HTTP/1.1\r\n", HOST, b"\r\n")
    head, _ = answer(connection)
    assert b"x-odd" not in head.lower().replace(b"%0d%0ax-odd", b"")


@pytest.mark.parametrize("method", [b"OPTIONS", b"PUT"])
def test_it_refuses_other_methods(connection: socket.socket, method: bytes) -> None:
    ask(connection, method, b" /call HTTP/1.1\r\n", HOST, b"\r\n")
    assert status(connection) == 405
