"""Queries for the highest number of an ending, and for how far rollups have followed the endings."""

from __future__ import annotations

from django.db import connection
from django.db.models import Max

from episodes.models import Progress

_NEWEST_END = "SELECT MAX(end_number) FROM episodes_episode WHERE status = 'ended'"
"""SQL text, because the follower runs this query for each part in each round, and Django takes 1 ms to compile it."""


LAST_END = (
    "SELECT GREATEST((SELECT MAX(end_number) FROM episodes_episode WHERE status = 'ended'), "
    "(SELECT MAX(end_number) FROM episodes_progress), 0)"
)
"""`last_end` as one query of PostgreSQL, for the recorder of one of several servers."""


def newest_end() -> int:
    """Return the highest `end_number` of the episodes that there are; 0 before the first. One query along an index."""
    with connection.cursor() as cursor:
        cursor.execute(_NEWEST_END)
        return cursor.fetchone()[0] or 0


def last_end() -> int:
    """Return the highest `end_number` of any episode, deleted ones that a rollup followed included; 0 before the first.

    Two queries.
    """
    followed: int = Progress.objects.aggregate(last=Max("end_number"))["last"] or 0
    return max(newest_end(), followed)


def followed_to(*parts: str) -> int:
    """Return the `end_number` up to which the last of `parts`, given by name, has followed.

    0 if any of them has followed nothing yet or is being rebuilt. One query.
    """
    ends = dict(Progress.objects.filter(name__in=parts).values_list("name", "end_number"))
    return ends[parts[-1]] if all(ends.get(name, 0) > 0 for name in parts) else 0
