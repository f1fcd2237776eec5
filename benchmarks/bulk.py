"""Rows straight into a table, as fast as each database takes them. Used by what seeds the benchmarks of pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

BATCH_ROWS = 50_000


def write_rows(table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """One transaction a batch. Times are text in UTC without a zone: SQLite keeps them so, PostgreSQL reads them."""
    names, left = ", ".join(f'"{column}"' for column in columns), iter(rows)
    while batch := list(islice(left, BATCH_ROWS)):
        _write(f"{table} ({names})", batch)


def set_sequences(*tables: str) -> None:
    """After rows with ids of their own: the database's next id comes after them. For SQLite nothing is to be done."""
    from django.db import connection

    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            for table in tables:
                cursor.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table}")


def analyze() -> None:
    """PostgreSQL's own statistics, which it would gather by itself within minutes; SQLite keeps none."""
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
