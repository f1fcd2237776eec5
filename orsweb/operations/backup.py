"""Backups of the database, taken while servers play, and restored into an empty place.

SQLite: a copy by its online backup API within one read transaction, so that it is consistent and
writers go on. PostgreSQL: `pg_dump` and `pg_restore` of the matching version. A backup is complete
or does not exist, and only its owner can read it. It is read once before it gets its name, so a
damaged one never replaces a good one.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.db import DatabaseError, connection, transaction

from environments.errors import OrsError
from orsweb.server import pending_migrations

SUFFIXES = {"sqlite": ".sqlite3", "postgresql": ".dump"}
PAGES = 2_000
"""Pages of SQLite that are copied between two reports of progress: 8 MB."""
MAGIC = {"sqlite": b"SQLite format 3\0", "postgresql": b"PGDMP"}
_FILLED = ("episodes_episode", "environments_task", "auth_user")
"""Tables of which one has a row in every database that is in use."""

_OURS = "episodes_episode"
"""A table of every database that was migrated."""

ASIDE = "orsweb_before_restore"
"""Schema of PostgreSQL in which the tables are that a restore replaces, until it has succeeded."""

Progress = Callable[[int, int], None]
"""Called with the amounts that are done and in total."""


class BackupRefused(OrsError):
    """The backup cannot be made or restored. Nothing was changed."""


class Damaged(OrsError):
    """A file cannot be read to its end; the message is what was found, without a full stop."""


def default_name() -> str:
    return f"orsweb-{datetime.now(UTC):%Y%m%d-%H%M%S}{SUFFIXES[connection.vendor]}"


def backup(target: Path, progress: Progress) -> int:
    """Write a backup of the database to `target`, which must not exist, and return its size in
    bytes.

    Raises: BackupRefused, also if the copy is damaged; OSError, sqlite3.Error.
    """
    if target.exists():
        raise BackupRefused(f"{target} exists; name another file, or delete it.")
    partial = target.with_name(f"{target.name}.partial")
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    try:
        _database().back_up(partial, progress)
        _flush(partial)
        _database().check(partial)
        partial.rename(target)
        _flush(target.parent)
    except Damaged as damage:
        raise BackupRefused(
            f"The copy is damaged, so there is no backup: {damage}. Keep those that you have. If "
            "the database itself is damaged, which doctor says, restore the latest."
        ) from damage
    finally:
        partial.unlink(missing_ok=True)
    return target.stat().st_size


def restore(source: Path, *, replaces: bool) -> Path | None:
    """Replace the database by the backup `source`. The caller holds the lock of the database.

    `replaces`: even if the database is not empty. On SQLite its old file is kept and returned.
    Raises: BackupRefused; OSError, sqlite3.Error.
    """
    _check_kind(source)
    if connection.vendor == "postgresql":
        _bring_back()
    if not replaces and _holds_something():
        raise BackupRefused(
            "This database holds something already. Restore into an empty one (another "
            "ORSWEB_DATA_DIR or DATABASE_URL), or add --replace."
        )
    return _database().restore(source)


def _database() -> _Sqlite | _Postgresql:
    return _Sqlite() if connection.vendor == "sqlite" else _Postgresql()


def _check_kind(source: Path) -> None:
    if not source.is_file():
        raise BackupRefused(f"{source} is not a file.")
    with source.open("rb") as file:
        start = file.read(16)
    if not start.startswith(MAGIC[connection.vendor]):
        raise BackupRefused(
            f"{source} is not a backup of a {connection.vendor} database; such a file ends in "
            f"{SUFFIXES[connection.vendor]}. Set DATABASE_URL to a database of its kind."
        )
    log = source.with_name(f"{source.name}-wal")
    if log.exists() and log.stat().st_size:
        raise BackupRefused(
            f"{source} is a part of a database, whose other part is {log}: nothing that backup has "
            f"written. Join them first: sqlite3 {source} 'PRAGMA wal_checkpoint(TRUNCATE)'"
        )


def _holds_something() -> bool:
    # a look would fill it
    if connection.vendor == "sqlite" and not (_file().exists() and _file().stat().st_size):
        return False
    try:
        tables = set(connection.introspection.table_names())
        with connection.cursor() as cursor:
            for table in tables.intersection(_FILLED):
                cursor.execute(f"SELECT 1 FROM {table} LIMIT 1")  # nosec B608 # only our own names
                if cursor.fetchone():
                    return True
    except DatabaseError:
        if connection.vendor == "sqlite":  # it is damaged, or no database
            return True
        raise
    return False


def _check_content(copy: Path, source: Path) -> None:
    """Check what is in `source`, of which `copy` is a copy or the file itself. Raises:
    BackupRefused."""
    database = _database()
    try:
        database.check(copy)
    except Damaged as damage:
        raise BackupRefused(f"{source} is damaged: {damage}.") from damage
    if not database.is_ours(copy):
        raise BackupRefused(f"{source} is not a backup of orsweb: it has no table {_OURS}.")
    if newer := pending_migrations.newer_than_this(database.migrations(copy)):
        raise BackupRefused(f"{source} {newer}. Restore it with that version.")


def _flush(path: Path) -> None:
    """Make the content of a file or of a directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- SQLite ---------------------------------------------------------------------------------------


