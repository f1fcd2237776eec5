"""Catches the statements of a test, and finds those that go through a table that can grow, by the
database's own plans.

The tables of tests are nearly empty. SQLite plans without regard to that. PostgreSQL plans for
copies of them with the same indexes, which hold COPY_ROWS rows and are said to hold millions, and
is told to avoid scans and joins of whole tables: what it still scans is what no index leads to. The
copies stay in a schema of their own for later tests.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.db import connection, transaction
from django.db.backends.signals import connection_created

SMALL = {
    **dict.fromkeys(
        ("Environment", "EnvironmentRevision", "Split", "SplitStretches"),
        "one for each class or version",
    ),
    **dict.fromkeys(("Progress", "RolloutScan"), "one for each part of the follower"),
    **dict.fromkeys(
        ("Retention", "SavedView", "Study", "Suite", "SuiteVersion", "SuiteMember", "ApiKey"),
        "made by people, one by one",
    ),
    **dict.fromkeys(
        ("User", "Group", "Permission", "ContentType"), "one for each person, or for each model"
    ),
    "ClusterServer": "one for each start of one of several servers",
    "EnvironmentSecret": "one for each secret that the operator has given",
    "Incident": "one for each death of a process, or hour in which it was held; 1,000 exceptions "
    "at most",
    "RecordedBytes": "one for each key with a quota",
    "RewardComponent": "100 for each environment at most",
    "Removal": "one for each removal",
    "LooseBlob": "read to be emptied",
}
"""Models whose tables stay small, or are emptied by being read, with the reason."""
FEW_ROWS = {
    "episode_running",
    "rollout_unsummarised",
    "action_unfinished",
    "taskflag_open",
}
"""Indexes of few rows, by their condition. A scan of one is none of the table."""
GROWING = {
    model._meta.db_table
    for model in apps.get_models(include_auto_created=True)
    if model.__name__ not in SMALL
}
TABLES = re.compile(r'(?:FROM|JOIN|UPDATE|INTO)\s+"?(\w+)"?(?:\s+AS)?\s*"?(\w*)"?', re.IGNORECASE)
DATA = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "DECLARE")

COPY_ROWS = 200
VALUES = {
    "boolean": "n % 20 = 0",
    "bytea": "decode(md5(n::text), 'hex')",
    "double precision": "n",
    "inet": "'10.0.0.0'::inet + n",
    "jsonb": "to_jsonb(n)",
    "timestamp with time zone": "now() + n * interval '1 second'",
    "tsvector": "to_tsvector('simple', 'word' || n)",
    "date": "current_date + n",
    "interval": "n * interval '1 second'",
    "uuid": "md5(n::text)::uuid",
}
"""SQL type -> the value of row `n`, another one in each row where that is possible."""


COLUMNS = {  # what conditions of indexes look at
    "episodes_episode.status": "CASE WHEN n % 20 = 0 THEN 'running' ELSE 'ended' END",
    "environments_splitentry.until": "CASE WHEN n % 20 = 0 THEN n END",
    "environments_taskstatistics.by": "CASE WHEN n % 3 = 0 THEN 'all' WHEN n % 3 = 1 THEN 'run' "
    "ELSE 'model' END",
}


@contextmanager
def caught(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Collect the statements of all connections (text -> parameters) that are opened within the
    block."""
    statements: dict[str, Any] = {}
    connection.close()
    if connection.vendor == "sqlite":

        def trace(connection: Any, **_: Any) -> None:
            connection.connection.set_trace_callback(
                lambda sql: statements.setdefault(_without_values(sql), sql)
            )

        connection_created.connect(trace)
        yield statements
        connection_created.disconnect(trace)
    else:
        with monkeypatch.context() as patch:
            for kind in (psycopg.Cursor, psycopg.ServerCursor):
                patch.setattr(kind, "execute", _keeping(kind.execute, statements))
            yield statements
    connection.close()


