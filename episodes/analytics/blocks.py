"""Blocks of scopes, read as coarse as will do. Made for `cover.py` and `zoom.py`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import BooleanField, Value
from django.db.models.expressions import RawSQL

from episodes.analytics.definition import Definition
from episodes.analytics.rows import Axis
from episodes.analytics.scope import Scope
from episodes.analytics.tally import Tally
from episodes.derived import CurveBlock
from episodes.endings import Epoch, rows_of
from episodes.follower.blocks import BLOCK_ENDINGS, BLOCKS_ABOVE

LEAST_BLOCKS = 80
TALLY = ("first_end", "last_end", "episodes", "attempts", "causes")
"""Columns of a Summed row for `tally_read`, which the return's and `length` follow."""
_ENDS: dict[str, tuple[Any, Any]] = {
    "episode": (Value(0), Value(0)),  # known from its number
    "time": (Epoch("began"), Epoch("ended")),
}
_HEAD = (
    "SELECT CAST(%s AS bigint) AS place, number, last_end FROM episodes_curveblock"
    " WHERE scope = %s AND scope_id = %s AND level = 0 ORDER BY number DESC LIMIT 1"
)
_STRETCH = "(scope = %s AND scope_id = %s AND level = %s AND number >= %s AND number < %s)"


@dataclass(frozen=True, slots=True)
class Block:
    first: int
    """0-based place of its first ending within the scope; of a span its lowest training step."""
    low: float
    """Where it begins on the axis."""
    high: float
    """Where it ends; by episode the place after its last."""
    tally: Tally


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
    columns = ("scope", "scope_id", "level", "number", *_ENDS[axis], *TALLY, definition.column, "length")
    for kind, key, *row in rows_of(CurveBlock.objects.filter(chosen).values_list(*columns)) if asked else ():
        found[kind, key].append(_block(row, axis))
    return [sorted(found[scope.kind, scope.id], key=lambda block: block.first) for scope in scopes]


def tally_read(row: Sequence[Any]) -> Tally:
    """Of the columns TALLY, a definition's return and `length`."""
    first_end, last_end, episodes, attempts, causes, returns, lengths = row
    kinds, *sketches = json.loads(f"[{causes},{returns},{lengths}]")  # once is quicker than three times
    return Tally(first_end, last_end, episodes, attempts, kinds, *sketches)


def _block(row: Sequence[Any], axis: Axis) -> Block:
    level, number, low, high, *rest = row
    tally, first = tally_read(rest), number * BLOCKS_ABOVE**level * BLOCK_ENDINGS
    if axis == "episode":
        low, high = first, first + tally.episodes
    return Block(first, low, high, tally)
