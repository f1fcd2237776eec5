"""A histogram of returns as columns over a linear axis, which is labelled at round numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import urlencode

from environments.display.numbers import plain, shown, unsigned
from environments.models import Environment
from episodes.attempts.conventions import parts_in_address
from episodes.figures.environments.histogram import Bin, Histogram
from episodes.filtering.filters import EpisodeFilter

HEIGHT, WIDTH = 100, 400
MIN_HEIGHT = 1.5
MIN_OUTER_HEIGHT = 6.0
"""Few attempts are at the ends, and few pixels there would look like dust."""
MIN_WIDTH, MAX_WIDTH = 3.0, 36.0
"""Of the column of one value: it is narrower where other values are near."""
TICKS = 6
MARGIN = 30
"""Width beside the axis of single values for the outliers at an end."""
OUTER_LABEL = 12
"""Width of the label of an outer column, 0 to 100."""


@dataclass(frozen=True, slots=True)
class Column:
    """One bin of the histogram, drawn within WIDTH x HEIGHT."""

    x: float
    y: float
    width: float
    height: float
    title: str
    query: str
    """Query string of the Episodes page that lists the attempts in the bin."""
    is_success: bool
    is_outer: bool
    """Whether it holds the attempts beyond an end of the axis."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A labelled place of the axis."""

    x: float
    """0 to 100, from left to right."""
    label: str
    anchor: str
    """Which end of the label is at the place: `start`, `middle` or `end`."""


@dataclass(frozen=True, slots=True)
class DrawnHistogram:
    columns: Sequence[Column]
    """From left to right, like the bins."""
    ticks: Sequence[Tick]
    outliers: str = ""
    """A sentence about what the bars at the ends hold; empty if nothing lies beyond the axis."""


def drawn_histogram(
    environment: Environment, returns: Histogram, of: EpisodeFilter
) -> DrawnHistogram:
    """Return the drawing of a histogram. `of`: filter of its episodes."""
    bins = returns.bins
    if not bins:
        return DrawnHistogram([], [])
    low, high, width = _axis(returns)
    left, right = (
        MARGIN if returns.is_exact and bin.is_outer else 0 for bin in (bins[0], bins[-1])
    )

    def place_of(value: float) -> float:
        # halves cannot overflow
        share = (value / 2 - low / 2) / (high / 2 - low / 2) if low < high else 0.5
        return left + share * (WIDTH - left - right - (width if returns.is_exact else 0))

    common = {**of.values(), "ending": "attempt", "return": returns.definition.return_}
    common |= parts_in_address(returns.definition.convention, environment)
    columns = []
    for place, bin in enumerate(bins):
        least = MIN_OUTER_HEIGHT if bin.is_outer else MIN_HEIGHT
        height = max(bin.n * HEIGHT / returns.most, least) if bin.n else 0.0
        is_value = bin.low == bin.high or (returns.is_exact and not bin.is_outer)
        span = plain(bin.low) if is_value else f"{plain(bin.low, 3)} to {plain(bin.high, 3)}"
        if bin.is_outer:
            span = _end(bin, is_first=not place)
        ends = zip(("return_from", "return_to"), returns.reach(place), strict=True)
        query = urlencode(common | {name: repr(end) for name, end in ends if end is not None})
        title = f"return {span}: {bin.n:,} attempt{'' if bin.n == 1 else 's'}"
        x = place_of(bin.low) if returns.is_exact else place * WIDTH / len(bins)
        if returns.is_exact and bin.is_outer:
            x = WIDTH - width if place else 0.0
        is_success = returns.definition.is_success(bin.low)
        shape = (round(x, 2), round(HEIGHT - height, 2), round(width, 2), round(height, 2))
        columns.append(Column(*shape, title, query, is_success, bin.is_outer))
    half = width / 2 if returns.is_exact else 0.0
    ticks = _ticks(low, high, lambda value: 100 * (place_of(value) + half) / WIDTH)
    return DrawnHistogram(columns, _with_outer(ticks, bins), _outliers(bins))


def _end(bin: Bin, *, is_first: bool) -> str:
    return f"≤ {plain(bin.high, 3)}" if is_first else f"≥ {plain(bin.low, 3)}"


def _outliers(bins: Sequence[Bin]) -> str:
    first, last = bins[0], bins[-1]
    parts = []
    if first.is_outer:
        parts.append(f"{first.n:,} of {plain(first.high, 3)} or less in the first bar")
    if last.is_outer:
        parts.append(f"{last.n:,} of {plain(last.low, 3)} or more in the last bar")
    return f"Beyond the axis: {', '.join(parts)}." if parts else ""


def _with_outer(ticks: Sequence[Tick], bins: Sequence[Bin]) -> list[Tick]:
    """Return the ticks with those of the outer bins in place of what is too near to them."""
    first, last = bins[0], bins[-1]
    least = OUTER_LABEL if first.is_outer else 0
    most = 100 - OUTER_LABEL if last.is_outer else 100
    inner = [tick for tick in ticks if least <= tick.x <= most]
    if first.is_outer:
        inner.insert(0, Tick(0, _end(first, is_first=True), "start"))
    if last.is_outer:
        inner.append(Tick(100, _end(last, is_first=False), "end"))
    return inner


def _axis(returns: Histogram) -> tuple[float, float, float]:
    """Return the values at both ends of the axis, and the width of a column."""
    bins = returns.bins
    if not returns.is_exact:
        width = bins[2].low - bins[1].low
        return bins[1].low - width, bins[-1].low + width, 0.9 * WIDTH / len(bins)
    bins = [bin for bin in bins if not bin.is_outer]
    low, high = bins[0].low, bins[-1].high
    gaps = [
        (after.low / 2 - bin.low / 2) / (high / 2 - low / 2) * WIDTH
        for bin, after in pairwise(bins)
    ]
    return low, high, min(MAX_WIDTH, max(MIN_WIDTH, 0.8 * min(gaps, default=WIDTH)))


def _ticks(low: float, high: float, place_of: Callable[[float], float]) -> list[Tick]:
    """Return about TICKS places at round numbers; the two ends where there is no round number
    between them."""
    values = _round_numbers(low, high)
    labels = [unsigned(value) if abs(value) >= 1e6 else f"{value:.6g}" for value in values]
    if len(values) < 2 or len(set(labels)) < len(values):
        values = [low] if low == high else [low, high]
        labels = [repr(shown(value)) for value in values]
    places = [place_of(value) for value in values]
    return [
        Tick(
            round(x, 2),
            label.replace("-", "\N{MINUS SIGN}"),
            "start" if x < 6 else "end" if x > 94 else "middle",
        )
        for x, label in zip(places, labels, strict=True)
    ]


def _round_numbers(low: float, high: float) -> list[float]:
    span = high - low
    if not 0 < span < math.inf:
        return []
    power = 10.0 ** math.floor(math.log10(span / TICKS))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor * TICKS >= span)
    if not step:
        return []
    first, last = math.ceil(low / step), math.floor(high / step)
    return [number * step + 0.0 for number in range(first, last + 1)]