def _keeping(execute: Any, statements: dict[str, Any]) -> Any:
    def keep(cursor: Any, sql: Any, params: Any = None, **options: Any) -> Any:
        statements.setdefault(sql.decode() if isinstance(sql, bytes) else str(sql), params)
        return execute(cursor, sql, params, **options)

    return keep


def judge(statements: Mapping[str, Any], exceptions: Mapping[str, str], least: int) -> None:
    """Fail if one of the statements reads all of a growing table, or if fewer than `least` were
    caught."""
    assert len(statements) > least
    found = scans(statements, exceptions)
    assert not found, "\n\n".join(found)


def scans(statements: Mapping[str, Any], exceptions: Mapping[str, str]) -> list[str]:
    """Return the statements that read all of a growing table, with how.

    `exceptions`: part of each statement that may do so, with the reason. A semicolon stands for the
    statement's end; all values are the same.
    """
    parts = [_without_values(part) for part in exceptions]
    kept = {
        sql: params
        for sql, params in statements.items()
        if sql.lstrip().upper().startswith(DATA)
        and not any(part in _without_values(f"{sql};") for part in parts)
    }
    explain = _sqlite_scans if connection.vendor == "sqlite" else _postgresql_scans
    if connection.vendor == "sqlite":
        _forget_sizes()
    else:
        _make_copies(GROWING.intersection(re.findall(r"\w+", " ".join(kept))))
    with transaction.atomic():
        if connection.vendor == "postgresql":
            _pretend_millions()
        found = [f"{how}: {sql}" for sql, params in kept.items() for how in explain(sql, params)]
        transaction.set_rollback(True)
    return found


def _without_values(sql: str) -> str:
    return re.sub(r"%s|\d+|'[^']*'", "0", sql)


def _forget_sizes() -> None:
    """Delete the statistics that actions of people leave (`planner_statistics.py`), as they are of
    tiny tables."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'")
        if cursor.fetchone():
            cursor.execute("DELETE FROM sqlite_stat1")
    connection.close()  # the next one reads that there are none


def _sqlite_scans(_: str, sql: str) -> Iterator[str]:
    small = (
        Counter[str]()
    )  # of several tables with one alias, in different subqueries, those that are scanned are these
    growing = set[str]()
    for table, alias in TABLES.findall(sql):
        for name in {table, alias or table}:
            growing |= {name} if table in GROWING else set()
            small[name] += table not in GROWING
    rows = connection.connection.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()
    plan = [row[3] for row in rows]
    sorts = any("USE TEMP B-TREE" in line for line in plan)
    for line in plan:
        scanned = re.match(r"SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?", line)
        if not scanned or scanned[1] not in growing or scanned[2] in FEW_ROWS:
            continue
        if small[scanned[1]] > 0:
            small[scanned[1]] -= 1
            continue
        # ends with the first rows
        is_walk = "LIMIT" in sql and not sorts and (scanned[2] or "ORDER BY" in sql)
        if not is_walk or _has_filter(sql, scanned[1], scanned[2]):
            yield line


def _has_filter(sql: str, table: str, index: str | None) -> bool:
    """Return whether a walk along an index may go on to rows that do not count.

    That is if a condition names a column of the table that the index's own condition does not.
    """
    named = set[str]()
    for part in re.findall(
        r"\bWHERE (.*?)(?=\bWHERE|\bSELECT|\bORDER BY|\bGROUP BY|\bLIMIT|$)", sql, re.DOTALL
    ):
        # what a subquery names of the row outside of it
        own = re.sub(rf'= \("?{table}"?\."?\w+"?\)', "", part)
        named |= set(re.findall(rf'"?\b{table}"?\."?(\w+)', own))
    with connection.cursor() as cursor:
        cursor.execute("SELECT sql FROM sqlite_schema WHERE name = %s", [index or ""])
        found = cursor.fetchone()
    condition = ((found and found[0]) or "").partition(" WHERE ")[2]
    return any(f'"{name}"' not in condition for name in named)


def _make_copies(tables: Collection[str]) -> None:
    """Make the copies of these tables that an earlier test hasn't made."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA IF NOT EXISTS copies; SET LOCAL search_path = copies, public")
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'copies'")
        for table in sorted({*tables}.difference(name for (name,) in cursor.fetchall())):
            _copy(cursor, table)
        cursor.execute(
            "UPDATE pg_class SET reltuples = 1000000 * relpages WHERE relnamespace = "
            "'copies'::regnamespace"
        )


