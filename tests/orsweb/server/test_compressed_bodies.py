"""Bodies with a Content-Encoding, which no door reads: 415 that names it, instead of an error about
the body."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import httpx
import pytest

from tests.rows import each
from tests.server import LiveServer

KEY = "lab-key-0123456789"
DOORS = [
    ("POST", "/create_session"),
    ("POST", "/create"),
    ("POST", "/echo/call"),
    ("POST", "/echo/tasks"),
    ("POST", "/mcp/echo"),
    ("POST", "/v1/rollouts"),
    ("PUT", "/api/runs/by-name/nightly"),
    ("POST", "/accounts/login/"),
    ("POST", "/play/"),
]


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with LiveServer("tests.envs:Echo", env={"ORSWEB_API_KEYS": f"lab:{KEY}"}) as server:
        headers = {"X-API-Key": KEY, "Content-Type": "application/json"}
        with httpx.Client(base_url=server.url, headers=headers, timeout=30) as running:
            yield running


@each("coding", ["gzip", "br", "deflate, gzip", "x" * 5_000])
@each("method, path", DOORS)
def test_it_is_refused_with_its_name(
    client: httpx.Client, coding: str, method: str, path: str
) -> None:
    for body in (gzip.compress(b'{"split": "train"}'), b"{}" * 20_000):
        answer = client.request(method, path, content=body, headers={"Content-Encoding": coding})
        assert answer.status_code == 415
        assert repr(coding[:100]) in answer.text


def test_it_is_refused_in_chunks_too(client: httpx.Client) -> None:
    for path in ("/create", "/accounts/login/"):
        answer = client.post(path, content=iter([b"a", b"b"]), headers={"Content-Encoding": "gzip"})
        assert answer.status_code == 415


def test_a_plain_body_that_says_so_is_read(client: httpx.Client) -> None:
    for coding in ("", "identity", "Identity"):
        answer = client.post(
            "/echo/num_tasks", content=b'{"split": "train"}', headers={"Content-Encoding": coding}
        )
        assert answer.status_code == 200


def test_without_a_body_it_says_nothing(client: httpx.Client) -> None:
    for path in ("/health", "/echo/tools", "/api/episodes", "/accounts/login/"):
        assert client.get(path, headers={"Content-Encoding": "gzip"}).status_code == 200
