"""Writes many rows in one statement on the raw connection, because Django's ORM costs ten times as
much.

Used by the recorder, by everything that derives rows from the record, and by imports of episodes.
Statements are prepared only on connections that `connect` has made: the recorder's.

On SQLite that is `executemany`; on PostgreSQL a prepared statement with one array literal per
column and `unnest`. That takes half of the time of psycopg's `executemany` (60 steps: client 11 and
server 22 µs a row against 26 and 43; with psycopg's own array dumper 67 and 38), and prepared a
quarter less again. Every statement but `add` and `subtract` may be run again with the same rows:
inserts skip what is there, updates set absolute values.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import cache
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

Columns = tuple[str, ...]
Values = tuple[Any, ...]
"""One row: text, bytes, numbers, booleans, None; times as `BulkWriter.time` makes them."""

MAX_PIPELINED_CHARACTERS = 8 * 1024 * 1024
"""Characters that are sent without waiting: with more under way, client and server may block each
other forever."""


class BulkWriter:
    """Writes inside the caller's transaction. Raises: django.db.Error."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection = connection
        self.is_sqlite = connection.vendor == "sqlite"
        self._pipeline = ExitStack()  # open while statements are sent without waiting
        self._pipelined_characters = 0

    def insert(self, model: type[models.Model], columns: Columns, rows: Collection[Values]) -> None:
        """Insert rows; those whose key exists are skipped."""
        if rows:
            self.run(
                (_sqlite_insert if self.is_sqlite else _postgresql_insert)(model, columns), rows
            )

    def update(
        self,
        model: type[models.Model],
        columns: Columns,
        rows: Collection[Values],
        once: Columns = (),
    ) -> None:
        """Update rows by id, which is each row's last value and occurs once. One in `once` keeps
        its value if any."""
        if rows:
            self.run(
                (_sqlite_update if self.is_sqlite else _postgresql_update)(
                    model, columns, once, ()
                ),
                rows,
            )

    def fill(self, model: type[models.Model], columns: Columns, rows: Collection[Values]) -> None:
        """Update rows by id, the last value of each row; None leaves a column as it is."""
        if rows:
            self.run(
                (_sqlite_update if self.is_sqlite else _postgresql_update)(
                    model, columns, (), columns
                ),
                rows,
            )

    def replace(
        self, model: type[models.Model], columns: Columns, rows: Collection[Values]
    ) -> None:
        """Insert rows whose first column is the id, or update those with the same id."""
        if rows:
            self.run(_replace(model, columns, self.is_sqlite), rows)

    def delete(self, model: type[models.Model], ids: Collection[int]) -> None:
        """Delete rows by id."""
        if ids:
            where = "= ?" if self.is_sqlite else "= ANY(%s::bigint[])"
            sql = f'DELETE FROM "{model._meta.db_table}" WHERE "id" {where}'  # nosec B608 # only our own names
            self.run(sql, [(one,) for one in ids])

    def add(
        self, model: type[models.Model], key: Columns, counts: Columns, rows: Collection[Values]
    ) -> None:
        """Insert rows of `key` and `counts`, each key once; if a row with the key exists, add the
        counts to it."""
        if rows:
            self.run(_add(model, key, counts, self.is_sqlite), rows)

    def subtract(
        self, model: type[models.Model], key: Columns, counts: Columns, rows: Collection[Values]
    ) -> None:
        """Subtract the counts of rows of `key` and `counts` from the rows with those keys; whole
        numbers end at 0."""
        if rows:
            given = [(*row[len(key) :], *row[: len(key)]) for row in rows]
            self.run(_subtract(model, key, counts, self.is_sqlite), given)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Send the statements within to PostgreSQL without waiting for the answer to each.

        From the statement on that exceeds MAX_PIPELINED_CHARACTERS, each is waited for.
        """
        if self.is_sqlite:
            yield
            return
        self._pipelined_characters = 0
        with self._connection.wrap_database_errors, self._pipeline:
            self._pipeline.enter_context(self._connection.connection.pipeline())
            yield

    def time(self, seconds: float | None) -> str | float | None:
        """Return a time as a row's value: naive UTC as text on SQLite; PostgreSQL converts seconds
        since the epoch."""
        if seconds is None or not self.is_sqlite:
            return seconds
        return str(datetime.fromtimestamp(seconds, UTC))[:-6]

    def run(self, sql: str, rows: Iterable[Values]) -> None:
        """Execute `sql`: on SQLite for each row, on PostgreSQL once with an array for each
        column."""
        raw = self._connection.connection
        with self._connection.wrap_database_errors:
            if self.is_sqlite:
                raw.executemany(sql, rows)
                return
            arrays = [_array(values) for values in zip(*rows, strict=True)]
            self._pipelined_characters += sum(map(len, arrays))
            if self._pipelined_characters > MAX_PIPELINED_CHARACTERS:
                self._pipeline.close()  # waits for the answers to what was sent
            execute_prepared(raw, sql, arrays)


def execute_prepared(raw: Any, sql: str, values: Sequence[Any] | None = None) -> Any:
    """Execute a statement that PostgreSQL prepares, on a connection of psycopg; return the cursor.

    It is not Django's cursor, which puts the values into the statement and so cannot prepare it.
    """
    from psycopg import Cursor  # takes 60 ms of a start, which SQLite does without

    return Cursor(raw).execute(sql, values, prepare=True)


def connect(connection: BaseDatabaseWrapper) -> None:
    """Connect if necessary, and let PostgreSQL prepare what is executed with `prepare=True`.
    Outside of transactions.

    It parses and plans such a statement once, perhaps while a table is empty and reading all of it
    is cheapest. So this is for connections whose statements find rows by keys: ways of joining that
    read more are switched off.
    Raises: django.db.Error.
    """
    connection.ensure_connection()
    raw = connection.connection
    # as Django leaves it: nothing is prepared
    if connection.vendor == "postgresql" and raw.prepare_threshold is None:
        with connection.cursor() as cursor:
            cursor.execute("; ".join(f"SET {setting}" for setting in _FIND_BY_KEYS))
        raw.prepare_threshold = sys.maxsize  # only what asks for it


_FIND_BY_KEYS = (
    "plan_cache_mode = force_generic_plan",
    "enable_seqscan = off",
    "enable_hashjoin = off",
    "enable_mergejoin = off",
)


@cache
def _sqlite_insert(model: type[models.Model], columns: Columns) -> str:
    marks = ", ".join("?" for _ in columns)
    return f'INSERT INTO "{model._meta.db_table}" ({_names(columns)}) VALUES ({marks}) ON CONFLICT DO NOTHING'  # nosec B608 # only our own names


@cache
def _sqlite_update(
    model: type[models.Model], columns: Columns, once: Columns, filled: Columns
) -> str:
    news = {name: _new(name, "?", f'"{name}"', once, filled) for name in columns}
    changes = ", ".join(f'"{name}" = {new}' for name, new in news.items())
    return f'UPDATE "{model._meta.db_table}" SET {changes} WHERE "id" = ?'  # nosec B608 # only our own names


@cache
def _postgresql_insert(model: type[models.Model], columns: Columns) -> str:
    return (
        f'INSERT INTO "{model._meta.db_table}" ({_names(columns)}) {_unnest(model, columns)} ON '
        "CONFLICT DO NOTHING"
    )


@cache
def _postgresql_update(
    model: type[models.Model], columns: Columns, once: Columns, filled: Columns
) -> str:
    news = {name: _new(name, f'v."{name}"', f't."{name}"', once, filled) for name in columns}
    changes = ", ".join(f'"{name}" = {new}' for name, new in news.items())
    source = _unnest(model, (*columns, "id"))
    return f'UPDATE "{model._meta.db_table}" AS t SET {changes} FROM ({source}) AS v WHERE t."id" = v."id"'  # nosec B608 # only our own names


@cache
def _replace(model: type[models.Model], columns: Columns, is_sqlite: bool) -> str:
    table, marks = model._meta.db_table, ", ".join("?" for _ in columns)
    rows = f"VALUES ({marks})" if is_sqlite else _unnest(model, columns)
    changes = ", ".join(f'"{name}" = excluded."{name}"' for name in columns[1:])
    return f'INSERT INTO "{table}" ({_names(columns)}) {rows} ON CONFLICT ("{columns[0]}") DO UPDATE SET {changes}'  # nosec B608 # only our own names


@cache
def _add(model: type[models.Model], key: Columns, counts: Columns, is_sqlite: bool) -> str:
    columns, table = (*key, *counts), model._meta.db_table
    rows = f"VALUES ({', '.join('?' for _ in columns)})" if is_sqlite else _unnest(model, columns)
    sums = ", ".join(f'"{name}" = t."{name}" + excluded."{name}"' for name in counts)
    return f'INSERT INTO "{table}" AS t ({_names(columns)}) {rows} ON CONFLICT ({_names(key)}) DO UPDATE SET {sums}'  # nosec B608 # only our own names


@cache
def _subtract(model: type[models.Model], key: Columns, counts: Columns, is_sqlite: bool) -> str:
    table, most = model._meta.db_table, "MAX" if is_sqlite else "GREATEST"
    floats = {
        field.column
        for field in model._meta.concrete_fields
        if isinstance(field, models.FloatField)
    }
    given = {name: "?" if is_sqlite else f'v."{name}"' for name in (*counts, *key)}
    rests = {name: f't."{name}" - {given[name]}' for name in counts}
    changes = ", ".join(
        f'"{name}" = {rest if name in floats else f"{most}({rest}, 0)"}'
        for name, rest in rests.items()
    )
    same = " AND ".join(f't."{name}" = {given[name]}' for name in key)
    source = "" if is_sqlite else f" FROM ({_unnest(model, (*counts, *key))}) AS v"
    return f'UPDATE "{table}" AS t SET {changes}{source} WHERE {same}'  # nosec B608 # only our own names


def _new(name: str, given: str, old: str, once: Columns, filled: Columns) -> str:
    """Return the SQL of a column's new value: the given one, unless the old one takes precedence or
    none is given."""
    if name in once:
        return f"COALESCE({old}, {given})"
    return f"COALESCE({given}, {old})" if name in filled else given


def _names(columns: Columns) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def _unnest(model: type[models.Model], columns: Columns) -> str:
    """Return the SQL that selects the rows in the parameters (one array for each column) under the
    columns' names."""
    types = {
        field.column: _ARRAY_TYPES[_target(field).get_internal_type()]
        for field in model._meta.concrete_fields
    }
    times = {
        field.column
        for field in model._meta.concrete_fields
        if isinstance(field, models.DateTimeField)
    }
    values = [
        f'to_timestamp("{name}") AS "{name}"' if name in times else f'"{name}"' for name in columns
    ]
    arrays = ", ".join(f"%s::{types[name]}[]" for name in columns)
    return f"SELECT {', '.join(values)} FROM unnest({arrays}) AS a({_names(columns)})"  # nosec B608 # only our own names


_ARRAY_TYPES = {
    "AutoField": "integer",
    "BigAutoField": "bigint",
    "BigIntegerField": "bigint",
    "BinaryField": "bytea",
    "BooleanField": "boolean",
    "CharField": "text",
    "DateTimeField": "double precision",
    "FloatField": "double precision",
    "PositiveBigIntegerField": "bigint",
    "PositiveIntegerField": "integer",
    "PositiveSmallIntegerField": "smallint",
    "TextField": "text",
}


def _target(field: models.Field[Any, Any]) -> models.Field[Any, Any]:
    return field.target_field if isinstance(field, models.ForeignKey) else field


def _array(values: Sequence[Any]) -> str:
    """Return the values as a PostgreSQL array literal."""
    return "{" + ",".join([_element(value) for value in values]) + "}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if type(value) is str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if type(value) is bytes:
        return f'"\\\\x{value.hex()}"'
    return str(value)
