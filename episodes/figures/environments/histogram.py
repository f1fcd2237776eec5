"""Histograms of the returns or the lengths of a scope's attempts."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from environments.display.numbers import shown
from environments.scoring.convention import by_cause
from environments.scoring.definition import Definition
from environments.scoring.returns import MAX_RETURN
from episodes.attempts.sketches import Sketch, count_of, quantile
from episodes.figures.scope_figures import ScopeFigures, judged
from episodes.figures.scopes import Scope
from episodes.figures.sketch_error import error_bound_of, sentence_of
from episodes.figures.summary_cover import covers_of

MAX_BINS = 40
OUTLIERS = 0.005
"""Share of the values at each end that does not stretch the bins: the outermost bins hold them."""
MAX_STRETCH = 3
"""How many times as far as the other values outliers may reach before they have no place of their
own on the axis."""
MIN_BLOCKS = 8
Measure = Literal["return", "length"]


@dataclass(frozen=True, slots=True)
class Bin:
    low: float
    """Lowest value, included; equal to `high` if the histogram `is_exact`, except for what rounding
    leaves of 0."""
    high: float
    """Upper end, included only in the last bin."""
    n: int
    """Number of attempts."""
    is_outer: bool = False
    """Whether it holds the values beyond an end of the axis."""


@dataclass(frozen=True, slots=True)
class Histogram:
    scope: Scope
    definition: Definition
    measure: Measure
    bins: Sequence[Bin]
    """Ascending bins of equal width, except the outermost two, which reach to the extremes; empty
    without a value."""
    is_exact: bool
    """Whether each bin is one single value, except outer ones."""
    values: int
    """Number of distinct values, if it `is_exact`."""
    most: int
    """Attempts in the fullest bin."""
    total: ScopeFigures | None
    """Figures of all endings; None without an ending."""
    causes: dict[str, int]
    """Endings of the scope by cause, also "probe" and "continued"."""
    missing: str
    """A sentence about older episodes that are not counted; empty if none are missing."""
    note: str
    """A sentence about the error of the success rate; empty if the rate is exact."""
    is_grouped: bool
    """Whether older attempts are counted as groups of neighbouring values, some of which may be in
    the next bin."""

    def reach(self, place: int) -> tuple[float | None, float | None]:
        """Return the lowest and highest value of the bin at `place`, both included; None for a side
        without an end."""
        part = self.bins[place]
        is_closed = self.is_exact or place == len(self.bins) - 1
        high = part.high if is_closed else math.nextafter(part.high, -math.inf)
        return None if part.low <= -MAX_RETURN else part.low, None if high >= MAX_RETURN else high


def histogram(scope: Scope, definition: Definition, measure: Measure = "return") -> Histogram:
    """Return the histogram of a scope. Seven queries at most."""
    cover = covers_of([scope], definition, least_blocks=MIN_BLOCKS)[0]
    pairs = [pair for block in cover.blocks for pair in block.pairs]
    summaries = judged(pairs, cover.rows, definition)
    summary = summaries[0] if summaries else None
    sketch: Sketch = []
    if summary is not None:
        sketch = summary.returns if measure == "return" else summary.lengths
    is_exact = len(sketch) <= MAX_BINS
    bins = _without_outliers(_exact_bins(sketch), sketch) if is_exact else _bins(sketch)
    return Histogram(
        scope=scope,
        definition=definition,
        measure=measure,
        bins=bins,
        is_exact=is_exact,
        values=len(_exact_bins(sketch)) if is_exact else 0,
        most=max((part.n for part in bins), default=0),
        total=ScopeFigures([summary]) if summary else None,
        causes=by_cause(summary.causes) if summary else {},
        missing=cover.missing,
        note=sentence_of(error_bound_of(cover, definition), definition),
        is_grouped=bool(cover.blocks) and not is_exact,
    )


def _exact_bins(sketch: Sketch) -> list[Bin]:
    """Return a bin for each value; what rounding leaves of 0 shares one."""
    groups = [list(pairs) for _, pairs in groupby(sketch, key=lambda pair: shown(pair[0]))]
    return [Bin(pairs[0][0], pairs[-1][0], count_of(pairs)) for pairs in groups]


def _without_outliers(bins: list[Bin], sketch: Sketch) -> list[Bin]:
    """Return the bins, with one bin at each end for all outliers there that would stretch the
    axis."""
    low, high = quantile(sketch, OUTLIERS) or 0.0, quantile(sketch, 1 - OUTLIERS) or 0.0
    # halves cannot overflow
    reach = MAX_STRETCH * (high / 2 - low / 2)
    if not bins or not reach or bins[-1].high / 2 - bins[0].low / 2 <= reach:
        return bins
    below = [bin for bin in bins if bin.high < low]
    above = [bin for bin in bins if bin.low > high]
    inner = bins[len(below) : len(bins) - len(above)]
    return [*_together(below), *inner, *_together(above)]


def _together(bins: list[Bin]) -> list[Bin]:
    """Return an outer bin of what these hold; none without any."""
    count = sum(bin.n for bin in bins)
    return [Bin(bins[0].low, bins[-1].high, count, is_outer=True)] if bins else []


def _bins(sketch: Sketch) -> list[Bin]:
    """Return MAX_BINS bins of a sketch that has more values than that."""
    low, high = quantile(sketch, OUTLIERS) or 0.0, quantile(sketch, 1 - OUTLIERS) or 0.0
    if low == high:  # all values except outliers are equal
        low, high = sketch[0][0], sketch[-1][0]
    width = (high - low) / MAX_BINS
    inner = [low + width * place for place in range(1, MAX_BINS)]
    counts = [0] * MAX_BINS
    # by the edges that links to lists use: a division would round differently
    for value, count in sketch:
        counts[bisect_right(inner, value)] += count
    edges = [sketch[0][0], *inner, sketch[-1][0]]
    first, *others, last = [
        Bin(edges[place], edges[place + 1], count) for place, count in enumerate(counts)
    ]
    first = replace(first, is_outer=first.low < low)
    return [first, *others, replace(last, is_outer=last.high > high)]
