"""Requests that are no HTTP/1.1 that this server speaks: each is answered once, in JSON, and its
connection closed."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator

import httpx
import pytest

from tests.rows import each
from tests.server import LiveServer

KEY = "lab-key-0123456789"
HOST = "Host: 127.0.0.1\r\n"
CHUNKED = f"{HOST}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer("tests.envs:Echo", env={"ORSWEB_API_KEYS": f"lab:{KEY}"}) as running:
        yield running


def answers(server: LiveServer, text: str) -> list[tuple[int, str]]:
    """Send a text; return status and body of each answer when the server has closed the
    connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
        client.sendall(text.encode("latin-1"))
        received = b"".join(iter(lambda: client.recv(65_536), b"")).decode()
    _, *statuses = re.split(r"HTTP/1\.1 (\d{3}) ", received)
    return [
        (int(status), rest.partition("\r\n\r\n")[2])
        for status, rest in zip(*[iter(statuses)] * 2, strict=True)
    ]


REFUSED = {
    "two Hosts": (400, "2 Host headers", f"GET /health HTTP/1.1\r\n{HOST}Host: b\r\n\r\n"),
    "the same Host twice, a page": (
        400,
        "2 Host headers",
        f"GET /accounts/login/ HTTP/1.1\r\n{HOST}{HOST}\r\n",
    ),
    "two Hosts of a socket": (
        400,
        "2 Host headers",
        f"GET /ws/play/1/ HTTP/1.1\r\n{HOST}{HOST}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    ),
    "two Hosts of HTTP/1.0": (400, "2 Host headers", f"GET /health HTTP/1.0\r\n{HOST}{HOST}\r\n"),
    "no Host": (400, "0 Host headers", "GET /accounts/login/ HTTP/1.1\r\n\r\n"),
    "HTTP/2.0": (505, "HTTP/2.0", f"GET /health HTTP/2.0\r\n{HOST}\r\n"),
    "HTTP/2.0, a page": (505, "HTTP/2.0", f"GET /accounts/login/ HTTP/2.0\r\n{HOST}\r\n"),
    "HTTP/2 with prior knowledge": (505, "HTTP/2.0", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "HTTP/3": (505, "HTTP/3.0", f"GET /health HTTP/3\r\n{HOST}\r\n"),
    "HTTP/0.9": (505, "HTTP/0.9", "GET /health\r\n\r\n"),
    "unknown version": (505, "HTTP/9.9", f"GET /health HTTP/9.9\r\n{HOST}\r\n"),
    "no HTTP": (400, "not valid HTTP", "\x16\x03\x01\x02\r\n\r\n"),
    "bad chunk": (400, "chunk size", f"POST /create HTTP/1.1\r\n{CHUNKED}zz\r\n"),
    "bad chunk after a good one": (
        400,
        "chunk",
        f"POST /create HTTP/1.1\r\n{CHUNKED}2\r\n{{}}\r\nzz\r\n",
    ),
    "chunk without an end": (400, "chunk", f"POST /create HTTP/1.1\r\n{CHUNKED}2\r\n{{}}x\r\n"),
    "bad chunk, a page": (
        400,
        "chunk size",
        f"POST /accounts/login/ HTTP/1.1\r\n{CHUNKED}2\r\nab\r\nzz\r\n",
    ),
    "bad chunk, the API": (400, "chunk size", f"POST /api/runs HTTP/1.1\r\n{CHUNKED}zz\r\n"),
    "bad chunk, HTTP/1.0": (400, "chunk size", f"POST /create HTTP/1.0\r\n{CHUNKED}zz\r\n"),
    "unknown coding": (
        501,
        "'gzip'",
        f"POST /create HTTP/1.1\r\n{HOST}Transfer-Encoding: gzip\r\n\r\nab",
    ),
    "two codings": (
        501,
        "'gzip, chunked'",
        f"POST /create HTTP/1.1\r\n{HOST}Transfer-Encoding: gzip, chunked\r\n\r\n",
    ),
    "chunked twice": (
        400,
        "Transfer-Encoding",
        f"POST /create HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\nTransfer-Encoding: "
        "chunked\r\n\r\n",
    ),
    "unknown coding, a page": (
        501,
        "'x'",
        f"POST /accounts/login/ HTTP/1.1\r\n{HOST}Transfer-Encoding: x\r\n\r\n",
    ),
    "coding and length": (
        400,
        "Content-Length",
        f"POST /create HTTP/1.1\r\nContent-Length: 2\r\n{CHUNKED}2\r\n{{}}",
    ),
    "two lengths": (
        400,
        "Content-Length",
        f"POST /create HTTP/1.1\r\n{HOST}Content-Length: 2\r\nContent-Length: 3\r\n\r\n",
    ),
    "address that is none": (400, "address", f"GET http:// HTTP/1.1\r\n{HOST}\r\n"),
}


@each("name", REFUSED)
def test_it_is_answered_in_json(server: LiveServer, name: str) -> None:
    status, reason, text = REFUSED[name]
    [(answer, body)] = answers(server, text)
    assert (answer, reason in json.loads(body)["detail"]) == (status, True), body
    assert server.is_healthy()


@each("path", ["/health", "/accounts/login/"])
@each(
    "malformed",
    ["\x16\x03\r\n\r\n", f"POST /create HTTP/1.1\r\n{CHUNKED}zz\r\n", "GET / HTTP/2.0\r\n\r\n"],
)
def test_what_was_asked_before_it_is_answered_first(
    server: LiveServer, path: str, malformed: str
) -> None:
    valid = f"GET {path} HTTP/1.1\r\n{HOST}\r\n"
    assert [status for status, _ in answers(server, valid + valid + malformed)][:2] == [200, 200]
    assert [status >= 400 for status, _ in answers(server, valid + malformed)] == [False, True]


def test_a_page_that_waits_in_the_queue_is_withdrawn(server: LiveServer) -> None:
    page = f"GET /accounts/login/ HTTP/1.1\r\n{HOST}\r\n"
    form = f"POST /accounts/login/ HTTP/1.1\r\n{CHUNKED}2\r\nab\r\nzz\r\n"
    assert [status for status, _ in answers(server, page + form)] == [200, 400]


def test_a_body_that_was_refused_before_it_went_wrong_has_one_answer(server: LiveServer) -> None:
    piece = f"{20_000:x}\r\n{'x' * 20_000}\r\n"
    request = f"POST /create HTTP/1.1\r\nX-API-Key: wrong-key-012\r\n{CHUNKED}{piece}"
    assert [status for status, _ in answers(server, f"{request}zz\r\n")] == [401]


def test_ordinary_requests_are_served_as_before(server: LiveServer) -> None:
    with httpx.Client(base_url=server.url, headers={"X-API-Key": KEY}) as client:
        # in chunks
        assert client.post("/create_session", content=iter([b"{", b"}"])).status_code == 200
        assert client.get("/health").status_code == 200
