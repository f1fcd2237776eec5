"""Makes a server's database unreachable for a while, without touching the server."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tests.server import LiveServer


@contextmanager
def away(server: LiveServer) -> Iterator[None]:
    """Make the database unreachable.

    PostgreSQL: all connections are closed and new ones refused. SQLite: another process holds the
    write lock.
    """
    with _refused(server.database_url) if server.database_url else _locked(server):
        yield


@contextmanager
def _locked(server: LiveServer) -> Iterator[None]:
    connection = sqlite3.connect(
        server.data_dir / "orsweb.sqlite3", isolation_level=None, timeout=20
    )
    connection.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        connection.rollback()
        connection.close()


@contextmanager
def _refused(url: str) -> Iterator[None]:
    parts = urlsplit(url)
    name = parts.path.lstrip("/")
    allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    with psycopg.connect(parts._replace(path="/postgres").geturl(), autocommit=True) as connection:
        connection.execute(allow.format(sql.Identifier(name), sql.Literal(False)))
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )
        try:
            yield
        finally:
            connection.execute(allow.format(sql.Identifier(name), sql.Literal(True)))
