"""Requests for pages that are too large are refused before they are read completely, with a helpful page."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator

import pytest

from tests.server import LiveServer

IMPORT = "/admin/environments/task/import/"
LIMIT = 64 * 1024


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    limits = {"ORSWEB_MAX_UPLOAD_BYTES": str(LIMIT), "ORSWEB_MAX_BODY_BYTES": "2048"}
    with LiveServer("tests.envs:Echo", env=limits) as running:
        yield running


def post(server: LiveServer, path: str, body: bytes, *, chunked: bool = False) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", path, iter([body]) if chunked else body, encode_chunked=chunked)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


@pytest.mark.parametrize("chunked", [False, True])
def test_it_says_what_is_too_large_and_what_to_do(server: LiveServer, chunked: bool) -> None:
    status, page = post(server, IMPORT, b"x" * (LIMIT + 1), chunked=chunked)
    assert status == 413
    assert "64.0\N{NO-BREAK SPACE}KB" in page and "manage.py import_tasks" in page


def test_it_answers_before_the_upload_is_over(server: LiveServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(f"POST {IMPORT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000000000\r\n\r\n".encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_only_an_import_may_be_large(server: LiveServer) -> None:
    status, page = post(server, "/admin/login/", b"x" * 3000)
    assert status == 413 and "ORSWEB_MAX_BODY_BYTES" in page and "2.0\N{NO-BREAK SPACE}KB" in page
    assert post(server, IMPORT, b"x" * 3000)[0] == 403  # as it lacks the form's token


def test_it_leaves_no_file_behind(server: LiveServer) -> None:
    post(server, IMPORT, b"x" * (LIMIT + 1), chunked=True)
    assert list((server.data_dir / "uploads").iterdir()) == []
