"""Reads the part of one scope that a zoomed curve shows, in blocks that are fine enough for it.
`curve_points.py` uses it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from django.db.models import Max, Q, QuerySet

from environments.scoring.definition import Definitions
from episodes.attempts.endings import Epoch, rows_of
from episodes.figures.block_queries import (
    Axis,
    ScopeHead,
    StoredBlock,
    block_ranges,
    heads_of,
    read_blocks,
    read_rows,
)
from episodes.figures.scopes import MAX_ENDINGS, Scope
from episodes.figures.summary_cover import (
    MAX_RAW_ENDINGS,
    SummaryCover,
    covers_of,
    followed_by,
    missing_from,
)
from episodes.models import CurveBlock, Episode
from episodes.rollups.blocks import BLOCK_ENDINGS, BLOCKS_ABOVE
from episodes.rollups.scopes import Place


class Range(NamedTuple):
    """A part of an axis, both ends included; None: to the end of the axis."""

    low: float | None = None
    high: float | None = None

    def holds(self, low: float, high: float) -> bool:
        """Return whether any part of `low` to `high` is in the range."""
        return (self.low is None or high >= self.low) and (self.high is None or low <= self.high)


WHOLE = Range()


def zoomed(
    scope: Scope, definitions: Definitions, axis: Axis, zoom: Range, *, needs_groups: bool = True
) -> SummaryCover:
    """Return a cover of the range `zoom`, and of not much more on both sides. Seven queries at
    most."""
    head = heads_of([scope])[0] if followed_by(axis) else ScopeHead()
    if head.endings <= MAX_RAW_ENDINGS:
        return covers_of([scope], definitions, axis)[0]
    if axis == "step":
        return _of_steps(scope, definitions, zoom, needs_groups=needs_groups)
    places: Sequence[int] = [0]
    if axis == "episode":
        places = _places_of(scope, head)
        first = bisect_right(places, int(max(0, zoom.low or 0))) - 1
        first = min(max(0, first), head.blocks)
        beyond = head.blocks
        if zoom.high is not None:
            beyond = bisect_right(places, int(max(0, zoom.high)))
        beyond = min(max(first, beyond), head.blocks)
    else:
        first, beyond = _of_times(scope, head, zoom)
    start, blocks = places[first] if axis == "episode" else 0, list[StoredBlock]()
    if (beyond - first) * BLOCK_ENDINGS <= MAX_RAW_ENDINGS:
        episodes = _between(scope, first, beyond if beyond < head.blocks else None)
    else:
        blocks = read_blocks([scope], [block_ranges(first, beyond)], definitions, axis)[0]
        if axis == "episode" and scope.is_part:
            blocks = [
                replace(block, low=block.low + start, high=block.high + start) for block in blocks
            ]
        start = places[-1]
        episodes = scope.episodes.filter(end_number__gt=head.last_end)
        if beyond < head.blocks:
            episodes = episodes.none()
    rows = read_rows([episodes], definitions, axis, MAX_ENDINGS)[0]
    missing = missing_from(scope) if len(rows) == MAX_ENDINGS else ""
    return SummaryCover(blocks, rows, start, missing)


def _places_of(scope: Scope, head: ScopeHead) -> Sequence[int]:
    """Return the place of the first ending of each level 0 block, and that of the first ending
    after them."""
    if not scope.is_part:
        return range(0, head.endings + 1, BLOCK_ENDINGS)
    blocks = CurveBlock.objects.filter(scope=scope.kind, scope_id=scope.id, level=0)
    sizes = Counter[int]()
    for number, episodes, *place in rows_of(
        blocks.values_list("number", "episodes", "environment_id", "split_id")
    ):
        if scope.holds(Place(*place)):
            sizes[number] += episodes
    return [0, *accumulate(sizes[number] for number in range(head.blocks))]


def _of_times(scope: Scope, head: ScopeHead, zoom: Range) -> tuple[int, int]:
    """Return the first level 0 block that holds some of `zoom`, and the one after the last, as
    exactly as blocks of higher levels allow.
    """
    condition = Q()
    for level, first, beyond in block_ranges(0, head.blocks):
        condition |= Q(level=level, number__gte=first, number__lt=beyond)
    blocks = CurveBlock.objects.filter(condition, scope=scope.kind, scope_id=scope.id)
    spans = [
        (number * BLOCKS_ABOVE**level, (number + 1) * BLOCKS_ABOVE**level, low, high)
        for level, number, low, high in blocks.values_list(
            "level", "number", Epoch("began"), Epoch("ended")
        )
    ]
    held_ranges = [(first, beyond) for first, beyond, low, high in spans if zoom.holds(low, high)]
    is_open = zoom.high is None or all(high < zoom.high for *_, high in spans)
    last = head.blocks if is_open else max((beyond for _, beyond in held_ranges), default=0)
    return min((first for first, _ in held_ranges), default=last), last


def _of_steps(
    scope: Scope, definitions: Definitions, zoom: Range, *, needs_groups: bool
) -> SummaryCover:
    """Return the spans in the range, or their single endings if those are few and close
    together."""
    whole = covers_of([scope], definitions, "step", needs_groups=needs_groups)[0]
    spans = [span for span in whole.blocks if zoom.holds(span.low, span.high)]
    if not spans:
        return replace(whole, blocks=[])
    first, last = min(span.first_end for span in spans), max(span.last_end for span in spans)
    if sum(span.episodes for span in spans) > MAX_RAW_ENDINGS or last - first >= MAX_ENDINGS:
        return replace(whole, blocks=spans)
    episodes = scope.episodes.filter(end_number__range=(first, last))
    if zoom.low is not None:
        episodes = episodes.filter(run_step__gte=zoom.low)
    if zoom.high is not None:
        episodes = episodes.filter(run_step__lte=zoom.high)
    rows = read_rows([episodes], definitions, "step")[0]
    return replace(whole, blocks=[], rows=[*rows, *whole.rows])


def _between(scope: Scope, first: int, beyond: int | None) -> QuerySet[Episode]:
    """Return the episodes from level 0 block `first` up to block `beyond`, or all that follow if
    that is None."""
    blocks = CurveBlock.objects.filter(scope=scope.kind, scope_id=scope.id, level=0)
    at_ends = (
        blocks.filter(number__in=(first - 1, (beyond or 0) - 1)).order_by().values_list("number")
    )
    ends = dict(at_ends.annotate(last=Max("last_end")))
    episodes = scope.episodes.filter(end_number__gt=ends.get(first - 1, 0))
    return episodes if beyond is None else episodes.filter(end_number__lte=ends.get(beyond - 1, 0))
