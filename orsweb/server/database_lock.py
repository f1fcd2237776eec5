"""The lock that lets only one server at a time record into a database, and names its holder.

SQLite: flock on a file next to the database file, named after it (`orsweb.sqlite3.lock`).
PostgreSQL: an advisory lock in a connection of its own, whose application_name says who holds it.
Both are released when the process ends, so a killed server leaves nothing to clean up. Servers with
ORSWEB_CLUSTER share the advisory lock with each other.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from django.conf import settings
from django.db import connections

from environments import conf
from environments.cluster.membership import (
    DATABASE_KEY,
    DatabaseTaken,
    DeclaredDead,
    Membership,
    fresh_connection,
    holder_in,
    stop_at_once,
)
from orsweb.private_files import private_file
from orsweb.server import forks

_DESCRIBE_SESSION = """
    SELECT set_config('application_name', %s, false), set_config('tcp_keepalives_idle', '10', false),
    set_config('tcp_keepalives_interval', '5', false), set_config('tcp_keepalives_count', '3', false)
"""
"""Names the holder, and sets keepalives with which PostgreSQL notices within 30 s that the holder's
machine is gone."""


_NEEDS_POSTGRESQL = "several servers can share a database only on PostgreSQL"
_SHARING = " With ORSWEB_CLUSTER, servers share it."


class DatabaseInUse(Exception):
    """Another server records into this database; the message is one sentence that identifies it."""


class Lock:
    """A lock that is held until `release()`, the end of the `with` block, or the end of the
    process."""

    check_seconds = 5.0
    """How often to renew the lock."""
    membership: Membership | None = None
    """This server among several, if it shares the lock."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def renew(self) -> None:
        """Acquire the lock again if it was lost.

        Raises: DatabaseInUse; django.db.Error when the database cannot be reached.
        """

    def release(self) -> None:
        """Release the lock; a second call does nothing."""


class FileLock(Lock):
    def __init__(self, path: Path) -> None:
        """Acquire the lock. Raises: DatabaseInUse."""
        self._file: IO[str] = private_file(path).open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(self._file.fileno()).st_nlink == 0:
                raise BlockingIOError  # a restore that was refused has removed it in the meantime
        except BlockingIOError as error:
            with self._file:
                self._file.seek(0)
                try:
                    holder = json.loads(self._file.read())
                    name = "pid {pid} on {host}:{port} since {since}".format(**holder)
                except (ValueError, KeyError, TypeError):  # it is being written at this moment
                    name = "one that is just starting"
                raise DatabaseInUse(f"{_refusal(name)[:-1]}: {_NEEDS_POSTGRESQL}.") from error
        forks.keep(self._file)  # who has a copy of it has the lock
        self._write(json.dumps(_holder()))

    def release(self) -> None:
        # Emptied, not deleted: another server may have opened the file and would lock one that no
        # longer has a name.
        if not self._file.closed:
            self._write("")
            self._file.close()

    def _write(self, text: str) -> None:
        self._file.truncate(0)
        self._file.write(text)
        self._file.flush()


class AdvisoryLock(Lock):
    def __init__(self) -> None:
        """Acquire the lock. Raises: DatabaseInUse; django.db.Error when the database cannot be
        reached."""
        self._connection = fresh_connection("default")
        try:
            self._take()
        except BaseException:
            self.release()
            raise

    def renew(self) -> None:
        if self._connection.connection is not None and self._connection.is_usable():
            return
        self._connection.close()
        self._take()

    def release(self) -> None:
        self._connection.close()

    def _take(self) -> None:
        holder = _holder()
        name = (
            f"orsweb pid {holder['pid']} {holder['host']}:{holder['port']} on {holder['machine']}"
        )
        with self._connection.cursor() as cursor:
            cursor.execute(_DESCRIBE_SESSION, [name[:63]])  # the longest that PostgreSQL keeps
            cursor.execute("SELECT pg_try_advisory_lock(%s)", [DATABASE_KEY])
            if cursor.fetchone() == (True,):
                return
            raise DatabaseInUse(_refusal(holder_in(cursor)) + _SHARING)


class SharedLock(Lock):
    """The lock of one of several servers on a PostgreSQL database, and its place among them."""

    check_seconds = 0.5

    def __init__(self) -> None:
        """Acquire the lock. Raises: DatabaseInUse; django.db.Error when the database cannot be
        reached."""
        self.membership = self._membership = Membership(
            conf.cluster_address(), conf.process_directory()
        )
        try:
            self._membership.renew()
        except DatabaseTaken as error:
            raise DatabaseInUse(_refusal(str(error)) + _SHARING) from None

    def renew(self) -> None:
        try:
            self._membership.renew()
        except DatabaseTaken as error:
            raise DatabaseInUse(_refusal(str(error))) from None
        except DeclaredDead:
            stop_at_once()

    def release(self) -> None:
        self._membership.leave()


def acquire_to_serve() -> Lock:
    """Acquire the lock for a server, which may share it with others. Raises: as `acquire`."""
    if not conf.cluster_address():
        return acquire()
    if refusal := refusal_to_share("ORSWEB_CLUSTER is set"):
        raise DatabaseInUse(refusal)
    return SharedLock()


def refusal_to_share(why: str) -> str:
    """Return the sentence that refuses several servers on this database; empty if it can have them.
    `why`: the setting that needs them."""
    if connections["default"].vendor == "postgresql":
        return ""
    return f"{why}, but {_NEEDS_POSTGRESQL}; set DATABASE_URL to one."


def acquire() -> Lock:
    """Acquire the lock of the default database; an in-memory one needs none. Raises: DatabaseInUse;
    django.db.Error."""
    connection = connections["default"]
    if connection.vendor == "postgresql":
        return AdvisoryLock()
    name = str(connection.settings_dict["NAME"])
    if connection.vendor != "sqlite" or name == ":memory:" or "mode=memory" in name:
        return Lock()
    file = Path(name).resolve()  # several links may lead to one database
    return FileLock(file.with_name(f"{file.name}.lock"))


def _holder() -> dict[str, str | int]:
    return {
        "pid": os.getpid(),
        "host": settings.ORSWEB_HOST,
        "port": settings.ORSWEB_PORT,
        "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": socket.gethostname(),
    }


def _refusal(holder: str) -> str:
    return (
        f"This database already has a server ({holder}); stop it, or use another ORSWEB_DATA_DIR "
        "or DATABASE_URL."
    )
