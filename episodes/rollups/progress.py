"""Queries for the highest number of an ending, and for how far rollups have followed the
endings."""

from __future__ import annotations

from django.db import connection

# SQL text, because the follower and pages with figures run these queries again and again, and
# Django takes 1 ms to compile one
_NEWEST_END = "SELECT MAX(end_number) FROM episodes_episode WHERE status = 'ended'"
_ENDS = "SELECT name, end_number FROM episodes_progress"
LAST_END = (
    "SELECT COALESCE(MAX(number), 0) FROM ("
    "SELECT MAX(end_number) AS number FROM episodes_episode WHERE status = 'ended'"
    " UNION ALL SELECT MAX(end_number) FROM episodes_progress) AS ends"
)
"""`last_end` as SQL text, which the recorder of one of several servers runs, too."""


def newest_end() -> int:
    """Return the highest `end_number` of the episodes that there are; 0 before the first. One query
    along an index."""
    with connection.cursor() as cursor:
        cursor.execute(_NEWEST_END)
        return cursor.fetchone()[0] or 0


def last_end() -> int:
    """Return the highest `end_number` of any episode, deleted ones that a rollup followed included;
    0 before the first.

    One query.
    """
    with connection.cursor() as cursor:
        cursor.execute(LAST_END)
        return int(cursor.fetchone()[0])


def followed_to(*parts: str) -> int:
    """Return the `end_number` up to which the last of `parts`, given by name, has followed.

    0 if any of them has followed nothing yet or is being rebuilt. One query.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ENDS)
        ends = dict(cursor.fetchall())
    return ends[parts[-1]] if all(ends.get(name, 0) > 0 for name in parts) else 0
