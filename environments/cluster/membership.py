"""This process as one of several servers on a PostgreSQL database: which others live, which one
leads, who is dead.

A server holds an advisory lock under its id in a connection of its own. PostgreSQL releases it when
the process ends, and within 4 s when its machine is gone. A server whose lock is free may be
declared dead by any other; from then on it records nothing (`episodes/recording/writer.py` asks in
each transaction), and its sessions may be taken over.

Everything here blocks.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import structlog
from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

DATABASE_KEY = int.from_bytes(b"orsweb")
"""Key of the advisory lock on the database: exclusive for a server that has it alone, shared by
those of a cluster. It has six bytes, so both halves fit the columns classid and objid of
pg_locks."""
LOCKS = int.from_bytes(b"orsw")
"""First key of the other advisory locks; the second is the id of a server, or one of these."""
LEADING, ENDINGS, STARTING, NUMBERING, DEMO = 0, -1, -2, -3, -4

_DESCRIBE_SESSION = (
    "SELECT set_config('application_name', %s, false), "
    "set_config('tcp_keepalives_idle', '2', false), "
    "set_config('tcp_keepalives_interval', '1', false), "
    "set_config('tcp_keepalives_count', '2', false), set_config('lock_timeout', '3s', false)"
)
"""Names the holder, and sets keepalives: PostgreSQL notices within 4 s if its machine is gone."""
_HOLDER = (
    "SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid) "
    "WHERE locktype = 'advisory' AND granted AND classid = %s AND objid = %s AND objsubid = 1 "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_NEXT_ID = "SELECT nextval(pg_get_serial_sequence('environments_clusterserver', 'id'))"
_JOIN = (
    "INSERT INTO environments_clusterserver (id, address, token, machine, pid, directory, started, "
    "last_episode) VALUES (%s, %s, %s, %s, %s, %s, now(), 0)"
)
_DECLARE_DEAD = (
    "UPDATE environments_clusterserver SET ended = now() "
    "WHERE ended IS NULL AND id <> %s AND pg_postmaster_start_time() <= now() - %s * interval '1 "
    "second' "
    "AND pg_try_advisory_xact_lock(%s, id::int) RETURNING id, pid, machine"
)
"""Holds the lock to its end, so that a server that reconnects meanwhile finds itself dead."""
RETURN_SECONDS = 5.0
"""Time after a start of PostgreSQL in which servers take their locks again and none is declared
dead."""
MAX_REST_SECONDS = 0.03
"""Longest rest of one of several servers between two transactions."""
_LIVING = (
    "SELECT id, address, token, machine, directory FROM environments_clusterserver WHERE ended IS "
    "NULL"
)

log = structlog.get_logger(__name__)


class DatabaseTaken(Exception):
    """A server has the database alone; the message says which."""


class DeclaredDead(Exception):
    """Others have found this server dead, so their sessions are theirs now."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Another server, as its row describes it."""

    id: int
    address: str
    token: str
    directory: Path | None
    """Where it notes what it runs; None on another machine."""


