"""Debian's nginx and HAProxy, run in front of servers, and people who reach a server through
them."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.server import ROOT

PASSWORD = "battery-staple"


@contextmanager
def nginx(folder: Path, servers: str, port: int) -> Iterator[None]:
    """Run nginx with `servers` in its http section, which listens on `port`, until the block
    ends."""
    paths = "".join(
        f"{kind}_temp_path {folder};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.getuid() == 0 else ""
    text = (
        f"{user} daemon off; pid {folder}/pid; events {{}} http {{ access_log off; "
        f"{paths}\n{servers}\n}}"
    )
    config = folder / "nginx.conf"
    config.write_text(text)
    with _running(
        [_program("nginx", "nginx-light"), "-e", str(folder / "errors"), "-c", str(config)], port
    ):
        yield


def below_a_path(upstream: int, port: int, stripping: int) -> str:
    """Return docs/balancers/nginx-path.conf with its ports, and the other way that it names, at
    `stripping`, which takes the path off.
    """
    text = (ROOT / "docs/balancers/nginx-path.conf").read_text()
    common, begin, server = text.partition("\nserver {")
    passing, taking_off = (
        "location /ors/ {\n        proxy_pass http://orsweb;",
        "proxy_pass http://orsweb/;",
    )
    assert (
        "127.0.0.1:8080" in common
        and "listen 80;" in server
        and passing in server
        and "http://orsweb/" in server
    )
    other = server.replace(passing, passing.replace("proxy_pass http://orsweb;", taking_off))
    servers = (
        server.replace("listen 80;", f"listen {port};"),
        other.replace("listen 80;", f"listen {stripping};"),
    )
    return common.replace("127.0.0.1:8080", f"127.0.0.1:{upstream}") + "".join(
        begin + block for block in servers
    )


@contextmanager
def haproxy(folder: Path, config: str, port: int, host: str = "127.0.0.1") -> Iterator[None]:
    """Run HAProxy with `config`, which listens on `port` of `host`, until the block ends."""
    file = folder / "haproxy.cfg"
    file.write_text(config)
    with _running([_program("haproxy", "haproxy"), "-db", "-f", str(file)], port, host):
        yield


def _program(name: str, package: str) -> str:
    """Return the path of a program. Skips the test where its Debian package is missing."""
    program = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if program is None:
        pytest.skip(f"needs {name}, which the Debian package {package} has")
    return program


@contextmanager
def _running(command: list[str], port: int, host: str = "127.0.0.1") -> Iterator[None]:
    process = subprocess.Popen(command)
    try:
        deadline = time.monotonic() + 30
        while not _listens(host, port):
            assert process.poll() is None and time.monotonic() < deadline, command
            time.sleep(0.02)
        yield
    finally:
        process.terminate()
        process.wait(10)


def _listens(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


# --- people ---------------------------------------------------------------------------------------


def log_in(browser: httpx.Client, url: str) -> None:
    """Log ann in, whose password is PASSWORD, with forms that say that they come from `url`."""
    browser.headers["Referer"] = f"{url}/"
    post(browser, "/accounts/login/", {"username": "ann", "password": PASSWORD})


def post(browser: httpx.Client, path: str, form: dict[str, str]) -> httpx.Response:
    """Send the form of a page."""
    [token] = set(re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', browser.get(path).text))
    answer = browser.post(path, data={"csrfmiddlewaretoken": token, **form})
    assert answer.status_code == 302, answer.text
    return answer


def begin_to_play(browser: httpx.Client, environment: str) -> str:
    """Open an episode of a person and return its number."""
    form = {"environment": environment, "split": "train", "pick": "number", "number": "0"}
    return str(post(browser, "/play/", form).headers["Location"].split("/")[-2])


def cookies_of(browser: httpx.Client) -> str:
    return "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
