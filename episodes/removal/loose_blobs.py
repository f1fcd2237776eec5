"""Deletes the blobs that nothing refers to any more, after episodes were removed.

The recorder remembers which blobs the database has and refers to those without writing them again,
so only its own process may delete blobs, or a process that keeps every recorder out. `forget` makes
it forget some blobs and holds its writing back for the moment in which they are checked a last time
and deleted.

Most columns that refer to blobs have an index of the few rows that do. Nearly all episodes have a
prompt and a list of tools, and such an index would cost each of them something, so the episodes are
read instead, before the lock is taken.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import Max

from environments.database.json_rows import ID_LISTS
from environments.database.write_pauses import give_way
from episodes.models import Episode, LooseBlob

Forget = Callable[[Collection[str]], AbstractContextManager[Any]]
MAX_CHECKED = 20_000
"""Maximum number of blobs for which the episodes are read at once."""
MAX_DELETED = 200
"""Maximum number of blobs deleted in one transaction."""
_RANGE = 20_000
"""Ids of episodes that are looked at by one query."""

_TEXTS = {
    "sqlite": "SELECT value FROM json_each(%s)",
    "postgresql": "SELECT json_array_elements_text(%s::json)",
}
_INDEXED = (
    ("episodes_step", "input_blob_id"),
    ("episodes_step", "output_blob_id"),
    ("episodes_rollout", "event_blob_id"),
    ("episodes_rolloutmessage", "content_blob_id"),
    ("episodes_rolloutmessage", "summary_blob_id"),
    ("episodes_rolloutmessage", "extra_blob_id"),
)
_OF_EPISODES = ("prompt_id", "tools_id")


@dataclass(frozen=True, slots=True)
class _PromptBoundary:
    """Divides the episodes: the prompt and tools of those up to the id `last` do not change any
    more, but for the running ones."""

    last: int
    running: str
    """Ids of the running episodes, as a JSON array."""


def are_there_any() -> bool:
    """Return whether blobs wait for a check. One query."""
    return LooseBlob.objects.exists()


def delete_loose_blobs(forget: Forget = lambda digests: nullcontext()) -> int:
    """Check all blobs that lost a reference, delete those that have none left, and return their
    number.

    Raises: django.db.Error.
    """
    count = 0
    while rows := list(LooseBlob.objects.order_by("pk").values_list("pk", "digest")[:MAX_CHECKED]):
        last = Episode.objects.aggregate(last=Max("pk"))["last"] or 0
        running = Episode.objects.filter(status="running").values_list("pk", flat=True)
        boundary = _PromptBoundary(last, json.dumps(list(running)))
        loose = sorted(_unneeded({digest for _, digest in rows}, boundary))
        for start in range(0, len(loose), MAX_DELETED):
            count += _delete(loose[start : start + MAX_DELETED], boundary, forget)
            give_way()
        LooseBlob.objects.filter(pk__lte=rows[-1][0]).delete()
    return count


def _unneeded(digests: set[str], boundary: _PromptBoundary) -> set[str]:
    """Return those of the blobs to which nothing refers that was there at the boundary."""
    digests = _without_indexed(digests)
    for low in range(0, boundary.last, _RANGE):
        if not digests:
            break
        values, condition = [low, low + _RANGE], "id > %s AND id <= %s"
        digests -= _referenced("episodes_episode", _OF_EPISODES, digests, condition, values)
    return digests


def _delete(candidates: Collection[str], boundary: _PromptBoundary, forget: Forget) -> int:
    with forget(candidates), transaction.atomic():
        digests = _without_indexed(set(candidates))
        condition = f"(id > %s OR id IN ({ID_LISTS[connection.vendor]}))"
        values = [boundary.last, boundary.running]
        digests -= _referenced("episodes_episode", _OF_EPISODES, digests, condition, values)
        # Django would look for references again, also where there is no index
        with connection.cursor() as cursor:
            sql = f"DELETE FROM episodes_blob WHERE digest IN ({_TEXTS[connection.vendor]})"  # nosec B608 # only our own names
            cursor.execute(sql, [json.dumps(sorted(digests))])
            return int(cursor.rowcount)


def _without_indexed(digests: set[str]) -> set[str]:
    """Return those of the blobs to which no column with an index refers."""
    for table, column in _INDEXED:
        digests = digests - _referenced(table, (column,), digests)
    return digests


def _referenced(
    table: str,
    columns: tuple[str, ...],
    digests: set[str],
    condition: str = "1 = 1",
    values: list[Any] | None = None,
) -> set[str]:
    """Return those of the blobs to which a column of the table refers, in rows that meet the
    condition."""
    results = set[str]()
    with connection.cursor() as cursor:
        for column in columns:
            is_digest = f"{column} IS NOT NULL AND {column} IN ({_TEXTS[connection.vendor]})"
            sql = f"SELECT DISTINCT {column} FROM {table} WHERE {is_digest} AND {condition}"  # nosec B608 # only our own names
            cursor.execute(sql, [json.dumps(sorted(digests)), *(values or ())])
            results.update(digest for (digest,) in cursor.fetchall())
    return results
