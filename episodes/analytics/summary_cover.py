"""Covers of scopes: all of their endings as a few blocks, as coarse as possible, and rows of single
endings.

By training step the blocks are spans, because endings of one step need not follow each other. For
any number of scopes this takes five queries at most, six by training step, and one more for each
scope that has no blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db.models import QuerySet

from environments.scoring.definition import Definitions
from episodes.analytics.block_queries import (
    MIN_BLOCKS,
    Axis,
    ScopeHead,
    StoredBlock,
    block_ranges,
    heads_of,
    held_by,
    read_blocks,
    read_rows,
    read_spans,
)
from episodes.analytics.figures import EndingRow
from episodes.analytics.scopes import MAX_ENDINGS, Scope, floor_of
from episodes.models import Episode
from episodes.rollups.blocks import BlocksPart
from episodes.rollups.progress import followed_to, last_end, newest_end
from episodes.rollups.step_spans import SpansPart

MAX_RAW_ENDINGS = 10_000
"""The endings of a single scope are read one by one up to this number."""
MIN_RAW = 1280
"""Endings that are read one by one for each of many scopes: ten blocks."""
MIN_COARSE = 2
"""Blocks at least of a scope whose blocks have rows for many places, so that about as many rows are
read."""
MIN_SCOPE_BLOCKS = 16
"""Blocks of each of very many scopes at least."""


MAX_UNCOUNTED = 5_000
"""Endings by which a part is behind, at most, while it keeps up with agents at full speed."""
STILL_COUNTED = "Older episodes are still being counted, so these figures are not complete yet."


def missing_from(scope: Scope) -> str:
    """Return the sentence about older episodes of a scope of which only the newest ones could be
    read."""
    return (
        STILL_COUNTED
        if scope.has_blocks
        else f"Only the newest {MAX_ENDINGS:,} episodes are counted."
    )


def note_of_part(part: str) -> str:
    """Return the sentence for what is read from the rows of one part alone; empty unless that is
    far behind.

    `part`: its name. Two queries.
    """
    return STILL_COUNTED if newest_end() - followed_to(part) > MAX_UNCOUNTED else ""


@dataclass(frozen=True, slots=True)
class SummaryCover:
    """Endings of a scope in order: blocks (by training step spans), then rows of single endings."""

    blocks: Sequence[StoredBlock]
    rows: Sequence[EndingRow]
    first: int
    """Place of the first row within the scope."""
    missing: str = ""
    """A sentence about older endings that were not read, or are not in any block yet; empty if none
    are missing."""
    stepless: int = 0
    """For a cover by training step, the number of endings without a training step, which are
    neither in a span nor a row.
    """

    @property
    def environments(self) -> set[int]:
        """Ids of the environments of the endings."""
        return {pk for block in self.blocks for pk, _ in block.pairs} | {
            row[-1] for row in self.rows
        }

    def of_split(self, split: int) -> SummaryCover:
        """Return what the cover has of the episodes of one split."""
        blocks = [
            replace(block, parts=parts)
            for block in self.blocks
            if (
                parts := {
                    place: summary for place, summary in block.parts.items() if place.split == split
                }
            )
        ]
        return replace(self, blocks=blocks, rows=[row for row in self.rows if row[-2] == split])


@dataclass(frozen=True, slots=True)
class _Rest:
    """Single endings of one scope that are still to be read."""

    episodes: Sequence[QuerySet[Episode]]
    missing: str = ""
    """See SummaryCover."""


def cover(
    scopes: Sequence[Scope],
    definitions: Definitions,
    axis: Axis = "episode",
    *,
    least_blocks: int | None = None,
    most_rows: int | None = None,
    needs_groups: bool = True,
) -> list[SummaryCover]:
    """Return a cover of each scope, with returns by the definition of each episode.

    A scope with more than `most_rows` endings (None: MAX_RAW_ENDINGS, fewer for many scopes) is
    covered by blocks of the highest level that has `least_blocks` of them (None: MIN_BLOCKS, fewer
    for many scopes). `needs_groups`: whether spans are read with what they say about groups.
    """
    least = max(MIN_SCOPE_BLOCKS, min(MIN_BLOCKS, 2 * MIN_BLOCKS // max(1, len(scopes))))
    least = least if least_blocks is None else least_blocks
    most = max(MIN_RAW, MAX_RAW_ENDINGS // max(1, len(scopes))) if most_rows is None else most_rows
    followed = followed_by(axis)
    heads = heads_of(scopes) if followed else [ScopeHead()] * len(scopes)
    heads = [head if head.endings > most else ScopeHead() for head in heads]
    if axis == "step":
        long = [scope for scope, head in zip(scopes, heads, strict=True) if head.blocks]
        spans = read_spans(long, definitions, needs_groups=needs_groups)
        blocks = [spans.get(scope, []) for scope in scopes]
    else:
        wanted = [
            block_ranges(0, head.blocks, min(least, max(MIN_COARSE, least // head.places)))
            for head in heads
        ]
        blocks = read_blocks(scopes, wanted, definitions, axis)
    bound = max(followed, last_end() - MAX_ENDINGS)
    ends = [min(head.last_end, followed) for head in heads]
    rests = [_rest(scope, end, followed, bound) for scope, end in zip(scopes, ends, strict=True)]
    rows = iter(read_rows([part for rest in rests for part in rest.episodes], definitions, axis))
    found = [
        SummaryCover(
            blocks[place],
            [row for _ in rest.episodes for row in next(rows)],
            _first_row(scopes[place], heads[place], blocks[place]),
            rest.missing,
        )
        for place, rest in enumerate(rests)
    ]
    if axis == "step":
        heads = held_by(scopes, heads)
        return [_by_step(each, head, followed) for each, head in zip(found, heads, strict=True)]
    return found


def _first_row(scope: Scope, head: ScopeHead, blocks: Sequence[StoredBlock]) -> int:
    """Return the place of the first ending after the blocks."""
    return sum(block.episodes for block in blocks) if scope.is_part else head.endings


def _by_step(read: SummaryCover, head: ScopeHead, followed: int) -> SummaryCover:
    """Return a cover by spans, and by rows of the endings that came after what spans have
    `followed`.

    A batch of the follower may have come between two queries: spans hold every training step up to
    their last end.
    """
    last = max([followed if head.blocks else 0, *(span.last_end for span in read.blocks)])
    rows = [row for row in read.rows if row[4] is not None and row[0] > last]
    # how many of the endings that were not read have no training step is unknown
    if read.missing and head.blocks:
        return replace(read, rows=rows)
    endings = head.held + sum(row[0] > head.last_end for row in read.rows)
    stepless = endings - sum(span.episodes for span in read.blocks) - len(rows)
    return replace(read, rows=rows, stepless=max(0, stepless))


def followed_by(axis: Axis) -> int:
    """Return the `end_number` of the last ending in the summaries for this axis; 0 if there are
    none, or while they are rebuilt. Blocks say how many endings a scope has, so curves from spans
    need both.
    """
    return (
        followed_to(BlocksPart.name, SpansPart.name)
        if axis == "step"
        else followed_to(BlocksPart.name)
    )


def _rest(scope: Scope, after: int, followed: int, bound: int) -> _Rest:
    """Return the endings after `after`; of those that the follower has not reached only the ones
    after `bound`, because they may be many.
    """
    if not scope.has_blocks:
        floor = floor_of(scope)
        return _Rest([scope.episodes.filter(pk__gt=floor)], missing_from(scope) if floor else "")
    if bound <= followed:
        return _Rest([scope.episodes.filter(end_number__gt=after)])
    reached = scope.episodes.filter(end_number__gt=after, end_number__lte=followed)
    return _Rest([reached, scope.episodes.filter(end_number__gt=bound)], missing_from(scope))
