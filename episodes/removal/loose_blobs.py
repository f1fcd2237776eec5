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
from collections.abc import Callable, Collection, Iterator
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
    *(
        ("episodes_step", "input_blob_id"),
        ("episodes_step", "output_blob_id"),
        ("episodes_rollout", "event_blob_id"),
    ),
    *(("episodes_rolloutmessage", f"{name}_blob_id") for name in ("content", "summary", "extra")),
)
_OF_EPISODES = ("prompt_id", "tools_id")
_DELETE = "DELETE FROM episodes_blob WHERE digest IN ({digests})"
_SINCE = "(id > %s OR id IN ({ids}))"


@dataclass(frozen=True, slots=True)
class _PromptBoundary:
    """Divides the episodes: those up to the id `last` that are not in `running` have their prompt
    and their tools."""

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
    deleted = 0
    while noted := list(LooseBlob.objects.order_by("pk").values_list("pk", "digest")[:MAX_CHECKED]):
        last = Episode.objects.aggregate(last=Max("pk"))["last"] or 0
        running = Episode.objects.filter(status="running").values_list("pk", flat=True)
        boundary = _PromptBoundary(last, json.dumps(list(running)))
        loose = sorted(_unneeded({digest for _, digest in noted}, boundary))
        for start in range(0, len(loose), MAX_DELETED):
            deleted += _delete(loose[start : start + MAX_DELETED], boundary, forget)
            give_way()
        LooseBlob.objects.filter(pk__lte=noted[-1][0]).delete()
    return deleted


def _unneeded(digests: set[str], boundary: _PromptBoundary) -> set[str]:
    """Return those of the blobs to which nothing refers that was there at the boundary."""
    left = _without_indexed(digests)
    for low in range(0, boundary.last, _RANGE):
        if not left:
            break
        left -= set(
            _found(
                "episodes_episode", _OF_EPISODES, left, "id > %s AND id <= %s", [low, low + _RANGE]
            )
        )
    return left


def _delete(digests: Collection[str], boundary: _PromptBoundary, forget: Forget) -> int:
    with forget(digests), transaction.atomic():
        left = _without_indexed(set(digests))
        since = _SINCE.format(ids=ID_LISTS[connection.vendor])
        left -= set(
            _found("episodes_episode", _OF_EPISODES, left, since, [boundary.last, boundary.running])
        )
        # Django would look for references again, also where there is no index
        with connection.cursor() as cursor:
            cursor.execute(
                _DELETE.format(digests=_TEXTS[connection.vendor]), [json.dumps(sorted(left))]
            )
            return int(cursor.rowcount)


def _without_indexed(digests: set[str]) -> set[str]:
    left = set(digests)
    for table, column in _INDEXED:
        left -= set(_found(table, (column,), left))
    return left


def _found(
    table: str,
    columns: tuple[str, ...],
    digests: set[str],
    condition: str = "1 = 1",
    values: list[Any] | None = None,
) -> Iterator[str]:
    """Yield those of the blobs to which a column of the table refers, in rows that meet the
    condition."""
    listed = json.dumps(sorted(digests))
    with connection.cursor() as cursor:
        for column in columns:
            wanted = f"{column} IS NOT NULL AND {column} IN ({_TEXTS[connection.vendor]})"
            sql = f"SELECT DISTINCT {column} FROM {table} WHERE {wanted} AND {condition}"  # nosec B608 # only our own names
            cursor.execute(sql, [listed, *(values or ())])
            yield from (digest for (digest,) in cursor.fetchall())
