"""Indexes: the numbers under which clients get a split's tasks, from their positions. Read by pages. Blocking.

A position is where a task was put and stays what it is; quarantined tasks are not served and removed ones leave gaps,
so the index of a task is the number of tasks that are served before it. Of a split without gaps it is the position.
Else it is counted, from the nearer end: 1,000,000 places take 90 ms from their middle.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from django.db.models import OuterRef, Q, QuerySet, Subquery

from environments.models import Split, SplitEntry

NEAR = 500
"""Positions so close to each other are read, which also tells those between; others are counted."""
SECONDS = 0.04
"""For all that one page shows. What is left by then, far apart as a filter may leave them, has no index told."""


def served_indexes(
    split: Split, positions: Sequence[int], last: int | None = None, seconds: float = SECONDS
) -> dict[int, int]:
    """Position -> index, of those positions that are served as the split is at `split.version`.

    `last`: the split's last served position, if the caller knows it.
    """
    places, wanted = served(split), sorted(set(positions))
    if last is None:
        last = places.order_by("-position").values_list("position", flat=True).first()
    if last is None or not wanted:
        return {}
    if split.size == last + 1:
        return {position: position for position in wanted if position <= last}
    found: dict[int, int] = {}
    at, before, until = *_start(places, split.size, wanted[0], last), time.monotonic() + seconds
    for group in _groups(wanted):
        if time.monotonic() > until:
            break
        before += _between(places, at, group[0]).count()
        near = _between(places, group[0], group[-1] + 1).order_by("position").values_list("position", flat=True)
        indexes = {position: index for index, position in enumerate(near, before)}
        found |= {position: indexes[position] for position in group if position in indexes}
        at, before = group[-1] + 1, before + len(indexes)
    return found


def last_served() -> Subquery:
    """Column for a query of places with their splits: the last served position of each one's split."""
    now = Q(until=None) | Q(until__gt=OuterRef("split__version"))
    places = SplitEntry.objects.filter(now, split=OuterRef("split"), since__lte=OuterRef("split__version"))
    return Subquery(places.filter(is_hidden=False).order_by("-position").values("position")[:1])


def served(split: Split) -> QuerySet[SplitEntry]:
    """Places that clients get, in no order; by position their indexes are 0, 1, …"""
    now = Q(until=None) | Q(until__gt=split.version)
    return SplitEntry.objects.filter(now, split=split, since__lte=split.version, is_hidden=False)


def _start(places: QuerySet[SplitEntry], size: int, first: int, last: int) -> tuple[int, int]:
    """A position from which to count on, and how many are served before it."""
    return (0, 0) if first <= last // 2 else (first, size - _between(places, first, last + 1).count())


def _between(places: QuerySet[SplitEntry], start: int, stop: int) -> QuerySet[SplitEntry]:
    return places.filter(position__gte=start, position__lt=stop)


def _groups(positions: Sequence[int]) -> list[list[int]]:
    """Rising positions, those together that are NEAR to the one before."""
    groups: list[list[int]] = []
    for position in positions:
        if groups and position - groups[-1][-1] <= NEAR:
            groups[-1].append(position)
        else:
            groups.append([position])
    return groups
