"""The index under which clients get a task of a split, computed from the task's position. Used by
pages. Blocking.

A position is where a task was put, and it does not change. Quarantined tasks are not served and
removed ones leave gaps, so the index of a task is the number of tasks served before it. In a split
without gaps it equals the position.

Positions are grouped into stretches of 100. SplitStretches stores how many tasks each stretch
serves, so that no page has to count a million places: an index is the sum of the stretches before
it plus a count within its own stretch. The counts are written after each change of a split
(`split_change.py`) and at the start of a server for splits whose counts are of an older version
(`sync.py`). Small splits are counted when needed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, groupby

from django.db import connection
from django.db.models import Count, F, Max, OuterRef, QuerySet, Subquery

from environments.models import Split, SplitEntry, SplitStretches, seen_at

POSITIONS = 100
"""Number of positions in one stretch."""
STRETCHES_PER_QUERY = 500
"""Stretches that one query counts, in about 50 ms."""
# Every position is listed in the text of the query. With ranges joined by OR, PostgreSQL reads a
# small split once for each range; with UNION it plans for 30 ms; thousands of parameters take
# longer to pass than to look up.
_POSITIONS = """
    SELECT position FROM environments_splitentry WHERE split_id = %s AND position IN ({positions})
        AND since <= %s AND (until IS NULL OR until > %s) AND NOT is_hidden
"""
MAX_COUNTED_TASKS = 20_000
"""Splits up to this size are counted when a page needs it."""


def stretch_of(position: int) -> int:
    """Return the number of the stretch that contains the position."""
    return position // POSITIONS


def served_at(split: int, version: int) -> QuerySet[SplitEntry]:
    """Return the places of a split that are served at `version`, in no particular order."""
    return SplitEntry.objects.filter(seen_at(version), split=split, is_hidden=False)


def served_before(split: Split) -> list[int] | None:
    """Return the number of tasks served before each stretch, in order; None while the counts are
    being updated."""
    counts = _counts(split.pk, split.version)
    if counts is None:
        if split.size > MAX_COUNTED_TASKS:
            return None
        counts = _all_counts(split.pk, split.version)
    return [0, *accumulate(counts)]


def renew(
    split: int, version: int, stretches: Collection[int] | None = None, *, was_empty: bool = False
) -> None:
    """Store the counts of `version`. `stretches`: those that differ from the previous version;
    None: all.

    `was_empty`: the previous version had no places.
    """
    counts = [] if was_empty else _counts(split, version - 1)
    if counts is None or stretches is None:
        counts = _all_counts(split, version)
    else:
        _recount(counts, split, version, stretches)
    row = {"version": version, "counts": json.dumps(counts, separators=(",", ":"))}
    older = SplitStretches.objects.filter(split=split, version__lt=version)
    if not older.update(**row):
        SplitStretches.objects.bulk_create(
            [SplitStretches(split_id=split, **row)], ignore_conflicts=True
        )


def _counts(split: int, version: int) -> list[int] | None:
    row = SplitStretches.objects.filter(split=split, version=version).first()
    return json.loads(row.counts) if row else None


def renew_missing() -> None:
    """Store the counts of splits that are too large to be counted when a page needs it."""
    versions = dict(SplitStretches.objects.values_list("split", "version"))
    large = Split.objects.filter(size__gt=MAX_COUNTED_TASKS)
    for split, version in large.values_list("pk", "version"):
        if versions.get(split) != version:
            renew(split, version)


def _all_counts(split: int, version: int) -> list[int]:
    last = SplitEntry.objects.filter(split=split).aggregate(last=Max("position"))["last"]
    counts: list[int] = []
    _recount(counts, split, version, set() if last is None else range(last // POSITIONS + 1))
    return counts


def _recount(counts: list[int], split: int, version: int, numbers: Collection[int]) -> None:
    """Count these stretches again and put the results into `counts`."""
    counts += [0] * (max(numbers, default=-1) + 1 - len(counts))
    for first, last in _runs(sorted(numbers)):
        counts[first : last + 1] = [0] * (last + 1 - first)
        places = served_at(split, version).filter(
            position__gte=first * POSITIONS, position__lt=(last + 1) * POSITIONS
        )
        stretches = places.annotate(number=F("position") / POSITIONS).order_by()
        for number, count in stretches.values_list("number").annotate(count=Count("pk")):
            counts[number] = count


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last of each run of consecutive numbers, at most STRETCHES_PER_QUERY in a
    run."""
    run: list[int] = []
    for number in numbers:
        if run and (number != run[-1] + 1 or number - run[0] >= STRETCHES_PER_QUERY):
            yield run[0], run[-1]
            run = []
        run.append(number)
    if run:
        yield run[0], run[-1]


def served_indexes(
    split: Split, positions: Sequence[int], last: int | None = None
) -> dict[int, int]:
    """Return position -> index for the given positions that are served at `split.version`.

    `last`: the split's last served position, if the caller knows it. The result is empty between a
    change of a large split with gaps and the moment when its counts are stored.
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
    # of each stretch, those from its start up to its last position that is looked for
    ends = {stretch_of(position): position for position in sorted(positions)}
    text = ",".join(
        str(position) for end in ends.values() for position in range(end - end % POSITIONS, end + 1)
    )
    with connection.cursor() as cursor:
        cursor.execute(_POSITIONS.format(positions=text), (split.pk, split.version, split.version))
        served_positions = sorted(position for (position,) in cursor.fetchall())
    indexes = dict[int, int]()
    for number, group in groupby(served_positions, key=stretch_of):
        indexes |= {position: index for index, position in enumerate(group, before[number])}
    return {position: indexes[position] for position in positions if position in indexes}


def last_served() -> Subquery:
    """Return a column for queries of places with their splits: the last served position of each
    place's split."""
    places = SplitEntry.objects.filter(seen_at(OuterRef("split__version")), split=OuterRef("split"))
    return Subquery(places.filter(is_hidden=False).order_by("-position").values("position")[:1])


def served(split: Split) -> QuerySet[SplitEntry]:
    """Return the served places of a split, unordered. Ordered by position, their indexes are 0, 1,
    …"""
    return served_at(split.pk, split.version)
