"""People log in with an OpenID provider: a real server, a real provider, and every wrong answer
that it can give."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests import programs
from tests.openid_provider import CLIENT, CLIENT_SECRET, OpenIdProvider
from tests.rows import each
from tests.server import LiveServer

PREPARE = """
from django.contrib.auth.models import Group, User
User.objects.create_superuser("root", email="root@example.org", password="correct horse battery")
Group.objects.get_or_create(name="viewer")
Group.objects.get_or_create(name="curator")
"""
FAILED = "/accounts/login/?sign_on=failed"


@pytest.fixture(scope="module")
def running_provider() -> Iterator[OpenIdProvider]:
    with OpenIdProvider() as running:
        yield running


@pytest.fixture
def provider(running_provider: OpenIdProvider) -> OpenIdProvider:
    running_provider.reset()
    return running_provider


@pytest.fixture(scope="module")
def server(running_provider: OpenIdProvider) -> Iterator[LiveServer]:
    env = {
        "ORSWEB_REQUIRE_KEYS": "1",
        "ORSWEB_OIDC_ISSUER": running_provider.issuer,
        "ORSWEB_OIDC_CLIENT_ID": CLIENT,
        "ORSWEB_OIDC_CLIENT_SECRET": CLIENT_SECRET,
        "ORSWEB_OIDC_NAME": "Example ID",
    }
    with LiveServer("tests.envs:Echo", env=env) as running:
        shell(running, PREPARE)
        yield running


def shell(server: LiveServer, code: str) -> str:
    return programs.run(
        "shell", "--no-imports", "--command", code, env=server.env, check=True
    ).stdout


def members_of(server: LiveServer) -> dict[str, list[str]]:
    """Return the groups of each account."""
    code = (
        "from django.contrib.auth.models import User\nfor one in User.objects.all(): print(one, "
        "*one.groups.all())"
    )
    lines = shell(server, code)
    return {name: groups for name, *groups in (line.split() for line in lines.splitlines())}


def log_in(
    server: LiveServer, path: str = "/accounts/sign-on/?next=/runs/"
) -> tuple[httpx.Client, str]:
    """Follow the whole way; return the browser, and the path at which it arrives."""
    browser = httpx.Client(base_url=server.url, follow_redirects=True)
    arrived = browser.get(path)
    return browser, arrived.url.raw_path.decode()


def test_the_login_page_offers_it(server: LiveServer) -> None:
    page = httpx.get(f"{server.url}/accounts/login/", params={"next": "/runs/?a=1"}).text
    assert 'href="/accounts/sign-on/?next=%2Fruns%2F%3Fa%3D1">Log in with Example ID</a>' in page


def test_the_first_login_makes_an_account_in_the_groups_that_exist(
    server: LiveServer, provider: OpenIdProvider
) -> None:
    provider.claims = {
        "sub": "s-1",
        "preferred_username": "Ada L.",
        "groups": ["viewer", "elsewhere"],
    }
    browser, path = log_in(server)
    assert path == "/runs/"
    assert members_of(server)["Ada-L."] == ["viewer"]
    provider.claims = {"sub": "s-1", "preferred_username": "renamed", "groups": ["curator"]}
    assert log_in(server)[1] == "/runs/"
    assert members_of(server)["Ada-L."] == ["curator"]
    browser.get("/accounts/password/")
    token = {"csrfmiddlewaretoken": browser.cookies.get("csrftoken", "")}
    assert browser.post("/accounts/logout/", data=token).url.path == "/accounts/login/"


@pytest.mark.parametrize("claims", [{"preferred_username": "root"}, {"email": "root@example.org"}])
def test_nobody_becomes_another_account_by_name_or_address(
    server: LiveServer, provider: OpenIdProvider, claims: dict[str, Any]
) -> None:
    provider.claims = {"sub": f"thief of {claims}", **claims}
    browser, path = log_in(server)
    assert path == "/runs/"
    assert browser.get("/admin/").status_code == 403


WRONG = {
    "nonce": {"nonce": "another"},
    "issuer": {"iss": "https://elsewhere.example"},
    "audience": {"aud": "another client"},
    "expired": {"exp": int(time.time()) - 3600},
    "subject": {"sub": "subject of somebody else"},
}


@each("wrong", WRONG)
def test_a_wrong_token_is_refused(server: LiveServer, provider: OpenIdProvider, wrong: str) -> None:
    provider.claims, provider.wrong = {"sub": "s-1"}, WRONG[wrong]
    browser, path = log_in(server)
    assert path == FAILED
    assert "Logging in with Example ID failed." in browser.get(FAILED).text
    assert browser.get("/runs/", follow_redirects=False).status_code == 302


def test_a_wrong_signature_is_refused(server: LiveServer, provider: OpenIdProvider) -> None:
    provider.claims, provider.signing_key = {"sub": "s-1"}, rsa.generate_private_key(65537, 2048)
    assert log_in(server)[1] == FAILED


@pytest.mark.parametrize("state", ["", "of-another-browser"])
def test_a_wrong_state_is_refused(server: LiveServer, provider: OpenIdProvider, state: str) -> None:
    with httpx.Client(base_url=server.url) as browser:
        browser.get("/accounts/sign-on/")
        answer = browser.get("/accounts/sign-on/callback/", params={"code": "c", "state": state})
        assert answer.headers["Location"] == FAILED


def test_a_code_is_of_no_use_to_another_browser(
    server: LiveServer, provider: OpenIdProvider
) -> None:
    with httpx.Client(base_url=server.url) as browser, httpx.Client(base_url=server.url) as thief:
        back = httpx.get(browser.get("/accounts/sign-on/").headers["Location"]).headers["Location"]
        assert thief.get(back).headers["Location"] == FAILED


def test_an_error_of_the_provider_ends_no_login(
    server: LiveServer, provider: OpenIdProvider
) -> None:
    provider.claims = {"sub": "s-1"}
    browser, _ = log_in(server)
    assert (
        browser.get("/accounts/sign-on/callback/?error=x", follow_redirects=False).headers[
            "Location"
        ]
        == FAILED
    )
    assert browser.get("/runs/", follow_redirects=False).status_code == 200


def test_no_token_code_or_secret_is_logged(server: LiveServer, provider: OpenIdProvider) -> None:
    provider.claims, provider.wrong = {"sub": "s-1"}, {"nonce": "another"}
    log_in(server)
    deadline = time.monotonic() + 30
    while "login_failed" not in server.log:
        assert time.monotonic() < deadline, "the failed login was not noted"
        time.sleep(0.05)
    assert not [token for token in [*provider.tokens, CLIENT_SECRET] if token in server.log]


def test_without_it_nothing_is_loaded() -> None:
    code = (
        "import sys; from django.urls import reverse; reverse('login'); "
        "print('mozilla_django_oidc' in sys.modules)"
    )
    with LiveServer("tests.envs:Echo") as server:
        assert shell(server, code).strip() == "False"
        assert httpx.get(f"{server.url}/accounts/sign-on/").status_code == 404
