"""Stretches: how many tasks each 100 positions of a split serve, so that no page has to count a million places.

Written after each change of a split by whoever made it (`changes.py`), and at the start for splits that have none of
their version (`sync.py`); counted on the spot where a split is small. Blocking.

Indexes: the numbers under which clients get a split's tasks, from their positions. Read by pages. Blocking.

A position is where a task was put and stays what it is; quarantined tasks are not served and removed ones leave gaps,
so the index of a task is the number of tasks that are served before it. Of a split without gaps it is the position.
Else it is what the stretches before serve (`stretches.py`), and what is counted within the stretch.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, groupby

from django.db import connection
from django.db.models import Count, F, Max, OuterRef, QuerySet, Subquery

from environments.models import Split, SplitEntry, SplitStretches, seen_at

POSITIONS = 100
"""Positions that one stretch holds."""
COUNTED_TOGETHER = 500
"""Stretches that one query counts, some 50 ms."""
# Each position by name, as text: of ranges put together PostgreSQL reads a small split whole, once for each of them, or
# plans for 30 ms (UNION); as parameters some thousand numbers take longer to pass than to look up.
_POSITIONS = """
    SELECT position FROM environments_splitentry WHERE split_id = %s AND position IN ({positions})
        AND since <= %s AND (until IS NULL OR until > %s) AND NOT is_hidden
"""
SMALL = 20_000
"""Tasks of a split that is counted when somebody asks."""


def stretch_of(position: int) -> int:
    """Number of the stretch that holds the position."""
    return position // POSITIONS


def served_at(split: int, version: int) -> QuerySet[SplitEntry]:
    """Places whose tasks clients get."""
    return SplitEntry.objects.filter(seen_at(version), split=split, is_hidden=False)


def served_before(split: Split) -> list[int] | None:
    """Number of tasks that are served before each stretch, in order; None: unknown for the moment."""
    row = SplitStretches.objects.filter(split=split.pk, version=split.version).first()
    if row is None and split.size > SMALL:
        return None
    counts = json.loads(row.counts) if row else _all_counts(split.pk, split.version)
    return [0, *accumulate(counts)]


def served_positions(split: Split, positions: Sequence[int]) -> list[int]:
    """In order, those from the beginning of each position's stretch up to it."""
    last = {stretch_of(position): position for position in sorted(positions)}
    if not last:
        return []
    asked = ",".join(str(position) for end in last.values() for position in range(end - end % POSITIONS, end + 1))
    with connection.cursor() as cursor:
        cursor.execute(_POSITIONS.format(positions=asked), (split.pk, split.version, split.version))
        return sorted(position for (position,) in cursor.fetchall())


def renew(split: int, version: int, changed: Collection[int] | None = None) -> None:
    """Write what holds at `version`. `changed`: the stretches that are others than at the version before."""
    known = SplitStretches.objects.filter(split=split, version=version - 1).first() if changed is not None else None
    if known is None or changed is None:
        counts = _all_counts(split, version)
    else:
        counts = json.loads(known.counts)
        _recount(counts, split, version, changed)
    row = {"version": version, "counts": json.dumps(counts, separators=(",", ":"))}
    older = SplitStretches.objects.filter(split=split, version__lt=version)
    if not older.update(**row):
        SplitStretches.objects.bulk_create([SplitStretches(split_id=split, **row)], ignore_conflicts=True)


def renew_missing() -> None:
    """For splits that are too large to be counted when somebody asks."""
    known = dict(SplitStretches.objects.values_list("split", "version"))
    for split, version in Split.objects.filter(size__gt=SMALL).values_list("pk", "version"):
        if known.get(split) != version:
            renew(split, version)


def _all_counts(split: int, version: int) -> list[int]:
    last = SplitEntry.objects.filter(split=split).aggregate(last=Max("position"))["last"]
    counts: list[int] = []
    _recount(counts, split, version, set() if last is None else range(last // POSITIONS + 1))
    return counts


def _recount(counts: list[int], split: int, version: int, numbers: Collection[int]) -> None:
    """Put what is counted now in the place of these stretches."""
    counts += [0] * (max(numbers, default=-1) + 1 - len(counts))
    for first, last in _runs(sorted(numbers)):
        counts[first : last + 1] = [0] * (last + 1 - first)
        near = served_at(split, version).filter(position__gte=first * POSITIONS, position__lt=(last + 1) * POSITIONS)
        numbered = near.annotate(number=F("position") / POSITIONS).order_by().values_list("number")
        for number, count in numbered.annotate(count=Count("pk")):
            counts[number] = count


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """First and last of numbers that follow each other, COUNTED_TOGETHER at most."""
    run: list[int] = []
    for number in numbers:
        if run and (number != run[-1] + 1 or number - run[0] >= COUNTED_TOGETHER):
            yield run[0], run[-1]
            run = []
        run.append(number)
    if run:
        yield run[0], run[-1]


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
