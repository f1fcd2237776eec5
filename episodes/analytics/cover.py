"""Cover: the endings of scopes as few summaries, from blocks as coarse as will do and from episodes one by one.

Whatever the number of scopes it takes five queries at most, and one more for each scope that has no blocks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import BooleanField, QuerySet, Value
from django.db.models.expressions import RawSQL

from episodes.analytics.definition import Definition
from episodes.analytics.rows import Axis, read_rows
from episodes.analytics.scope import MOST_ENDINGS, Scope, floor_of
from episodes.analytics.tally import Row, Tally
from episodes.derived import CurveBlock, Progress
from episodes.endings import Epoch, last_end, rows_of
from episodes.follower.blocks import BLOCK_ENDINGS, BLOCKS_ABOVE, BlocksPart
from episodes.models import Episode

RAW_ENDINGS = 10_000
"""Of one scope, up to which its episodes are read one by one."""
LEAST_BLOCKS = 80
FEWEST_BLOCKS = 16
"""Of each of very many scopes."""

LEAST_RAW = 1280
"""The same of each of many scopes: ten blocks."""

_TALLY = ("first_end", "last_end", "episodes", "attempts", "causes")
_ENDS: dict[Axis, tuple[Any, Any]] = {
    "episode": (Value(0), Value(0)),  # known from its number
    "time": (Epoch("began"), Epoch("ended")),
    "step": ("run_step_low", "run_step_high"),
}
_HEAD = (
    "SELECT CAST(%s AS bigint) AS place, number, last_end FROM episodes_curveblock"
    " WHERE scope = %s AND scope_id = %s AND level = 0 ORDER BY number DESC LIMIT 1"
)
_STRETCH = "(scope = %s AND scope_id = %s AND level = %s AND number >= %s AND number < %s)"


@dataclass(frozen=True, slots=True)
class Block:
    first: int
    """0-based place of its first ending within the scope."""
    low: float | None
    """Where it begins on the axis; None: no training step is known of its endings."""
    high: float | None
    """Where it ends; by episode the place after its last."""
    tally: Tally


@dataclass(frozen=True, slots=True)
class Cover:
    """In order: blocks first, then rows of single endings."""

    blocks: Sequence[Block]
    rows: Sequence[Row]
    first: int
    """Place of the first row within the scope."""
    is_bounded: bool
    """Whether older endings are missing: not looked at, or not yet in any block."""


class Head(NamedTuple):
    """Full blocks of level 0 that a scope has."""

    blocks: int = 0
    last_end: int = 0

    @property
    def endings(self) -> int:
        return self.blocks * BLOCK_ENDINGS


class Stretch(NamedTuple):
    """Blocks of one level, by number."""

    level: int
    first: int
    beyond: int


@dataclass(frozen=True, slots=True)
class _Rest:
    """Single endings to be read of one scope."""

    episodes: Sequence[QuerySet[Episode]]
    is_bounded: bool


def cover(
    scopes: Sequence[Scope],
    definition: Definition,
    axis: Axis = "episode",
    *,
    least_blocks: int | None = None,
    most_rows: int | None = None,
) -> list[Cover]:
    """Of each scope, all of it.

    A scope with more than `most_rows` endings (None: RAW_ENDINGS, fewer of many scopes) comes in blocks, of the highest
    level that has `least_blocks` of them (None: LEAST_BLOCKS, fewer of many scopes).
    """
    least = max(FEWEST_BLOCKS, min(LEAST_BLOCKS, 2 * LEAST_BLOCKS // max(1, len(scopes))))
    least = least if least_blocks is None else least_blocks
    most = max(LEAST_RAW, RAW_ENDINGS // max(1, len(scopes))) if most_rows is None else most_rows
    followed = followed_to()
    heads = heads_of(scopes) if followed else [Head()] * len(scopes)
    in_blocks = [head.endings > most for head in heads]
    wanted = [stretches(0, head.blocks, least) if whole else [] for head, whole in zip(heads, in_blocks, strict=True)]
    blocks = read_blocks(scopes, wanted, definition, axis)
    bound = max(followed, last_end() - MOST_ENDINGS)
    rests = [
        _rest(scope, head.last_end if whole else 0, followed, bound)
        for scope, head, whole in zip(scopes, heads, in_blocks, strict=True)
    ]
    found = iter(read_rows([part for rest in rests for part in rest.episodes], definition, axis))
    return [
        Cover(
            blocks=blocks[place],
            rows=[row for _ in rest.episodes for row in next(found)],
            first=heads[place].endings if in_blocks[place] else 0,
            is_bounded=rest.is_bounded,
        )
        for place, rest in enumerate(rests)
    ]


def followed_to() -> int:
    """The last ending that blocks know of; 0 when there are none, or while they are made anew."""
    return max(0, Progress.objects.filter(name=BlocksPart.name).values_list("end_number", flat=True).first() or 0)


def heads_of(scopes: Sequence[Scope]) -> list[Head]:
    """Of each scope. One query."""
    asked = [(place, scope) for place, scope in enumerate(scopes) if scope.has_blocks]
    found = [Head()] * len(scopes)
    if asked:
        parts = [f"SELECT * FROM ({_HEAD}) AS h{place}" for place, _ in asked]
        values = [value for place, scope in asked for value in (place, scope.kind, scope.id)]
        with connection.cursor() as cursor:
            cursor.execute(" UNION ALL ".join(parts), values)
            for place, number, end in cursor.fetchall():
                found[place] = Head(number + 1, end)
    return found


def stretches(first: int, beyond: int, least_blocks: int = LEAST_BLOCKS) -> list[Stretch]:
    """The blocks of level 0 from `first` on, in order, as blocks as large as can be.

    Not larger than so that `least_blocks` of them would hold all.
    """
    top = 0
    while (beyond - first) // BLOCKS_ABOVE ** (top + 1) >= least_blocks:
        top += 1
    found: list[Stretch] = []
    while first < beyond:
        level = top
        while first % BLOCKS_ABOVE**level or first + BLOCKS_ABOVE**level > beyond:
            level -= 1
        size = BLOCKS_ABOVE**level
        if found and found[-1].level == level:
            found[-1] = found[-1]._replace(beyond=first // size + 1)
        else:
            found.append(Stretch(level, first // size, first // size + 1))
        first += size
    return found


def read_blocks(
    scopes: Sequence[Scope], wanted: Sequence[Sequence[Stretch]], definition: Definition, axis: Axis
) -> list[list[Block]]:
    """Of each scope its stretches, in order. One query, or none."""
    asked = [(scope, part) for scope, parts in zip(scopes, wanted, strict=True) for part in parts]
    values = [value for scope, part in asked for value in (scope.kind, scope.id, *part)]
    chosen = RawSQL(" OR ".join([_STRETCH] * len(asked)), values, BooleanField())  # of Q it costs more than the query
    found: dict[tuple[str, int], list[Block]] = {(scope.kind, scope.id): [] for scope in scopes}
    columns = ("scope", "scope_id", "level", "number", *_ENDS[axis], *_TALLY, definition.column, "length")
    for kind, key, *row in rows_of(CurveBlock.objects.filter(chosen).values_list(*columns)) if asked else ():
        found[kind, key].append(_block(row, axis))
    return [sorted(found[scope.kind, scope.id], key=lambda block: block.first) for scope in scopes]


def _block(row: Sequence[Any], axis: Axis) -> Block:
    level, number, low, high, first_end, last_end, episodes, attempts, causes, returns, lengths = row
    first = number * BLOCKS_ABOVE**level * BLOCK_ENDINGS
    if axis == "episode":
        low, high = first, first + episodes
    kinds, *sketches = json.loads(f"[{causes},{returns},{lengths}]")  # once is quicker than three times
    return Block(first, low, high, Tally(first_end, last_end, episodes, attempts, kinds, *sketches))


def _rest(scope: Scope, after: int, followed: int, bound: int) -> _Rest:
    """Endings beyond `after`. Of those that nothing has followed only the ones beyond `bound`, for they may be many."""
    if not scope.has_blocks:
        floor = floor_of(scope)
        return _Rest([scope.episodes.filter(pk__gt=floor)], is_bounded=floor > 0)
    if bound <= followed:
        return _Rest([scope.episodes.filter(end_number__gt=after)], is_bounded=False)
    known = scope.episodes.filter(end_number__gt=after, end_number__lte=followed)
    return _Rest([known, scope.episodes.filter(end_number__gt=bound)], is_bounded=True)
