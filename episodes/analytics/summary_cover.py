"""Cover: the endings of scopes as few summaries, from blocks as coarse as will do and from episodes one by one.

By training step the summaries are spans: endings of the same step need not follow each other.
Whatever the number of scopes it takes five queries at most, and one more for each scope that has no blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db.models import QuerySet

from environments.scoring.definition import Definition
from episodes.analytics.figures import EndingRow
from episodes.analytics.scopes import MAX_ENDINGS, Scope, floor_of
from episodes.analytics.stored import (
    MIN_BLOCKS,
    Axis,
    ScopeHead,
    StoredBlock,
    heads_of,
    read_blocks,
    read_rows,
    read_spans,
    stretches,
)
from episodes.models import Episode
from episodes.rollups.blocks import BlocksPart
from episodes.rollups.progress import followed_to, last_end
from episodes.rollups.spans import SpansPart

RAW_ENDINGS = 10_000
"""Of one scope, up to which its episodes are read one by one."""
MIN_RAW = 1280
"""As few of each of many scopes: ten blocks."""
FEWEST_BLOCKS = 16
"""Of each of very many scopes."""


@dataclass(frozen=True, slots=True)
class SummaryCover:
    """In order: blocks, or by training step spans, and then rows of single endings."""

    blocks: Sequence[StoredBlock]
    rows: Sequence[EndingRow]
    first: int
    """Place of the first row within the scope."""
    is_bounded: bool
    """Whether older endings are missing: not looked at, or not yet in any block."""
    stepless: int = 0
    """By training step: endings that say none, and are neither in a span nor a row."""


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
) -> list[SummaryCover]:
    """Of each scope, all of it.

    A scope with more than `most_rows` endings (None: RAW_ENDINGS, fewer of many scopes) comes in blocks, of the highest
    level that has `least_blocks` of them (None: MIN_BLOCKS, fewer of many scopes).
    """
    least = max(FEWEST_BLOCKS, min(MIN_BLOCKS, 2 * MIN_BLOCKS // max(1, len(scopes))))
    least = least if least_blocks is None else least_blocks
    most = max(MIN_RAW, RAW_ENDINGS // max(1, len(scopes))) if most_rows is None else most_rows
    followed = followed_by(axis)
    heads = heads_of(scopes) if followed else [ScopeHead()] * len(scopes)
    heads = [head if head.endings > most else ScopeHead() for head in heads]
    if axis == "step":
        told = read_spans([scope for scope, head in zip(scopes, heads, strict=True) if head.blocks], definition)
        blocks = [told.get(scope, []) for scope in scopes]
    else:
        blocks = read_blocks(scopes, [stretches(0, head.blocks, least) for head in heads], definition, axis)
    bound = max(followed, last_end() - MAX_ENDINGS)
    ends = [min(head.last_end, followed) for head in heads]
    rests = [_rest(scope, end, followed, bound) for scope, end in zip(scopes, ends, strict=True)]
    rows = iter(read_rows([part for rest in rests for part in rest.episodes], definition, axis))
    found = [
        SummaryCover(
            blocks[place], [row for _ in rest.episodes for row in next(rows)], heads[place].endings, rest.is_bounded
        )
        for place, rest in enumerate(rests)
    ]
    if axis == "step":
        return [_by_step(each, head, followed) for each, head in zip(found, heads, strict=True)]
    return found


def _by_step(read: SummaryCover, head: ScopeHead, followed: int) -> SummaryCover:
    """Of spans and of all endings from the last block on, or before that as far as spans have `followed`.

    A batch of the follower may have come between two queries: spans tell of every training step up to their last end.
    """
    known = max([followed if head.blocks else 0, *(span.summary.last_end for span in read.blocks)])
    rows = [row for row in read.rows if row[4] is not None and row[0] > known]
    if read.is_bounded and head.blocks:  # how many say none among those that were not looked at nobody knows
        return replace(read, rows=rows)
    endings = head.endings + sum(row[0] > head.last_end for row in read.rows)
    stepless = endings - sum(span.summary.episodes for span in read.blocks) - len(rows)
    return replace(read, rows=rows, stepless=max(0, stepless))


def followed_by(axis: Axis) -> int:
    """The last ending that the summaries by that axis know of; 0 when there are none, or while they are made anew.

    What has spans is known from blocks, so both have to be there.
    """
    return followed_to(BlocksPart.name, SpansPart.name) if axis == "step" else followed_to(BlocksPart.name)


def _rest(scope: Scope, after: int, followed: int, bound: int) -> _Rest:
    """Endings beyond `after`. Of those that nothing has followed only the ones beyond `bound`, for they may be many."""
    if not scope.has_blocks:
        floor = floor_of(scope)
        return _Rest([scope.episodes.filter(pk__gt=floor)], is_bounded=floor > 0)
    if bound <= followed:
        return _Rest([scope.episodes.filter(end_number__gt=after)], is_bounded=False)
    known = scope.episodes.filter(end_number__gt=after, end_number__lte=followed)
    return _Rest([known, scope.episodes.filter(end_number__gt=bound)], is_bounded=True)
