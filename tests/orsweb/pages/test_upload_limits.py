"""Requests for pages that are too large are refused before they are read completely, with a helpful
page."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.test import Client
from pytest_django import Settings

from orsweb.pages.upload_limits import MAX_ANONYMOUS_BYTES, BoundedUploads
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
        connection.sendall(
            f"POST {IMPORT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
            "2000000000\r\n\r\n".encode()
        )
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_only_an_import_may_be_large(server: LiveServer) -> None:
    status, page = post(server, "/admin/login/", b"x" * 3000)
    assert status == 413 and "ORSWEB_MAX_BODY_BYTES" in page and "2.0\N{NO-BREAK SPACE}KB" in page
    assert post(server, IMPORT, b"x" * 3000)[0] == 403  # as it lacks the form's token


def test_it_leaves_no_file_behind(server: LiveServer) -> None:
    post(server, IMPORT, b"x" * (LIMIT + 1), chunked=True)
    assert list((server.data_dir / "uploads").iterdir()) == []


# --- who may send how much ------------------------------------------------------------------------

SMALL, LARGE = 2 * MAX_ANONYMOUS_BYTES, 3 * MAX_ANONYMOUS_BYTES


@async_to_sync
async def is_read(client: Client, path: str, length: int) -> bool:
    """Return whether a body of this length gets to Django, from the visitor whose cookies `client`
    has."""
    reached, statuses = [], []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        reached.append(path)

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        statuses.append(message.get("status"))

    cookies = "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items())
    headers = [(b"content-length", b"%d" % length), (b"cookie", cookies.encode())]
    limits = {
        "small_bytes": SMALL,
        "large_bytes": LARGE,
        "large_path": IMPORT,
        "has_key": lambda scope: False,
    }
    await BoundedUploads(app, **limits)({"path": path, "headers": headers}, receive, send)  # type: ignore[arg-type]
    assert reached or statuses[0] in (401, 413)
    return bool(reached)


@pytest.fixture
def visitor(settings: Settings, client: Client) -> Client:
    settings.ORSWEB_API_KEYS = {"lab": "0123456789"}
    return client


@pytest.mark.django_db(transaction=True)
def test_a_stranger_may_send_no_more_than_a_form(visitor: Client) -> None:
    visitor.cookies[settings.SESSION_COOKIE_NAME] = "guessed"
    assert is_read(visitor, "/accounts/login/", MAX_ANONYMOUS_BYTES)
    for path in (IMPORT, "/accounts/login/", "/api/runs/by-name/one", "/play/"):
        assert not is_read(visitor, path, MAX_ANONYMOUS_BYTES + 1)


@pytest.mark.django_db(transaction=True)
def test_a_large_file_needs_the_permission_to_import(visitor: Client) -> None:
    ann = User.objects.create_user("ann", is_staff=True)
    visitor.force_login(ann)
    assert is_read(visitor, IMPORT, SMALL) and not is_read(visitor, IMPORT, LARGE)
    ann.user_permissions.add(Permission.objects.get(codename="add_task"))
    assert is_read(visitor, IMPORT, LARGE) and not is_read(visitor, "/admin/", LARGE)


@pytest.mark.django_db(transaction=True)
def test_a_guest_may_send_more_to_the_players_pages(visitor: Client) -> None:
    session = visitor.session
    session["guest"] = 1
    session.save()
    visitor.cookies[settings.SESSION_COOKIE_NAME] = session.session_key or ""
    assert is_read(visitor, "/play/", SMALL) and not is_read(visitor, "/runs/", SMALL)
