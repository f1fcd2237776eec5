"""Fast insertion of rows directly into tables, for the modules that seed databases of
benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

BATCH_ROWS = 50_000


def write_rows(table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Insert `rows` in batches, each in a transaction. Times are UTC text without a zone, which
    both databases read."""
    names, remaining = ", ".join(f'"{column}"' for column in columns), iter(rows)
    while batch := list(islice(remaining, BATCH_ROWS)):
        _write(f"{table} ({names})", batch)


def set_sequences(*tables: str) -> None:
    """Let the database's next ids follow those of inserted rows. Does nothing on SQLite, which
    needs no such step."""
    from django.db import connection

    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            for table in tables:
                cursor.execute(
                    f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table}"
                )


def analyze() -> None:
    """Update the planner's statistics of PostgreSQL, which it would do by itself within minutes."""
    from django.db import connection

    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")


def _write(target: str, batch: Sequence[Sequence[Any]]) -> None:
    from django.db import connection, transaction

    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with cursor.copy(f"COPY {target} FROM STDIN") as copy:
                for row in batch:
                    copy.write_row(row)
            return
        marks = ", ".join(["?"] * len(batch[0]))
        connection.connection.executemany(f"INSERT INTO {target} VALUES ({marks})", batch)
