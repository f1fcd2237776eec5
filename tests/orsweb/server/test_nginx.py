"""Behind a proxy: refused on every door without keys, and complete with keys and
docs/balancers/nginx-single.conf."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests import programs
from tests.proxies import PASSWORD, begin_to_play, cookies_of, log_in, nginx
from tests.rows import each
from tests.server import ROOT, LiveServer, free_port

KEY, NAME = "correct-horse", "play.example.org"
DOORS = [
    ("GET", "/health"), ("POST", "/create"), ("POST", "/slow/tasks"), ("POST", "/mcp/slow"), ("GET", "/v1/runs"),
    ("GET", "/api/"), ("GET", "/"), ("GET", "/admin/"), ("GET", "/static/orsweb/tokens.css"), ("GET", "/no/such"),
]  # fmt: skip
SIGNS = [
    "Forwarded",
    "Via",
    "X-Forwarded-For",
    "X-Forwarded-Proto",
    "X-Forwarded-Anything",
    "X-Real-IP",
]


# --- without keys ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def open_server() -> Iterator[LiveServer]:
    with LiveServer("tests.envs_slow:Slow") as running:
        httpx.get(running.url, timeout=60)  # loads the pages
        yield running


def refusals(url: str, headers: dict[str, str]) -> list[str]:
    """Return the doors that answer other than with the refusal."""
    with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
        answers = [client.request(method, path) for method, path in DOORS]
    return [
        f"{one.url}: {one.status_code}"
        for one in answers
        if (one.status_code, "label:key" in one.text) != (403, True)
    ]


def socket_status(url: str, headers: dict[str, str]) -> int:
    address = url.replace("http", "ws") + "/ws/play/1/"
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(address, origin=url, additional_headers=headers),  # type: ignore[arg-type]
    ):
        pass
    return refused.value.response.status_code


@each("sign", SIGNS)
def test_without_keys_a_request_with_a_sign_of_a_proxy_is_refused_on_every_door(
    open_server: LiveServer, sign: str
) -> None:
    assert refusals(open_server.url, {sign: "192.0.2.1"}) == []
    assert socket_status(open_server.url, {sign: "192.0.2.1"}) == 403


def test_without_keys_the_default_of_nginx_is_refused_on_every_door(
    open_server: LiveServer, tmp_path: Path
) -> None:
    port = free_port()
    with nginx(
        tmp_path,
        f"server {{ listen {port}; location / {{ proxy_pass {open_server.url}; }} }}",
        port,
    ):
        assert refusals(f"http://127.0.0.1:{port}", {}) == []
    assert httpx.get(f"{open_server.url}/health").status_code == 200


# --- with keys ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server behind the documented configuration, with an account."""
    folder, plain, port = tmp_path_factory.mktemp("nginx"), free_port(), free_port()
    keys = {
        "ORSWEB_API_KEYS": f"lab:{KEY}",
        "ORSWEB_ALLOWED_HOSTS": NAME,
        "ORSWEB_KEEPALIVE": "0.2",
    }
    subject = ["-subj", f"/CN={NAME}", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    subprocess.run(
        ["openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", *subject],
        check=True,
        capture_output=True,
    )
    with LiveServer("tests.envs_slow:Slow", env=keys) as server:
        account = server.env | {"DJANGO_SUPERUSER_PASSWORD": PASSWORD}
        who = ("--username", "ann", "--email", "ann@example.org")
        programs.run("createsuperuser", "--noinput", *who, env=account, check=True)
        with nginx(folder, documented(server.port, plain, port, folder), port):
            yield f"{NAME}:{port}"


def documented(upstream: int, plain: int, port: int, folder: Path) -> str:
    """Return docs/balancers/nginx-single.conf with the ports and the certificate of this test."""
    text = (ROOT / "docs/balancers/nginx-single.conf").read_text()
    for ours, theirs in (
        ("127.0.0.1:8080", f"127.0.0.1:{upstream}"),
        ("listen 80;", f"listen {plain};"),
        ("listen 443 ", f"listen {port} "),
        (f"/etc/letsencrypt/live/{NAME}/fullchain.pem", f"{folder}/cert.pem"),
        (f"/etc/letsencrypt/live/{NAME}/privkey.pem", f"{folder}/key.pem"),
    ):
        assert ours in text
        text = text.replace(ours, theirs)
    return text


def client_of(address: str, **headers: str) -> httpx.Client:
    port = address.partition(":")[2]
    return httpx.Client(
        base_url=f"https://127.0.0.1:{port}",
        headers={"Host": address, **headers},
        verify=False,
        timeout=60,
    )


def test_agents_need_their_key_and_play(address: str) -> None:
    with client_of(address, **{"X-Session-ID": "one"}) as agent:
        assert agent.post("/create", json={"env_name": "slow", "task_spec": {}}).status_code == 401
        agent.headers["X-API-Key"] = KEY
        agent.post("/create", json={"env_name": "slow", "task_spec": {}}).raise_for_status()
        assert (
            "again" in agent.post("/call", json={"name": "echo", "input": {"text": "again"}}).text
        )


def test_a_stream_arrives_while_the_call_runs(address: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with client_of(address, **{"X-Session-ID": "two", "X-API-Key": KEY}) as agent:
        agent.post(
            "/create", json={"env_name": "slow", "task_spec": {"log": str(log)}}
        ).raise_for_status()
        with agent.stream(
            "POST", "/call", json={"name": "wait", "input": {"seconds": 2}}
        ) as answer:
            pieces = answer.iter_raw()
            first = next(pieces)
            assert first and "wait ends" not in log.read_text()
            assert b"waited" in b"".join(pieces)


def test_people_log_in_and_play_over_a_websocket(address: str) -> None:
    with client_of(address) as browser:
        log_in(browser, f"https://{address}")
        episode, cookies = begin_to_play(browser, "slow"), cookies_of(browser)
    with connect(
        f"wss://{address}/ws/play/{episode}/?after=-1",
        sock=socket.create_connection(("127.0.0.1", int(address.partition(":")[2]))),
        ssl=ssl._create_unverified_context(),
        origin=f"https://{address}",  # type: ignore[arg-type]
        additional_headers={"Cookie": cookies},
    ) as player:
        player.send(
            json.dumps(
                {"type": "call", "tool": "echo", "input": {"text": "hello"}, "task_id": "first"}
            )
        )
        while (message := json.loads(player.recv(timeout=30)))["type"] != "step":
            pass
    assert "hello" in message["html"]


def test_a_large_upload_without_a_key_is_refused_before_it_has_arrived(address: str) -> None:
    with socket.create_connection(
        ("127.0.0.1", int(address.partition(":")[2])), timeout=30
    ) as plain:
        context = ssl._create_unverified_context()
        with context.wrap_socket(plain, server_hostname=NAME) as connection:
            head = f"POST /create HTTP/1.1\r\nHost: {address}\r\nContent-Length: 31000000\r\n\r\n"
            connection.sendall(head.encode())
            assert connection.recv(1000).split()[1] == b"401"
