"""While PostgreSQL accepts connections and answers nothing, agents wait, and pages and the API say
so in time."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from django.db import connection

from tests.conformance.agent import Agent, eventually
from tests.server import LiveServer

KEY = {"X-API-Key": "a-key-of-0123456789abcdef"}
NAME = ".s.PGSQL.5432"


class Frozen:
    """A socket in front of PostgreSQL's, which passes on nothing while `flows` is not set."""

    def __init__(self, directory: Path, target: str) -> None:
        self.flows, self._target = threading.Event(), target
        self.flows.set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(directory / NAME))
        self._listener.listen(100)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.flows.wait()
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveServer, Frozen]]:
    server = LiveServer("tests.envs:Echo", env={"ORSWEB_API_KEYS": f"me:{KEY['X-API-Key']}"})
    parts = urlsplit(server.database_url)
    directory = tmp_path_factory.mktemp("pg")
    front = Frozen(directory, f"{parse_qs(parts.query)['host'][0]}/{NAME}")
    server.env["DATABASE_URL"] = parts._replace(query=urlencode({"host": str(directory)})).geturl()
    with server:
        yield server, front


if connection.vendor == "postgresql":

    def test_pages_and_the_api_say_so_and_agents_wait(frozen: tuple[LiveServer, Frozen]) -> None:
        server, front = frozen
        http = httpx.Client(base_url=server.url, headers=KEY, timeout=60)
        with (
            http,
            Agent(server, **KEY).open({"id": 1}, "echo") as agent,
            ThreadPoolExecutor(1) as player,
        ):
            assert http.get("/api/episodes").status_code == 200
            front.flows.clear()
            call = player.submit(agent.call, "echo", {"text": "hi"})
            answer = http.get("/api/episodes")
            assert (answer.status_code, answer.headers["content-type"]) == (503, "application/json")
            assert answer.json() == {"detail": "The database is unavailable; try again."}
            page = http.get("/accounts/login/")
            assert page.status_code == 503 and "The database doesn't answer" in page.text
            assert http.get("/health").status_code == 200
            assert not call.done()
            front.flows.set()
            assert call.result(timeout=30).text == "hi"
            eventually(lambda: http.get("/api/episodes").status_code == 200)
