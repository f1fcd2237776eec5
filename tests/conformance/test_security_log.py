"""The security log of a real server: who came in or was refused, and who changed, exported, deleted
or redacted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import programs
from tests.conformance.agent import Agent
from tests.server import LiveServer

KEY, PASSWORD = "lab-key-0123456789", "correct horse battery"
PREPARE = f"""
from django.contrib.auth.models import User
User.objects.create_superuser("ada", password={PASSWORD!r})
"""
Entries = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs") / "security.jsonl"


@pytest.fixture(scope="module")
def server(file: Path) -> Iterator[LiveServer]:
    env = {
        "ORSWEB_API_KEYS": f"lab:{KEY}",
        "ORSWEB_SECURITY_LOG_FILE": str(file),
        "FORWARDED_ALLOW_IPS": "127.0.0.1",
    }
    with LiveServer("tests.envs:Echo", env=env) as running:
        programs.run("shell", "--no-imports", "--command", PREPARE, env=running.env, check=True)
        yield running


@pytest.fixture
def entry(file: Path) -> Entries:
    """Waits for the entry of the file with these values, and returns it."""

    def find(**values: str) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for line in file.read_text().splitlines() if file.exists() else []:
                found: dict[str, Any] = json.loads(line)
                if values.items() <= found.items():
                    return found
            time.sleep(0.05)
        raise AssertionError(f"no entry with {values} in {file.read_text()}")

    return find


def log_in(
    server: LiveServer, password: str = PASSWORD, name: str = "ada", address: str = ""
) -> httpx.Client:
    client = httpx.Client(
        base_url=server.url, timeout=30, headers={"X-Forwarded-For": address} if address else {}
    )
    client.get("/accounts/login/")
    form = {
        "username": name,
        "password": password,
        "csrfmiddlewaretoken": client.cookies["csrftoken"],
    }
    client.post("/accounts/login/", data=form)
    return client


def test_logins_have_account_and_address(server: LiveServer, entry: Entries) -> None:
    log_in(server, address="192.0.2.10")
    assert entry(event="login", who="ada", address="192.0.2.10")["level"] == "info"


def test_failed_logins_name_accounts_that_exist_only(
    server: LiveServer, entry: Entries, file: Path
) -> None:
    log_in(server, "wrong", address="192.0.2.11")
    log_in(server, "wrong", "my-own-password", address="192.0.2.12")
    assert entry(event="login_failed", address="192.0.2.11")["who"] == "ada"
    assert "who" not in entry(event="login_failed", address="192.0.2.12", what="no such account")
    assert "my-own-password" not in file.read_text() + server.log
    assert PASSWORD not in file.read_text() + server.log


def test_refused_keys_have_an_address_and_no_key(
    server: LiveServer, entry: Entries, file: Path
) -> None:
    for _ in range(40):
        httpx.get(
            f"{server.url}/list_environments",
            headers={"X-API-Key": "guess-42", "X-Forwarded-For": "192.0.2.13"},
        )
    found = entry(event="key_refused", address="192.0.2.13")
    assert found["detail"] == "The key is not one of this server's keys."
    # the others: in a minute
    assert len([line for line in file.read_text().splitlines() if "192.0.2.13" in line]) == 1
    assert "guess-42" not in file.read_text()


def test_a_key_is_noted_once_a_day_and_address(
    server: LiveServer, entry: Entries, file: Path
) -> None:
    for address in ("192.0.2.14", "192.0.2.15") * 20:
        httpx.get(
            f"{server.url}/list_environments",
            headers={"X-API-Key": KEY, "X-Forwarded-For": address},
        )
    assert entry(event="key_used", who="lab", address="192.0.2.14")
    assert entry(event="key_used", who="lab", address="192.0.2.15")
    uses = [line for line in file.read_text().splitlines() if '"key_used"' in line]
    assert len([line for line in uses if "192.0.2.14" in line]) == 1
    assert KEY not in file.read_text()


@pytest.mark.parametrize("path", ["/list_environments", "/accounts/login/"])
def test_refused_hosts(server: LiveServer, entry: Entries, path: str) -> None:
    name = f"evil{path.replace('/', '')}.example"
    headers = {"Host": name, "X-API-Key": KEY, "X-Forwarded-For": f"198.51.100.{len(path)}"}
    assert httpx.get(f"{server.url}{path}", headers=headers).status_code == 400
    assert entry(event="host_refused", what=name)["address"] == f"198.51.100.{len(path)}"


def test_permissions_keys_exports_and_deletions_have_a_name(
    server: LiveServer, entry: Entries
) -> None:
    with Agent(server, **{"X-API-Key": KEY}).open({"id": 1}) as agent:
        agent.call("echo", {"text": "hi"})
    client = log_in(server, address="192.0.2.16")
    token = {"csrfmiddlewaretoken": client.cookies["csrftoken"]}
    at = {"who": "ada", "address": "192.0.2.16"}
    client.post(
        "/admin/environments/apikey/add/", data=token | {"name": "nightly", "scopes": ["play"]}
    )
    assert entry(event="key_made", what="key nightly", **at)["detail"].startswith("scopes: play;")
    client.post("/admin/auth/group/add/", data=token | {"name": "readers"})
    assert entry(event="group_changed", what="group readers", detail="made", **at)
    new = {
        "username": "bob",
        "usable_password": "true",
        "password1": PASSWORD,
        "password2": PASSWORD,
    }
    client.post("/admin/auth/user/add/", data=token | new)
    assert entry(event="account_changed", what="user bob", detail="made", **at)
    client.get("/episodes/export?format=jsonl")
    assert entry(event="exported", what="episodes as jsonl: format=jsonl", **at)
    shown = client.get("/admin/episodes/episode/remove/", params={"query": "environment=echo"})
    mark = shown.text.partition('name="confirm" value="')[2].partition('"')[0]
    client.post(
        "/admin/episodes/episode/remove/",
        data=token | {"query": "environment=echo", "confirm": mark, "reason": "a test"},
    )
    assert entry(event="deleted", what="episodes: environment=echo", detail="a test", **at)


@pytest.fixture(scope="module")
def small(server: LiveServer) -> str:
    """A key that may record only."""
    text = programs.run(
        "create_key", "small", "--scope", "record", env=server.env, check=True
    ).stdout
    return text.partition("orsweb_")[1] + text.partition("orsweb_")[2].split()[0]


@pytest.mark.parametrize("path", ["/api/episodes", "/counter/tools", "/metrics", "/ready"])
def test_what_a_key_may_not_do(server: LiveServer, entry: Entries, small: str, path: str) -> None:
    headers = {"X-API-Key": small, "X-Forwarded-For": f"203.0.113.{len(path)}"}
    deadline = time.monotonic() + 60
    while (
        httpx.get(f"{server.url}{path}", headers=headers).status_code == 401
        and time.monotonic() < deadline
    ):
        time.sleep(0.05)  # the server reads new keys twice a second
    found = entry(event="key_forbidden", who="small", what=f"GET {path}")
    assert found["address"] == f"203.0.113.{len(path)}" and "needs the scope" in found["detail"]


def test_the_file_is_private_and_the_page_shows_the_same(
    server: LiveServer, entry: Entries, file: Path
) -> None:
    client = log_in(server, address="192.0.2.17")
    entry(event="login", address="192.0.2.17")
    assert file.stat().st_mode & 0o777 == 0o600
    page = client.get("/admin/environments/securityevent/", params={"q": "192.0.2.17"})
    assert page.status_code == 200 and "192.0.2.17" in page.text and "192.0.2.10" not in page.text
    assert client.get("/admin/environments/securityevent/1/change/").status_code != 500
    assert client.post("/admin/environments/securityevent/1/delete/").status_code == 403
