"""Indexes: the numbers under which clients get a split's tasks, from their positions. Read by pages. Blocking.

A position is where a task was put and stays what it is; quarantined tasks are not served and removed ones leave gaps,
so the index of a task is the number of tasks that are served before it. Of a split without gaps it is the position.
Else it is what the stretches before serve (`stretches.py`), and what is counted within the stretch.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from django.db.models import OuterRef, QuerySet, Subquery

from environments.models import Split, SplitEntry, seen_at
from environments.stretches import served_at, served_before, served_positions, stretch_of


def served_indexes(split: Split, positions: Sequence[int], last: int | None = None) -> dict[int, int]:
    """Position -> index, of those positions that are served as the split is at `split.version`.

    `last`: the split's last served position, if the caller knows it. Empty for the moment that passes between a change
    of a large split with gaps and the count of what changed.
    """
    if last is None:
        last = served(split).order_by("-position").values_list("position", flat=True).first()
    if last is None or not positions:
        return {}
    if split.size == last + 1:
        return {position: position for position in positions if 0 <= position <= last}
    before = served_before(split)
    if before is None:
        return {}
    found = dict[int, int]()
    for number, group in groupby(served_positions(split, positions), key=stretch_of):
        found |= {position: index for index, position in enumerate(group, before[number])}
    return {position: found[position] for position in positions if position in found}


def last_served() -> Subquery:
    """Column for a query of places with their splits: the last served position of each one's split."""
    places = SplitEntry.objects.filter(seen_at(OuterRef("split__version")), split=OuterRef("split"))
    return Subquery(places.filter(is_hidden=False).order_by("-position").values("position")[:1])


def served(split: Split) -> QuerySet[SplitEntry]:
    """Places that clients get, in no order; by position their indexes are 0, 1, …"""
    return served_at(split.pk, split.version)
