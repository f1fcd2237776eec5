"""Zoom: the part of one scope that an x axis shows, in blocks fine enough for it. Made for `curve.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from django.db.models import Q, QuerySet

from environments.scoring.definition import Definition
from episodes.analytics.scopes import MAX_ENDINGS, Scope
from episodes.analytics.stored import Axis, ScopeHead, StoredBlock, heads_of, read_blocks, read_rows, stretches
from episodes.analytics.summary_cover import RAW_ENDINGS, SummaryCover, cover, followed_by
from episodes.attempts.endings import Epoch
from episodes.models import CurveBlock, Episode
from episodes.rollups.blocks import BLOCK_ENDINGS, BLOCKS_ABOVE


class Range(NamedTuple):
    """Of an axis, both ends included; None: to its end."""

    low: float | None = None
    high: float | None = None

    def holds(self, low: float, high: float) -> bool:
        """Whether any of `low` to `high` is in it."""
        return (self.low is None or high >= self.low) and (self.high is None or low <= self.high)


def zoomed(scope: Scope, definition: Definition, axis: Axis, shown: Range) -> SummaryCover:
    """What holds `shown`, and on both sides not much more. Seven queries at most."""
    head = heads_of([scope])[0] if followed_by(axis) else ScopeHead()
    if head.endings <= RAW_ENDINGS:
        return cover([scope], definition, axis)[0]
    if axis == "step":
        return _of_steps(scope, definition, shown)
    first, beyond = _of_places(head, shown) if axis == "episode" else _of_times(scope, head, shown)
    if (beyond - first) * BLOCK_ENDINGS <= RAW_ENDINGS:
        episodes = _between(scope, first, beyond if beyond < head.blocks else None)
        rows = read_rows([episodes], definition, axis, MAX_ENDINGS)[0]
        return SummaryCover([], rows, first * BLOCK_ENDINGS, is_bounded=len(rows) == MAX_ENDINGS)
    blocks = read_blocks([scope], [stretches(first, beyond)], definition, axis)[0]
    tail = scope.episodes.filter(end_number__gt=head.last_end) if beyond == head.blocks else Episode.objects.none()
    rows = read_rows([tail], definition, axis, MAX_ENDINGS)[0]
    return SummaryCover(blocks, rows, head.endings, is_bounded=len(rows) == MAX_ENDINGS)


def _of_places(head: ScopeHead, shown: Range) -> tuple[int, int]:
    """Blocks of level 0 that hold some of `shown`: the first, and the one after the last."""
    first = int(max(0, shown.low or 0)) // BLOCK_ENDINGS
    beyond = head.blocks if shown.high is None else int(max(0, shown.high)) // BLOCK_ENDINGS + 1
    return min(first, head.blocks), min(max(first, beyond), head.blocks)


def _of_times(scope: Scope, head: ScopeHead, shown: Range) -> tuple[int, int]:
    """Blocks of level 0 that hold some of `shown`, to within those of a higher level: first, and beyond last."""
    chosen = Q(pk__in=())
    for level, first, beyond in stretches(0, head.blocks):
        chosen |= Q(level=level, number__gte=first, number__lt=beyond)
    blocks = CurveBlock.objects.filter(chosen, scope=scope.kind, scope_id=scope.id)
    spans = [
        (number * BLOCKS_ABOVE**level, (number + 1) * BLOCKS_ABOVE**level, low, high)
        for level, number, low, high in blocks.values_list("level", "number", Epoch("began"), Epoch("ended"))
    ]
    held = [(first, beyond) for first, beyond, low, high in spans if shown.holds(low, high)]
    is_open = shown.high is None or all(high < shown.high for *_, high in spans)
    last = head.blocks if is_open else max((beyond for _, beyond in held), default=0)
    return min((first for first, _ in held), default=last), last


def _of_steps(scope: Scope, definition: Definition, shown: Range) -> SummaryCover:
    """Spans, or the single endings of theirs where those are few and lie close together."""
    whole = cover([scope], definition, "step")[0]
    spans = [span for span in whole.blocks if shown.holds(span.low, span.high)]
    episodes = _few(scope, spans)
    if episodes is None:
        return replace(whole, blocks=spans)
    for test, end in (("gte", shown.low), ("lte", shown.high)):
        episodes = episodes if end is None else episodes.filter(**{f"run_step__{test}": end})
    return replace(whole, blocks=[], rows=[*read_rows([episodes], definition, "step")[0], *whole.rows])


def _few(scope: Scope, spans: Sequence[StoredBlock]) -> QuerySet[Episode] | None:
    """From the first to the last ending of `spans`; None: those are too many to be read one by one."""
    if not spans:
        return Episode.objects.none()
    first, last = min(one.summary.first_end for one in spans), max(one.summary.last_end for one in spans)
    if sum(one.summary.episodes for one in spans) > RAW_ENDINGS or last - first >= MAX_ENDINGS:
        return None
    return scope.episodes.filter(end_number__range=(first, last))


def _between(scope: Scope, first: int, beyond: int | None) -> QuerySet[Episode]:
    """The episodes from block `first` of level 0 on, up to `beyond`; None: all that follow."""
    blocks = CurveBlock.objects.filter(scope=scope.kind, scope_id=scope.id, level=0)
    ends = dict(blocks.filter(number__in=(first - 1, (beyond or 0) - 1)).values_list("number", "last_end"))
    episodes = scope.episodes.filter(end_number__gt=ends.get(first - 1, 0))
    return episodes if beyond is None else episodes.filter(end_number__lte=ends.get(beyond - 1, 0))
