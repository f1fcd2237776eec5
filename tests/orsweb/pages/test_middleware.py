"""The middleware before static files works on the event loop, where Django does not run it."""

from __future__ import annotations

import gzip

import pytest
from django.test import AsyncClient, Client
from pytest_django import Settings

pytestmark = pytest.mark.django_db(transaction=True)
FILE = "/static/orsweb/tokens.css"


@pytest.mark.parametrize("path", [FILE, "/admin/login/"])
async def test_files_and_pages_have_their_headers_on_the_loop_too(path: str) -> None:
    answer = await AsyncClient().get(path)
    assert answer.status_code in (200, 302)
    assert (answer["X-Content-Type-Options"], answer["Referrer-Policy"]) == (
        "nosniff",
        "same-origin",
    )


async def test_the_policy_is_on_every_page() -> None:
    assert (
        "default-src 'none'"
        in (await AsyncClient().get("/environments/"))["Content-Security-Policy"]
    )


async def test_the_policy_of_the_admin_refuses_scripts_within_its_pages_too() -> None:
    policy = (await AsyncClient().get("/admin/"))["Content-Security-Policy"].split("; ")
    assert "default-src 'none'" in policy and "script-src 'self' 'unsafe-eval'" in policy


@pytest.mark.parametrize("is_secure", [True, False])
async def test_cookies_that_are_set_over_tls_are_sent_over_tls_only(
    settings: Settings, is_secure: bool
) -> None:
    settings.ORSWEB_API_KEYS = {"lab": "0123456789"}
    cookies = (await AsyncClient().get("/accounts/login/", secure=is_secure)).cookies
    assert [bool(cookie["secure"]) for cookie in cookies.values()] == [is_secure]


async def test_a_foreign_host_is_refused_files_too() -> None:
    assert (await AsyncClient().get(FILE, headers={"host": "evil.example"})).status_code == 400


async def test_a_path_without_its_slash_leads_to_the_one_with_it() -> None:
    answer = await AsyncClient().get("/environments")
    assert (answer.status_code, answer["Location"]) == (301, "/environments/")


def test_a_page_is_the_same_without_a_loop() -> None:
    assert Client().get("/environments/")["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/environments/", "/nosuch/", "/admin/"])
def test_pages_are_compressed(path: str) -> None:
    plain = Client().get(path)
    answer = Client().get(path, headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in plain.headers and "Accept-Encoding" in plain["Vary"]
    assert answer["Content-Encoding"] == "gzip"
    assert len(answer.content) < len(plain.content) / 2
    assert b"</html>" in gzip.decompress(answer.content)


def test_json_is_compressed_unless_it_has_an_etag() -> None:
    accepting = {"Accept-Encoding": "gzip"}
    address, notes = "/api/runs/by-name/compressed", {"notes": "x" * 999}
    run = Client().put(address, notes, "application/json", headers=accepting)
    assert "Content-Encoding" not in run and run["ETag"].startswith('"')
    answer = Client().get("/api/runs", headers=accepting)
    assert answer["Content-Encoding"] == "gzip" and b"compressed" in gzip.decompress(answer.content)


def test_event_streams_are_not_compressed() -> None:
    answer = Client().get("/events/?channel=episodes", headers={"Accept-Encoding": "gzip"})
    assert answer.streaming and "Content-Encoding" not in answer.headers
