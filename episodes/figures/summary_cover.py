"""Covers of scopes: all of their endings as a few blocks, as coarse as possible, and rows of single
endings.

By training step the blocks are spans, because endings of one step need not follow each other. For
any number of scopes this takes five queries at most, six by training step, and one more for each
scope that has no blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from django.db.models import QuerySet

from environments.scoring.definition import Definitions
from episodes.figures.block_queries import (
    MIN_BLOCKS,
    Axis,
    ScopeHead,
    StoredBlock,
    block_ranges,
    episodes_in,
    heads_of,
    read_blocks,
    read_rows,
    read_spans,
)
from episodes.figures.scope_figures import EndingRow
from episodes.figures.scopes import MAX_ENDINGS, Scope, floor_of
from episodes.models import Episode
from episodes.rollups.blocks import BlocksPart
from episodes.rollups.progress import followed_to, last_end, newest_end
from episodes.rollups.step_spans import SpansPart

MAX_RAW_ENDINGS = 10_000
"""The endings of a single scope are read one by one up to this number."""
MIN_RAW = 1280
"""Endings that are read one by one for each of many scopes: ten blocks."""
MAX_LINE_RAW = 512
"""Endings that are read one by one for a line of a list, whose sparkline then has four blocks: blocks
take a tenth of the time."""
MIN_COARSE = 2
"""Blocks at least of a scope whose blocks have rows for many places, so that about as many rows are
read."""
MIN_SCOPE_BLOCKS = 16
"""Blocks of each of very many scopes at least."""


MAX_UNCOUNTED = 5_000
"""Endings by which a part is behind, at most, while it keeps up with agents at full speed."""
MIN_UNCOUNTED = 20
"""Endings that are followed within a second, so that no page mentions them."""
UNCOUNTED_SHARE = 10
"""Above one ending in so many, figures of a small record are too wrong to pass over it."""
STILL_COUNTED = "Episodes are still being counted, so these figures are not complete yet."


def missing_from(scope: Scope) -> str:
    """Return the sentence about older episodes of a scope of which only the newest ones could be
    read."""
    return (
        STILL_COUNTED
        if scope.has_blocks
        else f"Only the newest {MAX_ENDINGS:,} episodes are counted."
    )


class Uncounted(NamedTuple):
    """What one part has not followed yet."""

    endings: int
    note: str
    """Sentence for what is read from its rows alone; empty unless it is far behind."""


def uncounted_by(part: str) -> Uncounted:
    """Return what the part with that name has not followed. Two queries."""
    newest = newest_end()
    endings = max(0, newest - followed_to(part))
    most = min(MAX_UNCOUNTED, max(MIN_UNCOUNTED, newest // UNCOUNTED_SHARE))
    return Uncounted(endings, STILL_COUNTED if endings > most else "")


def note_of_part(part: str) -> str:
    return uncounted_by(part).note


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


def covers_of(
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
    many = max(1, len(scopes))
    if least_blocks is None:
        least_blocks = max(MIN_SCOPE_BLOCKS, min(MIN_BLOCKS, 2 * MIN_BLOCKS // many))
    if most_rows is None:
        most_rows = max(MIN_RAW, MAX_RAW_ENDINGS // many)
    last_followed = followed_by(axis)
    heads = heads_of(scopes) if last_followed else [ScopeHead()] * len(scopes)
    heads = [head if head.endings > most_rows else ScopeHead() for head in heads]
    if axis == "step":
        long = [scope for scope, head in zip(scopes, heads, strict=True) if head.blocks]
        spans = read_spans(long, definitions, needs_groups=needs_groups)
        blocks = [spans.get(scope, []) for scope in scopes]
    else:
        ranges = [
            block_ranges(
                0, head.blocks, min(least_blocks, max(MIN_COARSE, least_blocks // head.places))
            )
            for head in heads
        ]
        blocks = read_blocks(scopes, ranges, definitions, axis)
    # endings that the follower has not reached may be many, so that only the newest ones are read
    floor = max(last_followed, last_end() - MAX_ENDINGS)
    parts, missing = list[list[QuerySet[Episode]]](), list[str]()
    for scope, head in zip(scopes, heads, strict=True):
        after = scope.episodes.filter(end_number__gt=min(head.last_end, last_followed))
        lacks_some = floor > last_followed
        if not scope.has_blocks:
            oldest = floor_of(scope)
            parts.append([scope.episodes.filter(pk__gt=oldest)])
            lacks_some = oldest > 0
        elif lacks_some:
            after_floor = scope.episodes.filter(end_number__gt=floor)
            parts.append([after.filter(end_number__lte=last_followed), after_floor])
        else:
            parts.append([after])
        missing.append(missing_from(scope) if lacks_some else "")
    rows = iter(read_rows([part for some in parts for part in some], definitions, axis))
    covers = [
        SummaryCover(
            blocks[place],
            [row for _ in parts[place] for row in next(rows)],
            sum(block.episodes for block in blocks[place]) if scope.is_part else head.endings,
            missing[place],
        )
        for place, (scope, head) in enumerate(zip(scopes, heads, strict=True))
    ]
    if axis != "step":
        return covers
    counts = episodes_in(scopes, heads)
    return [
        _by_step(cover, head, count, last_followed)
        for cover, head, count in zip(covers, heads, counts, strict=True)
    ]


def _by_step(cover: SummaryCover, head: ScopeHead, count: int, last_followed: int) -> SummaryCover:
    """Return a cover by spans, and by rows of the endings that came after what spans have.

    A batch of the follower may have come between two queries: spans hold every training step up to
    their last end. `count`: of the episodes in the blocks of the scope.
    """
    last = max([last_followed if head.blocks else 0, *(span.last_end for span in cover.blocks)])
    rows = [row for row in cover.rows if row[4] is not None and row[0] > last]
    # how many of the endings that were not read have no training step is unknown
    if cover.missing and head.blocks:
        return replace(cover, rows=rows)
    endings = count + sum(row[0] > head.last_end for row in cover.rows)
    stepless = endings - sum(span.episodes for span in cover.blocks) - len(rows)
    return replace(cover, rows=rows, stepless=max(0, stepless))


def followed_by(axis: Axis) -> int:
    """Return the `end_number` of the last ending in the summaries for this axis; 0 if there are
    none, or while they are rebuilt. Blocks say how many endings a scope has, so curves from spans
    need both.
    """
    parts = (BlocksPart.name, SpansPart.name) if axis == "step" else (BlocksPart.name,)
    return followed_to(*parts)
