"""Queries for the highest number of an ending, and for how far rollups have followed the endings."""

from __future__ import annotations

from django.db.models import Max

from episodes.models import Episode, Progress


def last_end() -> int:
    """Return the highest `end_number` of any episode, deleted ones that a rollup followed included; 0 before the first.

    Two queries.
    """
    last: int = Episode.objects.ended().aggregate(last=Max("end_number"))["last"] or 0
    followed: int = Progress.objects.aggregate(last=Max("end_number"))["last"] or 0
    return max(last, followed)


def followed_to(*parts: str) -> int:
    """Return the `end_number` up to which the last of `parts`, given by name, has followed.

    0 if any of them has followed nothing yet or is being rebuilt. One query.
    """
    ends = dict(Progress.objects.filter(name__in=parts).values_list("name", "end_number"))
    return ends[parts[-1]] if all(ends.get(name, 0) > 0 for name in parts) else 0
