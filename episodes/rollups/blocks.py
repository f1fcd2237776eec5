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
from typing import NamedTuple

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
    place_of,
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


class RollupBlock(NamedTuple):
    scope: RollupScope
    level: int
    number: int
    place: Place
    summary: RollupSummary


class BlocksPart:
    name = "blocks"
    most_endings = 1000
    most_steps = NO_LIMIT

    def __init__(self) -> None:
        self._open: OrderedDict[RollupScope, _Open] = OrderedDict()

    def gather(self, endings: Sequence[Ending]) -> list[RollupBlock]:
        """Return the blocks that are full now, lower levels first."""
        edges = edges_of_environments()
        blocks: list[RollupBlock] = []
        for scope, part in by_scope(endings).items():
            filling = self._of(scope, before=endings[0].number)
            filling.endings += part
            blocks += _filled(scope, filling, edges)
        while len(self._open) > MAX_SCOPES:
            self._open.popitem(last=False)
        return blocks

    def write(self, blocks: list[RollupBlock]) -> None:
        writer = BulkWriter(connection)
        writer.insert(CurveBlock, _COLUMNS, [_row(block, writer) for block in blocks])

    def forget(self) -> None:
        self._open.clear()

    def remove(self, endings: Sequence[Ending]) -> None:
        """Take the endings out of their blocks, which keep their numbers, even without a single
        episode."""
        for scope, endings_there in by_scope(endings).items():
            numbers = [ending.number for ending in endings_there]
            blocks = CurveBlock.objects.filter(
                scope=scope.kind,
                scope_id=scope.id,
                first_end__lte=numbers[-1],
                last_end__gte=numbers[0],
            )
            endings_of = dict[int, list[Ending]]()
            for pk, environment, split, low, high in rows_of(
                blocks.values_list("pk", "environment_id", "split_id", "first_end", "last_end")
            ):
                some = endings_there[bisect_left(numbers, low) : bisect_right(numbers, high)]
                endings_of[pk] = [
                    ending
                    for ending in some
                    if place_of(scope.kind, ending) == (environment, split)
                ]
            shrink(CurveBlock, {pk: some for pk, some in endings_of.items() if some})

    def insert(self, scope: RollupScope, endings: Sequence[Ending]) -> None:
        """Add endings that came into a scope after they were followed to the blocks of their time.

        Those after the last full block stay in none. Called within a transaction. Raises:
        django.db.Error.
        """
        blocks, edges = (
            CurveBlock.objects.filter(scope=scope.kind, scope_id=scope.id),
            edges_of_environments(),
        )
        late = defaultdict[tuple[int, int], list[Ending]](list)
        for ending in endings:
            later = blocks.filter(level=0, last_end__gt=ending.number).order_by("number")
            number, level = later.values_list("number", flat=True).first(), 0
            while number is not None and blocks.filter(level=level, number=number).exists():
                late[level, number].append(ending)
                level, number = level + 1, number // BLOCKS_ABOVE
        writer = BulkWriter(connection)
        for (level, number), some in late.items():
            rows = blocks.filter(level=level, number=number)
            for place, endings_there in by_place(scope.kind, some).items():
                within = rows.filter(environment_id=place.environment, split_id=place.split)
                old = [read_summary(row) for row in rows_of(within.values_list(*columns_read()))]
                summary = merged([*old, summary_of(endings_there)]).compressed(
                    edges.get(place.environment, ())
                )
                within.delete()
                writer.insert(
                    CurveBlock,
                    _COLUMNS,
                    [_row(RollupBlock(scope, level, number, place, summary), writer)],
                )

    def empty(self) -> bool:
        return delete_some(CurveBlock)

    def _of(self, scope: RollupScope, before: int) -> _Open:
        if scope in self._open:
            self._open.move_to_end(scope)
        else:
            self._open[scope] = _read_open(scope, before)
        return self._open[scope]


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


def _filled(
    scope: RollupScope, filling: _Open, edges: Mapping[int, Edges]
) -> Iterator[RollupBlock]:
    """Take full blocks out of `filling`, and yield each, followed by the blocks of higher levels
    that it completes."""
    recent: dict[tuple[int, int], Parts] = {}
    while len(filling.endings) >= BLOCK_ENDINGS:
        first, filling.endings = filling.endings[:BLOCK_ENDINGS], filling.endings[BLOCK_ENDINGS:]
        level, number = 0, filling.number
        filling.number += 1
        parts: Parts = {key: summary_of(some) for key, some in by_place(scope.kind, first).items()}
        while True:
            recent[level, number] = parts = {
                key: summary.compressed(edges.get(key.environment, ()))
                for key, summary in parts.items()
            }
            yield from (
                RollupBlock(scope, level, number, key, summary) for key, summary in parts.items()
            )
            if (number + 1) % BLOCKS_ABOVE:
                break
            below = _siblings(scope, level, range(number + 1 - BLOCKS_ABOVE, number + 1), recent)
            if len(below) < BLOCKS_ABOVE:
                break
            level, number, parts = level + 1, number // BLOCKS_ABOVE, _merged(below)


def _merged(blocks: Sequence[Parts]) -> Parts:
    children: dict[Place, list[RollupSummary]] = {}
    for parts in blocks:
        for place, summary in parts.items():
            children.setdefault(place, []).append(summary)
    return {place: merged(summaries) for place, summaries in children.items()}


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


def _row(block: RollupBlock, writer: BulkWriter) -> Values:
    return (
        *block.scope,
        block.level,
        block.number,
        *block.place,
        *values_of(block.summary, writer),
    )