def _pretend_millions() -> None:
    with connection.cursor() as cursor:
        for name in ("seqscan", "hashjoin", "mergejoin"):
            cursor.execute(f"SET LOCAL enable_{name} = off")
        cursor.execute("SET LOCAL jit = off; SET LOCAL search_path = copies, public")


def _copy(cursor: Any, table: str) -> None:
    """Make an empty table with the columns and indexes of another one in the schema `copies`, and
    fill it."""
    cursor.execute(
        "SELECT attname, format_type(atttypid, NULL), atttypmod FROM pg_attribute"
        " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
        [f'public."{table}"'],
    )
    columns = cursor.fetchall()
    values = ", ".join(_value(table, *column) for column in columns)
    cursor.execute(f'CREATE TABLE copies."{table}" AS SELECT * FROM public."{table}" WHERE false')
    cursor.execute(
        f'INSERT INTO copies."{table}" SELECT {values} FROM generate_series(1, {COPY_ROWS}) AS n'
    )
    cursor.execute(
        "SELECT pg_get_indexdef(indexrelid), quote_ident(relname), indisprimary FROM pg_index"
        " JOIN pg_class ON pg_class.oid = indexrelid WHERE indrelid = %s::regclass",
        [f'public."{table}"'],
    )
    for definition, name, is_primary in cursor.fetchall():
        cursor.execute(definition.replace(" ON public.", " ON copies.", 1))
        if is_primary:
            cursor.execute(f'ALTER TABLE copies."{table}" ADD PRIMARY KEY USING INDEX {name}')
    cursor.execute(f'ANALYZE copies."{table}"')


def _value(table: str, name: str, kind: str, length: int) -> str:
    if value := COLUMNS.get(f"{table}.{name}") or VALUES.get(kind):
        return value
    if kind.startswith(("character", "text")):
        return f"left(n || md5(n::text), {length - 4})" if length > 0 else "n || md5(n::text)"
    return f"n::{kind}"


def _postgresql_scans(sql: str, params: Any) -> Iterator[str]:
    sql = re.sub(r"^DECLARE .*? FOR ", "", sql)
    found = (
        psycopg.Cursor(connection.connection)
        .execute(f"EXPLAIN (FORMAT JSON) {sql}", params)
        .fetchone()
    )
    assert found
    yield from _postgresql_nodes(found[0][0]["Plan"], is_limited=False)


def _postgresql_nodes(node: dict[str, Any], *, is_limited: bool) -> Iterator[str]:
    kind, table = node["Node Type"], node.get("Relation Name")
    is_limited = kind == "Limit" or (is_limited and "Sort" not in kind and "Aggregate" not in kind)
    if kind == "Seq Scan" and table in GROWING and ("Filter" in node or not is_limited):
        yield f"Seq Scan on {table}"
    if "Index" in kind and ("Filter" in node or not is_limited) and _is_whole(node):
        yield f"{kind} of all of {node['Index Name']}"
    for child in node.get("Plans", ()):
        yield from _postgresql_nodes(child, is_limited=is_limited)


def _is_whole(node: dict[str, Any]) -> bool:
    """Return whether a node reads a whole index: no condition names the index's first column."""
    if (name := node["Index Name"]) in FEW_ROWS:
        return False
    table, first = _first_column(name)
    return table in GROWING and first not in node.get("Index Cond", "")


@cache
def _first_column(index: str) -> tuple[str, str]:
    """Return the table of the index, and its first column or expression."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, pg_get_indexdef(indexrelid, 1, true)"
            " FROM pg_index JOIN pg_class ON pg_class.oid = indrelid WHERE indexrelid = "
            "%s::regclass",
            [f'"{index}"'],
        )
        return tuple(cursor.fetchone())
