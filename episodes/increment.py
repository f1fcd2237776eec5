"""Increment: an episode's steps after one that is known, for whoever is told of every step as it comes.

Asked after each call that a person makes. Django takes twenty times as long to write such a statement as the database
to answer it, so it is written once, and rows are made of what the driver gives.
"""

from __future__ import annotations

from datetime import UTC
from functools import cache

from django.db import connection

from episodes.models import Blob, Step


def steps_after(episode: int, index: int, most: int) -> list[Step]:
    """In order, `most` at most; with their blobs, which have no data. One query, and one more when there are blobs."""
    names, statement = _statement()
    with connection.cursor() as cursor:
        cursor.execute(statement, [episode, index, most])
        rows = cursor.fetchall()
    steps = [Step.from_db(connection.alias, names, row) for row in rows]
    digests = {digest for step in steps for digest in (step.input_blob_id, step.output_blob_id) if digest}
    blobs = Blob.objects.defer("data").in_bulk(digests) if digests else {}
    for step in steps:
        _complete(step, blobs)
    return steps


def _complete(step: Step, blobs: dict[str, Blob]) -> None:
    """What Django does with each row: SQLite's times are of no zone, which is UTC."""
    if step.started.tzinfo is None:
        step.started = step.started.replace(tzinfo=UTC)
    if step.input_blob_id:
        step.input_blob = blobs[step.input_blob_id]
    if step.output_blob_id:
        step.output_blob = blobs[step.output_blob_id]


@cache
def _statement() -> tuple[list[str], str]:
    fields = Step._meta.concrete_fields
    columns = ", ".join(connection.ops.quote_name(field.column) for field in fields if field.column)
    where = 'WHERE episode_id = %s AND "index" > %s ORDER BY "index" LIMIT %s'
    return [field.attname for field in fields], f"SELECT {columns} FROM {Step._meta.db_table} {where}"
