"""No flood of refused requests fills the disk: each kind of refusal, on each door, writes a few
lines a minute."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import httpx
import pytest

from tests import programs
from tests.rows import each
from tests.server import LiveServer

KEY = "lab-key-0123456789"
REQUESTS = 40
MAX_BYTES = 2_200
"""A line for each request has 2,700 bytes at the least."""
LONG = "a" * 15_000
UPGRADE = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
SOCKET = f"{UPGRADE}Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
FORM = "Content-Type: application/x-www-form-urlencoded\r\n"
HIDE_LOGINS = """
from django.db import connection
connection.cursor().execute("ALTER TABLE django_session RENAME TO hidden")
"""
JSON = "Content-Type: application/json\r\n"


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer(
        "tests.envs:Echo", env={"ORSWEB_API_KEYS": f"lab:{KEY}", "ORSWEB_LOGIN_ATTEMPTS": "2"}
    ) as running:
        yield running


def request(line: str, more: str = "", body: str = "", host: str = "127.0.0.1") -> str:
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{line} HTTP/1.1\r\nHost: {host}\r\n{length}{more}\r\n{body}"


FLOODS = {
    "unknown address of the API": (404, request(f"GET /api/{LONG}", f"X-API-Key: {KEY}\r\n")),
    "unknown address of the API without a key": (404, request(f"GET /api/{LONG}")),
    "unknown address of agents": (404, request(f"GET /{LONG}")),
    "unknown address of the data API": (401, request(f"GET /v1/{LONG}")),
    "unknown invite": (404, request("GET /play/invite/secret-of-an-invite/")),
    "unknown way back to an invite": (404, request("GET /play/invite/back/secret-of-a-way-back/")),
    "address that no redirect may have": (400, request(f"GET /episodes/{LONG}{LONG}")),
    "API without a key": (401, request(f"GET /api/episodes?query={LONG}")),
    "method of the API": (405, request("DELETE /api/schema")),
    "form without a token": (403, request("POST /accounts/login/", FORM, "username=a&password=b")),
    "form of another site": (
        403,
        request("POST /accounts/login/", f"{FORM}Origin: http://{LONG}\r\n", "a=b"),
    ),
    "broken form": (
        403,
        request("POST /accounts/login/", "Content-Type: multipart/form-data\r\n", "a"),
    ),
    "wrong key": (401, request("GET /tools", f"X-API-Key: {LONG}\r\n")),
    "wrong key for the API": (401, request("GET /api/episodes", f"X-API-Key: {LONG}\r\n")),
    "wrong key for the data API": (
        401,
        request("POST /v1/rollouts", f"{JSON}X-API-Key: {LONG}\r\n", "{}"),
    ),
    "key that lacks a scope": (403, request("GET /metrics", f"X-API-Key: {KEY}\r\n")),
    "foreign Host of a page": (400, request("GET /accounts/login/", host=LONG)),
    "foreign Host of an agent": (400, request("GET /tools", host=LONG)),
    "foreign Host of MCP": (400, request("POST /mcp/echo", JSON, "{}", host=LONG)),
    "foreign Host of a socket": (403, request("GET /ws/play/1/", SOCKET, host=LONG[:8_000])),
    "MCP without a key": (401, request("POST /mcp/echo", JSON, "{}")),
    "MCP for another site": (
        403,
        request("POST /mcp/echo", f"{JSON}X-API-Key: {KEY}\r\nOrigin: http://{LONG}\r\n", "{}"),
    ),
    "malformed message of MCP": (
        400,
        request("POST /mcp/echo", f"{JSON}X-API-Key: {KEY}\r\n", "{"),
    ),
    "socket for another site": (
        403,
        request("GET /ws/play/1/", f"{SOCKET}Origin: http://{LONG[:8_000]}\r\n"),
    ),
    "socket that nobody logged in for": (
        403,
        request("GET /ws/play/1/", f"{SOCKET}Origin: http://127.0.0.1\r\n"),
    ),
    "unknown socket": (
        403,
        request(f"GET /ws/{LONG[:8_000]}", f"{SOCKET}Origin: http://127.0.0.1\r\n"),
    ),
    "unreadable request for a socket": (400, request(f"GET /ws/{LONG}", SOCKET)),
    "socket without a key of its own": (
        400,
        request("GET /ws/play/1/", f"{UPGRADE}Sec-WebSocket-Key: x\r\n"),
    ),
    "unknown protocol": (200, request("GET /health", "Connection: Upgrade\r\nUpgrade: h2c\r\n")),
    "no HTTP": (400, "\x16\x03\x01\r\n\r\n"),
    "HTTP/2": (505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "two Hosts": (400, request("GET /health", "Host: b\r\n")),
    "bad chunk": (400, request("POST /create", "Transfer-Encoding: chunked\r\n\r\nz")),
    "unknown coding": (501, request("POST /create", f"Transfer-Encoding: {LONG}\r\n")),
    "long header": (431, request("GET /health", f"X: {LONG * 5}\r\n")),
    "long body": (
        413,
        request("POST /create", f"X-API-Key: {KEY}\r\nContent-Length: 99999999999\r\n"),
    ),
    "long body without a key": (401, request("POST /api/runs", "Content-Length: 9999999999\r\n")),
}


def flood(server: LiveServer, data: str) -> set[int]:
    """Send a request many times; return the statuses of the answers."""
    statuses = set()
    for _ in range(REQUESTS):
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
            client.sendall(data.encode("latin-1"))
            statuses.add(int(client.recv(4096).split()[1]))
    return statuses


@each("name", FLOODS)
def test_a_flood_of_refusals_is_counted_instead_of_logged(server: LiveServer, name: str) -> None:
    status, data = FLOODS[name]
    before = len(server.log)
    assert flood(server, data) <= {status, 429}
    log = server.log
    assert len(log) - before < MAX_BYTES, f"{name}: {log[before : before + 500]}"
    assert "secret-of-" not in log[before:]


def test_so_is_a_flood_of_wrong_passwords(server: LiveServer) -> None:
    page = httpx.get(f"{server.url}/accounts/login/")
    [token] = set(re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text))
    cookie = f"Cookie: csrftoken={page.cookies['csrftoken']}\r\n"
    body = f"csrfmiddlewaretoken={token}&username={LONG[:2_000]}&password=wrong"
    before = len(server.log)
    assert flood(server, request("POST /accounts/login/", FORM + cookie, body)) == {200, 429}
    assert len(server.log) - before < MAX_BYTES


def test_while_the_database_fails_one_traceback_is_logged(server: LiveServer) -> None:
    programs.run("shell", "--no-imports", "--command", HIDE_LOGINS, env=server.env, check=True)
    before = len(server.log)
    assert flood(server, request("GET /accounts/login/", "Cookie: sessionid=abcdefgh\r\n")) == {500}
    assert server.log[before:].count("Internal Server Error: /accounts/login/") == 1
