"""No statement of the recorder, the follower or the agents' reads goes through a table that grows.

The statements are caught while episodes are played, and each is explained by the database that the tests run on.
PostgreSQL chooses by how full tables are, and in tests they are nearly empty: there, only reads of tasks are judged.
tests/episodes/dashboard/test_page_plans.py does the same with pages.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.db import connection
from django.db.backends.signals import connection_created

from environments.models import Task
from environments.runtime.records import RunInfo
from episodes.recording.interrupted_episodes import close_interrupted
from episodes.rollups.follower import catch_up
from tests.environments.listings import catalogue_of, collected, listing, numbered
from tests.episodes.recorded import commit, query, recording
from tests.factories import NOON, episode_ended, episode_noted, episode_started, step_taken

pytestmark = pytest.mark.django_db(transaction=True)

FEW = (
    *("Environment", "EnvironmentRevision", "LooseBlob", "Progress", "Removal", "Retention", "RolloutScan", "Split"),
    *("SavedView", "SplitStretches"),
)
"""Tables that stay small, or that are read to be emptied."""
GROWING = {
    model._meta.db_table
    for app in ("environments", "episodes")
    for model in apps.get_app_config(app).get_models()
    if model.__name__ not in FEW
}
ON_POSTGRESQL = {"environments_task"}
TABLES = re.compile(r'(?:FROM|JOIN|UPDATE|INTO)\s+"?(\w+)"?(?:\s+AS)?\s*"?(\w*)"?', re.IGNORECASE)
LARGE = json.dumps({"text": "long " * 2000})
COMPONENTS = '{"blocks": [], "metadata": {"components": {"format": 1.0}}, "reward": 0.5, "finished": true}'
DATA = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")


@contextmanager
def caught(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Collect the statements of all connections (text -> parameters) that are opened within the block."""
    statements: dict[str, Any] = {}
    connection.close()
    if connection.vendor == "sqlite":

        def trace(connection: Any, **_: Any) -> None:
            connection.connection.set_trace_callback(
                lambda sql: statements.setdefault(re.sub(r"\d+|'[^']*'", "0", sql), sql)
            )

        connection_created.connect(trace)
        yield statements
        connection_created.disconnect(trace)
    else:
        execute = psycopg.Cursor.execute

        def keep(cursor: Any, sql: Any, params: Any = None, **options: Any) -> Any:
            statements.setdefault(str(sql), params)
            return execute(cursor, sql, params, **options)

        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Cursor, "execute", keep)
            yield statements
    connection.close()


def scans(statements: dict[str, Any]) -> list[str]:
    """Return the statements that read all of a growing table, with how."""
    connection.ensure_connection()
    explain = _sqlite_scans if connection.vendor == "sqlite" else _postgresql_scans
    kept = {sql: params for sql, params in statements.items() if sql.lstrip().upper().startswith(DATA)}
    return [f"{how}: {sql}" for sql, params in kept.items() for how in explain(sql, params)]


def _sqlite_scans(_: str, sql: str) -> Iterator[str]:
    names = {alias or table: table for table, alias in TABLES.findall(sql)} | {t: t for t, _ in TABLES.findall(sql)}
    rows = connection.connection.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()
    plan = [row[3] for row in rows]
    partial = _partial_indexes()
    sorts = any("USE TEMP B-TREE" in line for line in plan)
    for line in plan:
        scanned = re.match(r"SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?", line)
        if not scanned or names.get(scanned[1]) not in GROWING or scanned[2] in partial:
            continue
        is_walk = "LIMIT" in sql and not sorts and (scanned[2] or "ORDER BY" in sql)  # ends with the first rows
        if not is_walk:
            yield line


def _partial_indexes() -> set[str]:
    """Return the indexes with a condition, which few rows meet."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql LIKE '% WHERE %'")
        return {name for (name,) in cursor.fetchall()}


def _postgresql_scans(sql: str, params: Any) -> Iterator[str]:
    with connection.cursor() as cursor:
        # The tables are nearly empty. These are the plans for full ones, as far as indexes allow them.
        cursor.execute("SET enable_seqscan = off; SET enable_mergejoin = off; SET enable_hashjoin = off")
    found = psycopg.Cursor(connection.connection).execute(f"EXPLAIN (FORMAT JSON) {sql}", params).fetchone()
    assert found
    yield from _postgresql_nodes(found[0][0]["Plan"], is_limited=False)


def _postgresql_nodes(node: dict[str, Any], *, is_limited: bool) -> Iterator[str]:
    kind, table = node["Node Type"], node.get("Relation Name")
    is_limited = kind == "Limit" or (is_limited and "Sort" not in kind and "Aggregate" not in kind)
    if kind == "Seq Scan" and table in ON_POSTGRESQL:
        yield f"Seq Scan on {table}"
    if "Index" in kind and not is_limited and _is_whole(node):
        yield f"{kind} of all of {node['Index Name']}"
    for child in node.get("Plans", ()):
        yield from _postgresql_nodes(child, is_limited=is_limited)


def _is_whole(node: dict[str, Any]) -> bool:
    """Return whether a node reads a whole index: no condition names the index's first column."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname, pg_get_indexdef(i.indexrelid, 1, true), pg_get_expr(i.indpred, i.indrelid)"
            " FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid WHERE i.indexrelid = %s::regclass",
            [f'"{node["Index Name"]}"'],
        )
        table, first, predicate = cursor.fetchone()
    return table in ON_POSTGRESQL and not predicate and first not in node.get("Index Cond", "")


async def play() -> None:
    """Read a task and play it, twice, so that counts are added to; end an episode that was left; recall a call."""
    tasks = listing({"train": numbered(3)})
    async with catalogue_of(tasks) as catalogue, recording() as recorder:
        spec = await catalogue.get("shop", "train", 1)
        await collected(catalogue.range("shop", "train", 0, 2))
        for episode in (1, 2):
            named = {"environment": "shop", "split": None, "index": None, "spec_json": spec}
            started = episode_started(episode, run=RunInfo(name="grpo-3", step=1, model="m"), **named)
            ended = episode_ended(episode, is_named=True, has_prompt=True)
            await commit(recorder, started, episode_noted(episode, ready=NOON, prompt_json='["Go"]'))
            await commit(recorder, step_taken(episode, input_json=LARGE, output_json=COMPONENTS), ended)
        await commit(recorder, episode_started(3, environment="shop"), step_taken(3))
        await recorder.recall("s1", "", "call-0")
        await recorder.interruption("s1", "")
        await query(lambda: close_interrupted(NOON + 99))
        await query(catch_up)


def test_no_statement_of_live_play_reads_a_whole_table(monkeypatch: pytest.MonkeyPatch) -> None:
    with caught(monkeypatch) as statements:
        asyncio.run(play())
    assert len(statements) > 50
    found = scans(statements)
    assert not found, "\n\n".join(found)


def test_a_statement_without_the_first_column_of_an_index_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with caught(monkeypatch) as statements:
        list(Task.objects.filter(content_hash__in=["a", "b"]).values_list("pk"))
    assert len(scans(statements)) == 1
