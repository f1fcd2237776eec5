"""Writing many rows, and large ones, at once."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from psycopg.pq import PipelineStatus

from environments.cluster.membership import fresh_connection
from environments.database import bulk_writer
from episodes.models import Blob, Step
from episodes.recording.batch import BLOB_COLUMNS
from tests.episodes.recorded import record
from tests.factories import episode_started, step_taken

pytestmark = pytest.mark.django_db(transaction=True)


def test_it_writes_a_large_result(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f'"{"xy" * 6_000_000}"'
    monkeypatch.setattr("episodes.recording.batch.MAX_INLINE_CHARACTERS", len(text))
    assert record((episode_started(), step_taken(output_json=text), step_taken(index=1))) == 0
    assert Step.objects.get(index=0).output == text


if connection.vendor == "postgresql":  # SQLite has no pipeline

    @pytest.mark.parametrize(
        ("limit", "is_piped"),
        [(10_000_000, [True, True, True]), (20_000, [True, True, False]), (0, [False] * 3)],
    )
    def test_it_sends_what_is_large_outside_of_the_pipeline(
        monkeypatch: pytest.MonkeyPatch, limit: int, is_piped: list[bool]
    ) -> None:
        seen: list[bool] = []
        execute = psycopg.Cursor.execute

        def watch(self: psycopg.Cursor[Any], sql: Any, *args: Any, **options: Any) -> Any:
            if "unnest" in str(sql) and any(
                f'INSERT INTO "episodes_{name}' in sql for name in ("blob", "episode", "step")
            ):
                seen.append(self.connection.pgconn.pipeline_status != PipelineStatus.OFF)
            return execute(self, sql, *args, **options)

        monkeypatch.setattr("environments.database.bulk_writer.MAX_PIPELINED_CHARACTERS", limit)
        monkeypatch.setattr(psycopg.Cursor, "execute", watch)
        steps = [step_taken(index=n, output_json=f'"{"x" * 8000}"') for n in range(5)]
        assert record((episode_started(), *steps)) == 0
        assert (seen, Step.objects.count()) == (is_piped, 5)

    def test_a_connection_for_finding_rows_by_keys_prepares_statements() -> None:
        """Else PostgreSQL parses and plans each statement again, which takes longer than executing
        it."""
        own = fresh_connection("default")
        bulk_writer.connect(own)
        row = ("0" * 32, False, 2, b"{}")
        with transaction.atomic():
            bulk_writer.BulkWriter(own).insert(Blob, BLOB_COLUMNS, [row])
            with own.cursor() as cursor:
                cursor.execute("SELECT statement FROM pg_prepared_statements")
                prepared = [statement for (statement,) in cursor.fetchall()]
        own.close()
        assert [statement.partition(" (")[0] for statement in prepared] == [
            'INSERT INTO "episodes_blob" AS t'
        ]
