"""A long answer ends soon after its client has lost the right to it, as one that is visibly not
whole."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import time
from collections.abc import Iterator

import httpx
import pytest
from django.contrib.auth.models import User
from pytest_django import DjangoDbBlocker

from environments.keys.open_streams import STREAMS_PER_DOWNLOAD
from environments.keys.stored_keys import PREFIX
from tests import programs
from tests.conformance.agent import Agent, Pending, eventually
from tests.conformance.envs import FILL_BYTES
from tests.conformance.record import ALIAS, recorded
from tests.environments.agents.mcp.playing import Raw
from tests.proxies import PASSWORD, log_in
from tests.rows import each
from tests.server import LiveServer

FILLS = 2
PAUSE_SECONDS = 0.03
"""Before each piece that a slow client reads, of which it takes 500, at least, for the whole
file."""
MAX_SECONDS = 30.0
"""Ten are promised, and the kernel may hold what a slow client reads in some more."""


@pytest.fixture(scope="module")
def server(django_db_blocker: DjangoDbBlocker) -> Iterator[LiveServer]:
    env = {"ORSWEB_REQUIRE_KEYS": "1", "ORSWEB_MAX_STREAMS_PER_KEY": str(2 * STREAMS_PER_DOWNLOAD)}
    with (
        LiveServer("tests.conformance.envs:Filling", env=env) as running,
        recorded(running, django_db_blocker),
    ):
        account = running.env | {"DJANGO_SUPERUSER_PASSWORD": PASSWORD}
        who = ("--username", "ann", "--email", "ann@example.org")
        programs.run("createsuperuser", "--noinput", *who, env=account, check=True)
        yield running


def manage(server: LiveServer, *command: str) -> str:
    return programs.run(*command, env=server.env, check=True).stdout


def made_key(server: LiveServer, name: str) -> str:
    """Return a new key, with which an episode was played that makes a long file."""
    [key] = re.findall(
        rf"{PREFIX}\S+", manage(server, "create_key", name, "--scope", "play", "--scope", "read")
    )
    eventually(
        lambda: (
            httpx.post(f"{server.url}/create_session", headers={"X-API-Key": key}).status_code
            == 200
        )
    )
    with Agent(server, **{"X-API-Key": key}).open({"id": 1}) as agent:
        for _ in range(FILLS):
            agent.call("fill")
    return key


def asked(server: LiveServer, path: str, **headers: str) -> Pending:
    """Ask for a file, and read the beginning of the answer."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    connection.settimeout(60)
    connection.connect(("127.0.0.1", server.port))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode())
    answer = Pending(connection)
    answer.hear(b"\r\n\r\n")
    return answer


def rest(answer: Pending, pause_seconds: float = 0.0) -> bytes:
    """Read the answer to its end."""
    with answer.socket, contextlib.suppress(ConnectionResetError):
        while piece := answer.socket.recv(65536):
            answer.heard += piece
            time.sleep(pause_seconds)
    return answer.heard


def is_cut(answer: bytes, size: int) -> bool:
    """Return whether an answer of more than `size` bytes began well and has no end."""
    return (
        answer.startswith(b"HTTP/1.1 200 ")
        and len(answer) < size
        and not answer.endswith(b"0\r\n\r\n")
    )


@each("format", ["jsonl", "atif"])
def test_a_file_of_the_api_ends_after_its_key_was_revoked(server: LiveServer, format: str) -> None:
    key = made_key(server, f"export-{format}")
    answer = asked(server, f"/api/episodes/export?format={format}", **{"X-API-Key": key})
    manage(server, "revoke_key", f"export-{format}")
    lost = time.monotonic()
    assert is_cut(rest(answer, PAUSE_SECONDS), FILLS * FILL_BYTES)
    assert time.monotonic() - lost < MAX_SECONDS
    eventually(lambda: re.search(rf"cut_off .*who=export-{format}", server.log) is not None)
    assert "Exception in ASGI application" not in server.log


def test_a_file_of_a_page_ends_after_its_person_was_deactivated(server: LiveServer) -> None:
    made_key(server, "page")
    with httpx.Client(base_url=server.url, timeout=60) as browser:
        log_in(browser, server.url)
        cookie = f"sessionid={browser.cookies['sessionid']}"
        whole = [asked(server, "/episodes/export?format=jsonl", Cookie=cookie) for _ in range(2)]
        refused = browser.get("/episodes/export?format=csv")
        assert (
            refused.status_code == 429
            and "ann: no more event streams, sockets and downloads may be open" in refused.text
        )
    whole[0].drop()
    User.objects.using(ALIAS).filter(username="ann").update(is_active=False)
    assert is_cut(rest(whole[1], PAUSE_SECONDS), FILLS * FILL_BYTES)
    User.objects.using(ALIAS).filter(username="ann").update(is_active=True)
    eventually(lambda: re.search("cut_off .*who=ann", server.log) is not None)


def test_a_call_that_is_read_slowly_ends_after_its_key_was_revoked(server: LiveServer) -> None:
    agent = Agent(server, **{"X-API-Key": made_key(server, "agent")}).open({"id": 1})
    answer = agent.begin("fill")
    answer.hear(b"event: chunk")
    manage(server, "revoke_key", "agent")
    eventually(lambda: re.search("cut_off .*who=agent", server.log) is not None)
    assert is_cut(rest(answer), FILL_BYTES)


def test_an_answer_of_mcp_that_is_read_slowly_ends_after_its_key_was_revoked(
    server: LiveServer,
) -> None:
    raw = Raw(f"{server.url}/mcp/filling", {"X-API-Key": made_key(server, "mcp")}).opened()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", server.port))
        body = json.dumps(raw.call("fill")).encode()
        lines = "".join(f"{name}: {value}\r\n" for name, value in raw.headers.items())
        head = (
            "POST /mcp/filling HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
            f"{len(body)}\r\n{lines}\r\n"
        )
        connection.sendall(head.encode() + body)
        answer = Pending(connection)
        answer.hear(b'"text"')
        manage(server, "revoke_key", "mcp")
        eventually(lambda: re.search("cut_off .*who=mcp", server.log) is not None)
        assert is_cut(rest(answer), FILL_BYTES)


def test_a_key_has_so_many_downloads_at_once(server: LiveServer) -> None:
    headers = {"X-API-Key": made_key(server, "many")}
    path = "/api/episodes/export?format=jsonl"
    answers = [asked(server, path, **headers) for _ in range(2)]
    refused = httpx.get(f"{server.url}{path}", headers=headers)
    assert refused.status_code == 429 and int(refused.headers["Retry-After"]) > 0
    assert refused.json()["detail"].startswith(
        "The API key 'many': no more event streams, sockets and downloads may be open"
    )
    answers[0].drop()
    eventually(lambda: asked(server, path, **headers).heard.startswith(b"HTTP/1.1 200"))
    answers[1].drop()
