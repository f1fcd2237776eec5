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
            self.run(_insert(model, columns, self.is_sqlite), rows)

    def update(
        self,
        model: type[models.Model],
        columns: Columns,
        rows: Collection[Values],
        once: Columns = (),
    ) -> None:
        """Update rows by id, which is each row's last value and occurs once. Columns in `once` keep
        a value that they have."""
        if rows:
            self.run(_update(model, columns, once, (), self.is_sqlite), rows)

    def fill(self, model: type[models.Model], columns: Columns, rows: Collection[Values]) -> None:
        """Update rows by id, the last value of each row; None leaves a column as it is."""
        if rows:
            self.run(_update(model, columns, (), columns, self.is_sqlite), rows)

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
            self.run(sql, [(pk,) for pk in ids])

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
            rows = [(*row[len(key) :], *row[: len(key)]) for row in rows]
            self.run(_subtract(model, key, counts, self.is_sqlite), rows)

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
            arrays = [
                "{" + ",".join([_element(value) for value in values]) + "}"
                for values in zip(*rows, strict=True)
            ]
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
def _insert(model: type[models.Model], columns: Columns, is_sqlite: bool) -> str:
    marks = ", ".join("?" * len(columns))
    rows = f"VALUES ({marks})" if is_sqlite else _unnest(model, columns)
    return f'INSERT INTO "{model._meta.db_table}" AS t ({_names(columns)}) {rows} ON CONFLICT DO NOTHING'  # nosec B608 # only our own names


@cache
def _update(
    model: type[models.Model],
    columns: Columns,
    once: Columns,
    optional: Columns,
    is_sqlite: bool,
) -> str:
    changes = list[str]()
    for name in columns:
        old, value = f't."{name}"', "?" if is_sqlite else f'v."{name}"'
        if name in once:
            value = f"COALESCE({old}, {value})"
        elif name in optional:
            value = f"COALESCE({value}, {old})"
        changes.append(f'"{name}" = {value}')
    source = "" if is_sqlite else f" FROM ({_unnest(model, (*columns, 'id'))}) AS v"
    pk = "?" if is_sqlite else 'v."id"'
    return (
        f'UPDATE "{model._meta.db_table}" AS t SET {", ".join(changes)}{source} WHERE t."id" = {pk}'  # nosec B608 # only our own names
    )


@cache
def _replace(model: type[models.Model], columns: Columns, is_sqlite: bool) -> str:
    changes = ", ".join(f'"{name}" = excluded."{name}"' for name in columns[1:])
    insert = _insert(model, columns, is_sqlite).removesuffix("DO NOTHING")
    return f'{insert}("{columns[0]}") DO UPDATE SET {changes}'  # nosec B608 # only our own names


@cache
def _add(model: type[models.Model], key: Columns, counts: Columns, is_sqlite: bool) -> str:
    sums = ", ".join(f'"{name}" = t."{name}" + excluded."{name}"' for name in counts)
    insert = _insert(model, (*key, *counts), is_sqlite).removesuffix("DO NOTHING")
    return f"{insert}({_names(key)}) DO UPDATE SET {sums}"  # nosec B608 # only our own names


@cache
def _subtract(model: type[models.Model], key: Columns, counts: Columns, is_sqlite: bool) -> str:
    table, most = model._meta.db_table, "MAX" if is_sqlite else "GREATEST"
    floats = {
        field.column
        for field in model._meta.concrete_fields
        if isinstance(field, models.FloatField)
    }
    values = {name: "?" if is_sqlite else f'v."{name}"' for name in (*counts, *key)}
    rests = {name: f't."{name}" - {values[name]}' for name in counts}
    changes = ", ".join(
        f'"{name}" = {rest if name in floats else f"{most}({rest}, 0)"}'
        for name, rest in rests.items()
    )
    same = " AND ".join(f't."{name}" = {values[name]}' for name in key)
    source = "" if is_sqlite else f" FROM ({_unnest(model, (*counts, *key))}) AS v"
    return f'UPDATE "{table}" AS t SET {changes}{source} WHERE {same}'  # nosec B608 # only our own names


def _names(columns: Columns) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def _unnest(model: type[models.Model], columns: Columns) -> str:
    """Return the SQL that selects the rows in the parameters (one array for each column) under the
    columns' names."""
    fields = {field.column: field for field in model._meta.concrete_fields}
    values, arrays = list[str](), list[str]()
    for name in columns:
        field: models.Field[Any, Any] = fields[name]
        is_time = isinstance(field, models.DateTimeField)
        values.append(f'to_timestamp("{name}") AS "{name}"' if is_time else f'"{name}"')
        if isinstance(field, models.ForeignKey):
            field = field.target_field
        arrays.append(f"%s::{_ARRAY_TYPES[field.get_internal_type()]}[]")
    source = f"unnest({', '.join(arrays)}) AS a({_names(columns)})"
    return f"SELECT {', '.join(values)} FROM {source}"  # nosec B608 # only our own names


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


def _element(value: Any) -> str:
    """Return the value as an element of a PostgreSQL array literal."""
    if value is None:
        return "NULL"
    if type(value) is str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if type(value) is bytes:
        return f'"\\\\x{value.hex()}"'
    return str(value)
