"""The part that makes CurveBlock rows of environments, splits and runs, each when its last episode
has ended.

A block has a row for each place of its episodes: their environment, and of a run their split.
Endings that do not fill a block yet stay in memory, scope by scope, and are read from the episodes
after a start.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from django.db import connection

from environments.database.bulk_writer import BulkWriter, Values
from episodes.attempts.endings import Ending, endings_of, rows_of
from episodes.models import CurveBlock, Episode
from episodes.rollups.rollup_part import NO_LIMIT, delete_some
from episodes.rollups.scopes import (
    Edges,
    Place,
    RollupScope,
    by_place,
    by_scope,
    edges_of_environments,
)
from episodes.rollups.summaries import (
    COLUMNS,
    RollupSummary,
    columns_read,
    merged,
    read_summary,
    shrink,
    summary_of,
    values_of,
)

BLOCK_ENDINGS = 128
BLOCKS_ABOVE = 4
"""Blocks of one level that a block of the next level holds."""
MAX_SCOPES = 1000
"""Scopes whose endings are remembered; when there are more, those that were quiet for longest are
forgotten."""
_COLUMNS = ("scope", "scope_id", "level", "number", "environment_id", "split_id", *COLUMNS)


@dataclass(slots=True)
class _Open:
    """The endings of a scope after its last full block."""

    number: int
    """Number of the level 0 block that is being filled."""
    endings: list[Ending] = field(default_factory=list)


class BlocksPart:
    name = "blocks"
    most_endings = 1000
    most_steps = NO_LIMIT

    def __init__(self) -> None:
        self._open: OrderedDict[RollupScope, _Open] = OrderedDict()

    def gather(self, endings: Sequence[Ending]) -> list[Values]:
        """Return rows of the blocks that are full now, lower levels first."""
        edges, rows = edges_of_environments(), list[Values]()
        for scope, part in by_scope(endings).items():
            if scope not in self._open:
                self._open[scope] = _read_open(scope, before=endings[0].number)
            self._open.move_to_end(scope)
            self._open[scope].endings += part
            rows += _filled(scope, self._open[scope], edges)
        while len(self._open) > MAX_SCOPES:
            self._open.popitem(last=False)
        return rows

    def write(self, rows: list[Values]) -> None:
        BulkWriter(connection).insert(CurveBlock, _COLUMNS, rows)

    def forget(self) -> None:
        self._open.clear()

    def remove(self, endings: Sequence[Ending]) -> None:
        """Take the endings out of their blocks, which keep their numbers, even without a single
        episode."""
        for scope, some in by_scope(endings).items():
            parts = by_place(scope.kind, some)
            blocks = CurveBlock.objects.filter(
                scope=scope.kind,
                scope_id=scope.id,
                first_end__lte=some[-1].number,
                last_end__gte=some[0].number,
            )
            columns = ("pk", "first_end", "last_end", "environment_id", "split_id")
            endings_of = dict[int, list[Ending]]()
            for pk, low, high, *place in rows_of(blocks.values_list(*columns)):
                part = parts.get(Place(*place), [])
                first = bisect_left(part, low, key=attrgetter("number"))
                beyond = bisect_right(part, high, key=attrgetter("number"))
                endings_of[pk] = part[first:beyond]
            shrink(CurveBlock, {pk: part for pk, part in endings_of.items() if part})

    def insert(self, scope: RollupScope, endings: Sequence[Ending]) -> None:
        """Add endings that came into a scope after they were followed to the blocks of their time.

        Those after the last full block stay in none. Called within a transaction. Raises:
        django.db.Error.
        """
        blocks = CurveBlock.objects.filter(scope=scope.kind, scope_id=scope.id)
        edges, writer = edges_of_environments(), BulkWriter(connection)
        late = defaultdict[tuple[int, int], list[Ending]](list)
        for ending in endings:
            later = blocks.filter(level=0, last_end__gt=ending.number).order_by("number")
            number, level = later.values_list("number", flat=True).first(), 0
            while number is not None and blocks.filter(level=level, number=number).exists():
                late[level, number].append(ending)
                level, number = level + 1, number // BLOCKS_ABOVE
        for (level, number), some in late.items():
            for place, part in by_place(scope.kind, some).items():
                rows = blocks.filter(
                    level=level,
                    number=number,
                    environment_id=place.environment,
                    split_id=place.split,
                )
                old = [read_summary(row) for row in rows_of(rows.values_list(*columns_read()))]
                summary = merged([*old, summary_of(part)]).compressed(
                    edges.get(place.environment, ())
                )
                rows.delete()
                row = (*scope, level, number, *place, *values_of(summary, writer))
                writer.insert(CurveBlock, _COLUMNS, [row])

    def empty(self) -> bool:
        return delete_some(CurveBlock)


def _read_open(scope: RollupScope, before: int) -> _Open:
    """Read what a scope has after its last full block. `before`: the first ending that was not
    followed yet."""
    if before == 1:
        return _Open(0, [])
    blocks = CurveBlock.objects.filter(scope=scope.kind, scope_id=scope.id, level=0).order_by(
        "-number", "-last_end"
    )
    number, last = blocks.values_list("number", "last_end").first() or (-1, 0)
    after = Episode.objects.filter(
        **{scope.kind: scope.id}, end_number__gt=last, end_number__lt=before
    )
    return _Open(number + 1, endings_of(after))


Parts = Mapping[Place, RollupSummary]
"""The content of a block, by place."""


def _filled(scope: RollupScope, filling: _Open, edges: Mapping[int, Edges]) -> Iterator[Values]:
    """Take full blocks out of `filling`, and yield the rows of each, followed by those of the
    blocks of higher levels that it completes."""
    writer = BulkWriter(connection)
    recent: dict[tuple[int, int], Parts] = {}
    while len(filling.endings) >= BLOCK_ENDINGS:
        first, filling.endings = filling.endings[:BLOCK_ENDINGS], filling.endings[BLOCK_ENDINGS:]
        level, number = 0, filling.number
        filling.number += 1
        parts: Parts = {
            place: summary_of(some) for place, some in by_place(scope.kind, first).items()
        }
        while True:
            recent[level, number] = parts = {
                place: summary.compressed(edges.get(place.environment, ()))
                for place, summary in parts.items()
            }
            for place, summary in parts.items():
                yield (*scope, level, number, *place, *values_of(summary, writer))
            if (number + 1) % BLOCKS_ABOVE:
                break
            below = _siblings(scope, level, range(number + 1 - BLOCKS_ABOVE, number + 1), recent)
            if len(below) < BLOCKS_ABOVE:
                break
            children = defaultdict[Place, list[RollupSummary]](list)
            for block in below:
                for place, summary in block.items():
                    children[place].append(summary)
            level, number = level + 1, number // BLOCKS_ABOVE
            parts = {place: merged(summaries) for place, summaries in children.items()}


def _siblings(
    scope: RollupScope, level: int, numbers: range, recent: Mapping[tuple[int, int], Parts]
) -> list[Parts]:
    """Return the blocks of one level, from the database those that are not in `recent`."""
    missing = [number for number in numbers if (level, number) not in recent]
    siblings = {
        number: dict(recent[level, number]) for number in numbers if (level, number) in recent
    }
    if missing:
        rows = CurveBlock.objects.filter(
            scope=scope.kind, scope_id=scope.id, level=level, number__in=missing
        )
        for number, environment, split, *row in rows.values_list(
            "number", "environment_id", "split_id", *columns_read()
        ):
            siblings.setdefault(number, {})[Place(environment, split)] = read_summary(row)
    return [siblings[number] for number in sorted(siblings)]
