"""Reads the part of one scope that a zoomed curve shows, in blocks that are fine enough for it.
`curve.py` uses it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from django.db.models import Max, Q, QuerySet

from environments.scoring.definition import Definitions
from episodes.analytics.block_queries import (
    Axis,
    ScopeHead,
    StoredBlock,
    block_ranges,
    heads_of,
    read_blocks,
    read_rows,
)
from episodes.analytics.figures import EndingRow
from episodes.analytics.scopes import MAX_ENDINGS, Scope
from episodes.analytics.summary_cover import (
    MAX_RAW_ENDINGS,
    SummaryCover,
    cover,
    followed_by,
    missing_from,
)
from episodes.attempts.endings import Epoch, rows_of
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


def zoomed(
    scope: Scope, definitions: Definitions, axis: Axis, shown: Range, *, needs_groups: bool = True
) -> SummaryCover:
    """Return a cover of the range `shown`, and of not much more on both sides. Seven queries at
    most."""
    head = heads_of([scope])[0] if followed_by(axis) else ScopeHead()
    if head.endings <= MAX_RAW_ENDINGS:
        return cover([scope], definitions, axis)[0]
    if axis == "step":
        return _of_steps(scope, definitions, shown, needs_groups=needs_groups)
    places = _places_of(scope, head) if axis == "episode" else range(0)
    first, beyond = (
        _of_places(places, shown) if axis == "episode" else _of_times(scope, head, shown)
    )
    if (beyond - first) * BLOCK_ENDINGS <= MAX_RAW_ENDINGS:
        episodes = _between(scope, first, beyond if beyond < head.blocks else None)
        rows = read_rows([episodes], definitions, axis, MAX_ENDINGS)[0]
        return SummaryCover([], rows, places[first] if places else 0, _missing(scope, rows))
    blocks = read_blocks([scope], [block_ranges(first, beyond)], definitions, axis)[0]
    if places and scope.is_part:
        blocks = [_moved(block, places[first]) for block in blocks]
    tail = (
        scope.episodes.filter(end_number__gt=head.last_end)
        if beyond == head.blocks
        else Episode.objects.none()
    )
    rows = read_rows([tail], definitions, axis, MAX_ENDINGS)[0]
    return SummaryCover(blocks, rows, places[-1] if places else 0, _missing(scope, rows))


def _missing(scope: Scope, rows: Sequence[EndingRow]) -> str:
    return missing_from(scope) if len(rows) == MAX_ENDINGS else ""


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


def _moved(block: StoredBlock, places: int) -> StoredBlock:
    return replace(
        block, first=block.first + places, low=block.low + places, high=block.high + places
    )


def _of_places(places: Sequence[int], shown: Range) -> tuple[int, int]:
    """Return the first level 0 block that holds some of `shown`, and the one after the last."""
    blocks = len(places) - 1
    first = max(0, bisect_right(places, int(max(0, shown.low or 0))) - 1)
    beyond = blocks if shown.high is None else bisect_right(places, int(max(0, shown.high)))
    return min(first, blocks), min(max(first, beyond), blocks)


def _of_times(scope: Scope, head: ScopeHead, shown: Range) -> tuple[int, int]:
    """Return the first level 0 block that holds some of `shown`, and the one after the last, as
    exactly as blocks of higher levels allow.
    """
    chosen = Q(pk__in=())
    for level, first, beyond in block_ranges(0, head.blocks):
        chosen |= Q(level=level, number__gte=first, number__lt=beyond)
    blocks = CurveBlock.objects.filter(chosen, scope=scope.kind, scope_id=scope.id)
    spans = [
        (number * BLOCKS_ABOVE**level, (number + 1) * BLOCKS_ABOVE**level, low, high)
        for level, number, low, high in blocks.values_list(
            "level", "number", Epoch("began"), Epoch("ended")
        )
    ]
    held = [(first, beyond) for first, beyond, low, high in spans if shown.holds(low, high)]
    is_open = shown.high is None or all(high < shown.high for *_, high in spans)
    last = head.blocks if is_open else max((beyond for _, beyond in held), default=0)
    return min((first for first, _ in held), default=last), last


def _of_steps(
    scope: Scope, definitions: Definitions, shown: Range, *, needs_groups: bool
) -> SummaryCover:
    """Return the spans in the range, or their single endings if those are few and close
    together."""
    whole = cover([scope], definitions, "step", needs_groups=needs_groups)[0]
    spans = [span for span in whole.blocks if shown.holds(span.low, span.high)]
    episodes = _few(scope, spans)
    if episodes is None:
        return replace(whole, blocks=spans)
    for test, end in (("gte", shown.low), ("lte", shown.high)):
        episodes = episodes if end is None else episodes.filter(**{f"run_step__{test}": end})
    return replace(
        whole, blocks=[], rows=[*read_rows([episodes], definitions, "step")[0], *whole.rows]
    )


def _few(scope: Scope, spans: Sequence[StoredBlock]) -> QuerySet[Episode] | None:
    """Return the episodes from the first to the last ending of `spans`; None if there are too many
    to read singly."""
    if not spans:
        return Episode.objects.none()
    first, last = min(one.first_end for one in spans), max(one.last_end for one in spans)
    if sum(one.episodes for one in spans) > MAX_RAW_ENDINGS or last - first >= MAX_ENDINGS:
        return None
    return scope.episodes.filter(end_number__range=(first, last))


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