class _Sqlite:
    """Copies and checks files of SQLite."""

    def back_up(self, partial: Path, progress: Progress) -> None:
        """Copy the database to the file `partial`. Raises: Damaged."""
        source, copy = sqlite3.connect(_file(), isolation_level=None), sqlite3.connect(partial)
        with _damage_as_error(), closing(source), closing(copy):
            source.execute("BEGIN")
            # takes the snapshot; without it, writers start it over
            source.execute("SELECT COUNT(*) FROM sqlite_master")
            source.backup(
                copy,
                pages=PAGES,
                sleep=0,
                progress=lambda status, rest, total: progress(total - rest, total),
            )
            copy.execute("PRAGMA journal_mode = DELETE")  # the file alone is the database

    def check(self, file: Path) -> None:
        """Read the whole file. Raises: Damaged.

        A quick_check would take a fifth of the time, but reads no index and follows no reference.
        """
        with _damage_as_error(), _unchanged(file) as database:
            [integrity] = database.execute("PRAGMA integrity_check(1)").fetchone()
            orphan = database.execute("PRAGMA foreign_key_check").fetchone()
        if integrity != "ok":
            raise Damaged(integrity)
        if orphan:
            raise Damaged(f"rows of {orphan[0]} refer to rows of {orphan[2]} that are gone")

    def is_ours(self, file: Path) -> bool:
        with _unchanged(file) as database:
            rows = database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [_OURS])
            return rows.fetchone() is not None

    def migrations(self, file: Path) -> set[tuple[str, str]]:
        """Return the application and the name of each migration."""
        with _unchanged(file) as database:
            return set(database.execute("SELECT app, name FROM django_migrations"))

    def restore(self, source: Path) -> Path | None:
        file = _file()
        partial, old_file = file.with_name(f"{file.name}.restoring"), None
        partial.unlink(missing_ok=True)
        try:
            partial.touch(mode=0o600)
            shutil.copyfile(source, partial)
            _check_content(partial, source)
            _flush(partial)
            connection.close()
            if file.exists() and _has_tables(file):
                old_file = file.with_name(
                    f"{file.name}.before-restore-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
                )
                # it may be damaged
                with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(file)) as old:
                    old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                file.rename(old_file)
            for rest in ("-wal", "-shm"):
                beside = file.with_name(f"{file.name}{rest}")
                if old_file and beside.exists():
                    beside.rename(old_file.with_name(f"{old_file.name}{rest}"))
                beside.unlink(missing_ok=True)
            partial.rename(file)
            _flush(file.parent)
        finally:
            partial.unlink(missing_ok=True)
        return old_file


def _has_tables(file: Path) -> bool:
    """Return whether a database holds anything, or may: opening a new one already writes a page."""
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(file)) as database:
        return bool(database.execute("SELECT 1 FROM sqlite_master").fetchone())
    return True


@contextmanager
def _damage_as_error() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError:  # the disk is full, for instance
        raise
    except sqlite3.DatabaseError as error:
        raise Damaged(str(error)) from error


def _unchanged(file: Path) -> closing[sqlite3.Connection]:
    """Open a file that nobody writes to; no others are made beside it."""
    return closing(sqlite3.connect(f"{file.absolute().as_uri()}?immutable=1", uri=True))


def _file() -> Path:
    return Path(str(connection.settings_dict["NAME"])).resolve()


# --- PostgreSQL -----------------------------------------------------------------------------------


