"""The record of a server, read from its own database with the project's models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dj_database_url
from django.db import connections
from django.db.models import QuerySet
from pytest_django import DjangoDbBlocker

from episodes.models import Blob, Episode, Step
from tests.server import LiveServer

ALIAS = "recorded"


class Recorded:
    """Valid within its `recorded` block. Every call reads what is committed at that moment."""

    @property
    def episodes(self) -> QuerySet[Episode]:
        return Episode.objects.using(ALIAS).select_related(
            "environment", "split", "task", "run", "prompt", "tools"
        )

    def episode(self, sid: str | None) -> Any:
        """Return the only Episode of a session; untyped, because tests know which of its fields are set.

        Raises: Episode.DoesNotExist, Episode.MultipleObjectsReturned.
        """
        return self.episodes.get(session_id=sid)

    def steps(self, sid: str | None) -> list[Step]:
        """Return the steps of an episode, in order."""
        return list(
            self.episode(sid).steps.select_related("input_blob", "output_blob").order_by("index")
        )

    def everything(self) -> str:
        """Return all values of all rows of all tables, with blobs decompressed."""
        connection = connections[ALIAS]
        with connection.cursor() as cursor:
            tables = connection.introspection.table_names(cursor)
            rows = [
                value
                for table in tables
                for value in _values(cursor, connection.ops.quote_name(table))
            ]
        return "\n".join([*rows, *(blob.text for blob in Blob.objects.using(ALIAS))])


def _values(cursor: Any, table: str) -> Iterator[str]:
    cursor.execute(f"SELECT * FROM {table}")
    for row in cursor.fetchall():
        yield from map(str, row)


@contextmanager
def recorded(server: LiveServer, blocker: DjangoDbBlocker) -> Iterator[Recorded]:
    url = server.database_url or f"sqlite:///{server.data_dir / 'orsweb.sqlite3'}"
    config = connections.configure_settings(
        {"default": {}, ALIAS: dict(dj_database_url.parse(url))}
    )
    connections.settings[ALIAS] = config[ALIAS]
    with blocker.unblock():
        try:
            yield Recorded()
        finally:
            connections[ALIAS].close()
            del connections[ALIAS], connections.settings[ALIAS]