class Membership:
    """This server's row and locks, from the first `renew` to `leave`."""

    def __init__(self, address: str, directory: Path) -> None:
        self.id = 0
        self.token = secrets.token_urlsafe(24)
        self.peers: Mapping[int, Peer] = {}
        """The other servers that lived when `renew` was last called."""
        self.is_leader = False
        self._address, self._directory = address, directory
        self._machine = socket.gethostname()
        self._known: dict[int, Peer] = {}
        self._turn = threading.Lock()
        self._connection = fresh_connection("default")

    def renew(self) -> None:
        """Declare servers dead whose lock is free, and read which live and who leads. The first
        call joins them; later ones connect again if necessary.

        Raises: DeclaredDead, DatabaseTaken; django.db.Error when the database cannot be reached.
        """
        with self._turn:
            if self._connection.connection is None or not self._connection.is_usable():
                self._connect()
            with self._connection.cursor() as cursor:
                cursor.execute(_DECLARE_DEAD, [self.id, RETURN_SECONDS, LOCKS])
                for number, pid, machine in cursor.fetchall():
                    log.warning("a server is dead", server=number, pid=pid, machine=machine)
                cursor.execute(_LIVING)
                living: dict[int, Peer] = {}
                for number, address, token, machine, directory in cursor.fetchall():
                    path = Path(directory) if machine == self._machine else None
                    living[number] = Peer(number, address, token, path)
                if living.pop(self.id, None) is None:
                    raise DeclaredDead
                if not self.is_leader:
                    cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [LOCKS, LEADING])
                    self.is_leader = cursor.fetchone()[0]
            self.peers = living
            self._known |= living

    def directory_of(self, server: int) -> Path | None:
        """Return where a server, alive or dead, notes what it runs; None if on another machine."""
        peer = self._known.get(server)
        return peer.directory if peer else None

    def ask(self, sql: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a query. Raises: django.db.Error."""
        with self._turn, self._connection.cursor() as cursor:
            cursor.execute(sql, values)
            return list(cursor.fetchall())

    def rest_seconds(self, batch_size: int, seconds: float) -> float:
        """Return how long to pause after a transaction for so many waiting calls, which took
        `seconds`.

        A single server writes all the time: while it commits, calls of all its agents gather for
        the next transaction. Several, each with a part of the agents, would make many small ones,
        so each rests while the others may write. One call alone shows that there is no crowd to
        wait for.
        """
        return min(seconds * len(self.peers), MAX_REST_SECONDS) if batch_size > 1 else 0.0

    def leave(self) -> None:
        """Say that this server has ended, and release its locks. A second call does nothing."""
        with self._turn:
            if self._connection.connection is not None:
                with suppress(Error), self._connection.cursor() as cursor:
                    cursor.execute(
                        "UPDATE environments_clusterserver SET ended = now() WHERE id = %s",
                        [self.id],
                    )
            self._connection.close()

    def _connect(self) -> None:
        """Take this server's locks, and store its row the first time. Raises: DatabaseTaken."""
        self.is_leader = False
        self._connection.close()
        name = f"orsweb pid {os.getpid()} at {self._address} on {self._machine}"
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(_DESCRIBE_SESSION, [name[:63]])
                cursor.execute("SELECT pg_try_advisory_lock_shared(%s)", [DATABASE_KEY])
                if not cursor.fetchone()[0]:
                    raise DatabaseTaken(holder_in(cursor))
                is_new = not self.id
                if is_new:
                    cursor.execute(_NEXT_ID)
                    self.id = cursor.fetchone()[0]
                cursor.execute("SELECT pg_advisory_lock(%s, %s)", [LOCKS, self.id])
                if is_new:
                    row = (self.id, self._address, self.token, self._machine, os.getpid())
                    cursor.execute(_JOIN, (*row, str(self._directory)))
        except BaseException:
            self._connection.close()
            raise


def stop_at_once() -> NoReturn:
    """End this process at once, because others have declared it dead; its supervisor starts another.

    Its requests get no answer, so clients repeat them and reach the servers that have its sessions
    now.
    """
    log.critical(
        "stopping at once",
        reason="other servers found this one dead and may have taken over its sessions",
    )
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL ends the process")


def fresh_connection(alias: str) -> BaseDatabaseWrapper:
    """Return a connection that any thread may use and that Django never closes."""
    connection = connections.create_connection(alias)
    connection.inc_thread_sharing()
    return connection


def holder_in(cursor: CursorWrapper) -> str:
    """Return the name of a server that holds the lock on the database."""
    cursor.execute(_HOLDER, [DATABASE_KEY >> 32, DATABASE_KEY & 0xFFFFFFFF])
    row = cursor.fetchone()
    return str(row[0]) if row else "one that has just ended"