class _Postgresql:
    """Runs the client programs of PostgreSQL."""

    def back_up(self, partial: Path, progress: Progress) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_database_size(current_database())")
            size = cursor.fetchone()[0]
        command = [
            "pg_dump",
            "--format=custom",
            "--no-owner",
            "--no-privileges",
            f"--file={partial}",
        ]
        with _running(command) as process:
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.5)
                progress(min(partial.stat().st_size, size), size)

    def check(self, file: Path) -> None:
        """Read the whole file: its list of contents is at its beginning. Raises: Damaged."""
        try:
            with _running(["pg_restore", f"--file={os.devnull}", str(file)]) as process:
                process.wait()
        except BackupRefused as refusal:
            if shutil.which("pg_restore") is None:
                raise
            raise Damaged(str(refusal).rstrip(".")) from refusal

    def is_ours(self, file: Path) -> bool:
        with _running(["pg_restore", "--list", str(file)], stdout=subprocess.PIPE) as process:
            return f" {_OURS} " in process.stdout.read()

    def migrations(self, file: Path) -> set[tuple[str, str]]:
        """Return the application and the name of each migration."""
        command = ["pg_restore", "--data-only", "--table=django_migrations", "--file=-", str(file)]
        with _running(command, stdout=subprocess.PIPE) as process:
            rows = process.stdout.read().partition("\nCOPY ")[2].partition("\n\\.\n")[0]
        cells = [line.split("\t") for line in rows.splitlines()[1:]]
        return {(app, name) for _, app, name, _ in cells}

    def restore(self, source: Path) -> Path | None:
        _check_content(source, source)
        options = [
            "--clean",
            "--if-exists",
            "--no-owner",
            "--no-privileges",
            "--single-transaction",
            "--exit-on-error",
        ]
        command = [
            "pg_restore",
            *options,
            f"--dbname={connection.settings_dict['NAME']}",
            str(source),
        ]
        with _set_tables_aside(), _running(command) as process:
            process.wait()
        return None


@contextmanager
def _set_tables_aside() -> Any:
    """Move all tables to another schema. They come back if the block raises; otherwise they are
    dropped.

    pg_restore drops what the backup has. A database with later migrations has more, and that would
    remain, or refer to what is dropped.
    """
    _execute(f"CREATE SCHEMA {ASIDE}", *_moves(ASIDE))
    try:
        yield
    except BaseException:
        _bring_back()
        raise
    _execute(f"DROP SCHEMA {ASIDE} CASCADE")


def _bring_back() -> None:
    """Move the tables back that were set aside, also by a restore that was killed. Raises:
    BackupRefused."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT quote_ident(current_schema()), to_regnamespace(%s) IS NOT NULL", [ASIDE]
        )
        [own, is_there] = cursor.fetchone()
        if not is_there:
            return
        if connection.introspection.table_names(cursor):
            raise BackupRefused(
                "A restore was killed before it had ended: what the database held is in the "
                f"schema {ASIDE}, and there are other tables now. Drop what you do not need, for "
                f"instance: DROP SCHEMA {ASIDE} CASCADE"
            )
        cursor.execute(f"SET search_path TO {ASIDE}")
    _execute(*_moves(own), f"DROP SCHEMA {ASIDE}")


def _moves(schema: str) -> list[str]:
    """Return the statements that move all tables of the current schema to another."""
    tables = [connection.ops.quote_name(name) for name in connection.introspection.table_names()]
    return [f"ALTER TABLE {table} SET SCHEMA {schema}" for table in tables]


def _execute(*statements: str) -> None:
    """Execute the statements in one transaction, and leave no connection open."""
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    connection.close()


@contextmanager
def _running(command: Sequence[str], stdout: int | None = None) -> Any:
    """Run a program of PostgreSQL on the database. Raises: BackupRefused with what it said, if it
    fails."""
    if shutil.which(command[0]) is None:
        raise BackupRefused(
            f"{command[0]} is missing; install the client programs of PostgreSQL "
            "(postgresql-client)."
        )
    process = subprocess.Popen(  # nosec B603 # a fixed command
        command,
        env=os.environ | _variables(connection.settings_dict),
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        output = process.communicate()[1]
    if process.returncode:
        raise BackupRefused(f"{command[0]} failed: {' '.join(output.split())[-500:]}")


def _variables(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of libpq as variables, because everybody can read the arguments of a
    process."""
    variables = {"PGHOST": config["HOST"], "PGPORT": config["PORT"], "PGUSER": config["USER"]}
    variables |= {"PGPASSWORD": config["PASSWORD"], "PGDATABASE": config["NAME"]}
    options = config.get("OPTIONS", {})
    for name in ("host", "sslmode", "sslrootcert"):
        if name in options:
            variables[f"PG{name.upper()}"] = options[name]
    return {name: str(value) for name, value in variables.items() if value}
