"""Which requests go to Django's pages, which to the protocol, and which to neither."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from django.urls import reverse
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from environments.authoring.reserved_names import PAGES
from orsweb.asgi import IMPORT_PATH, SERVED_PAGES, is_page
from orsweb.urls import urlpatterns
from tests.rows import each
from tests.server import LiveServer


@each(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/admin/"),
        ("POST", "/admin/login/"),
        ("GET", "/static/x.css"),
        ("GET", "/episodes/"),
        ("GET", "/events/"),
        ("POST", "/play/"),
    ],
)
def test_it_gives_pages_to_django(method: str, path: str) -> None:
    assert is_page(method, path)


@each(
    ("method", "path"),
    [
        ("GET", "/health"),
        ("POST", "/tasks"),
        ("POST", "/tasks/"),
        ("GET", "/docs"),  # reserved, but there is no such page
        ("POST", "/leaderboard/prompt"),
        ("GET", "/echo/tools"),
        ("POST", "/echo/tasks"),
        ("GET", "/v1/runs"),
        ("GET", "//admin/"),
        ("GET", "/administrator"),
        ("GET", "/Admin/"),
    ],
)
def test_it_gives_everything_else_to_the_protocol(method: str, path: str) -> None:
    assert not is_page(method, path)


def first_segments(routes: list[Any]) -> Iterator[str]:
    """Yield the first segments of the routes' paths; an include at the root has those of its own
    routes."""
    for route in routes:
        pattern = str(route.pattern)
        if pattern or not hasattr(route, "url_patterns"):
            yield pattern.partition("/")[0]
        else:
            yield from first_segments(route.url_patterns)


def test_the_pages_that_it_names_are_those_of_the_urls() -> None:
    assert PAGES.intersection(first_segments(urlpatterns)) | {"static"} == SERVED_PAGES
    assert reverse("admin:environments_task_import") == IMPORT_PATH


def test_it_serves_the_admin(server: LiveServer) -> None:
    answer = httpx.get(f"{server.url}/admin/")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")


def test_it_serves_static_files_without_collecting_them(server: LiveServer) -> None:
    answer = httpx.get(f"{server.url}/static/admin/css/base.css")
    assert (answer.status_code, answer.headers["content-type"]) == (
        200,
        'text/css; charset="utf-8"',
    )


@each("path", ["/nope", "/nope/", "/episode/1/", "/echo/nope"])
def test_a_browser_gets_a_page_at_an_unknown_path(server: LiveServer, path: str) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    answer = httpx.get(f"{server.url}{path}", headers=browser)
    assert answer.status_code == 404 and "<h1>Page not found</h1>" in answer.text
    assert httpx.get(f"{server.url}{path.rstrip('/')}").json() == {"detail": "Not Found"}


@each(
    "path",
    [
        *("/episodes/999999999/", "/episodes/nope/", "/runs/nope/", "/tasks/999999999/"),
        *("/environments/nope/", "/suites/nope/", "/play/nope/", "/operations/nope/"),
        *("/accounts/nope/", "/admin/nope/", "/admin/episodes/nope/", "/admin/search/"),
        *("/api/nope", "/api/runs/nope/nope"),
    ],
)
def test_unknown_addresses_below_pages_answer_browsers_and_programs(
    server: LiveServer, path: str
) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,application/json;q=0.9"}
    page = httpx.get(f"{server.url}{path}", headers=browser)
    assert page.status_code == 404 and "<h1>Page not found</h1>" in page.text
    answer = httpx.get(f"{server.url}{path}", headers={"Accept": "application/json"})
    assert answer.status_code == 404 and answer.json().keys() == {"detail"}


@each("path", ["/health", "/version", "/echo/tools", "/mcp/echo"])
def test_a_browser_gets_json_of_the_protocol(server: LiveServer, path: str) -> None:
    answer = httpx.get(f"{server.url}{path}", headers={"Accept": "text/html"})
    assert answer.headers["content-type"].startswith("application/json")


@each("path", ["/", "/admin/", "/static/admin/css/base.css", "/health", "/echo/tools"])
def test_it_refuses_a_foreign_host(server: LiveServer, path: str) -> None:
    assert (
        httpx.get(f"{server.url}{path}", headers={"Host": "rebound.example.org"}).status_code == 400
    )


@pytest.mark.parametrize("origin", ["http://localhost", "http://elsewhere.example.org"])
def test_it_closes_a_websocket_that_no_page_serves(server: LiveServer, origin: str) -> None:
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(f"ws://127.0.0.1:{server.port}/ws/none", origin=origin),
    ):
        pass
    assert refused.value.response.status_code == 403
