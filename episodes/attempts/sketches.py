"""Sketches: distributions as a few ascending pairs of value and count, exact while there are few
distinct values.

Nothing here reads the database.

A sketch of more than MAX_VALUES values is compressed by merging neighbours into their mean, so the
mean of the whole stays exact. What the variance loses is kept beside the sketch as its *scatter*:
the root of the summed squares of the distances between values and the pairs that stand for them, so
the standard error stays exact, too. The lowest value, the highest and one that many share keep
their own pairs, and no group reaches across one of the `edges` (bars of success), so the share
above each of them stays exact. A group holds at most 1/16 of all values: a quantile is off by less
than that share, and mostly by half of a 32nd.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

Sketch = Sequence[tuple[float, int]]
"""Pairs of value and count: ascending by value, each value once, counts positive."""

MAX_VALUES = 32
OUTLIER = 10.0
"""Distance of an outlier from the values beside it, in usual sizes."""


def sketch_of(values: Iterable[float]) -> Sketch:
    """Return the exact sketch of `values`, however many there are."""
    return sorted(Counter(values).items())


def merged(sketches: Iterable[Sketch]) -> Sketch:
    """Merge sketches into one, without compressing it."""
    remaining = iter(sketches)
    counts: dict[float, int] = dict(next(remaining, ()))  # has each value once, so no count is lost
    for sketch in remaining:
        for value, count in sketch:
            if value in counts:
                counts[value] += count
            else:
                counts[value] = count
    # three times as fast as sorting the pairs
    return [(value, counts[value]) for value in sorted(counts)]


def compressed(sketch: Sketch, edges: Sequence[float] = ()) -> Sketch:
    """Return a sketch of MAX_VALUES pairs at most.

    `edges`, ascending: a value up to an edge is never merged with a value above it.
    """
    if len(sketch) <= MAX_VALUES:
        return sketch
    size = count_of(sketch) / (MAX_VALUES - 1)
    first, *others, last = sketch
    while len(groups := _grouped(others, size, edges)) > MAX_VALUES - 2:
        size *= 1.2
    return merged([[first], groups, [last]])


def _grouped(sketch: Sketch, size: float, edges: Sequence[float]) -> Sketch:
    """Merge neighbours as long as their count stays within `size`."""
    groups: list[tuple[float, int]] = []
    total, count, below = 0.0, 0, 0
    for value, more in sketch:
        index = bisect_left(edges, value)
        if count and (count + more > size or index > below):
            groups.append((total / count, count))
            total, count = 0.0, 0
        total, count, below = total + value * more, count + more, index
    groups.append((total / count, count))
    return merged([(), groups])  # means of two groups may round to one number


def scatter_of(fine: Sketch, coarse: Sketch) -> float:
    """Return the scatter that `coarse` has beyond that of `fine`, which was compressed into it."""
    groups, remaining, mean = iter(coarse), 0, 0.0
    distances: list[float] = []
    for value, count in fine:
        if not remaining:
            mean, remaining = next(groups)
        remaining -= count
        distances.append((value - mean) * math.sqrt(count))
    return math.hypot(*distances)  # squares may overflow


def without(sketch: Sketch, scatter: float, values: Iterable[float]) -> tuple[Sketch, float]:
    """Return the sketch and its scatter without these values, which it holds.

    A value that was merged with others is taken out of the nearest group, whose mean changes
    accordingly, so the mean of the whole and its error stay exact, and the quantiles nearly.
    """
    groups, error = dict(sketch), 0.0
    for value in values:
        if value not in groups and groups:
            larger = [group for group, count in groups.items() if count > 1]
            nearest = min(larger or groups, key=lambda group: abs(group - value))
            count = groups.pop(nearest)
            if count > 1:
                rest = (nearest * count - value) / (count - 1)
                groups[rest] = groups.get(rest, 0) + count - 1
                error = math.hypot(error, (value - nearest) * math.sqrt(count / (count - 1)))
        elif groups:
            groups[value] -= 1
            if not groups[value]:
                del groups[value]
    return sorted(groups.items()), math.sqrt(max(0.0, scatter - error)) * math.sqrt(scatter + error)


def count_of(sketch: Sketch) -> int:
    return sum([count for _, count in sketch])


def mean_of(sketch: Sketch) -> float | None:
    """Return the mean; None for an empty sketch."""
    return _mean(sketch, count_of(sketch)) if sketch else None


def usual_size(sketch: Sketch) -> float:
    """Return the median size of the values other than 0, among which a rare success is no outlier; 0
    without any."""
    sizes = merged([[(abs(value), count)] for value, count in sketch if value])
    return _quantile(sizes, list(accumulate(count for _, count in sizes)), 0.5) if sizes else 0.0


class Outliers(NamedTuple):
    """Values far outside of the others."""

    farthest: float
    low: float
    """Values below it and above `high` are outliers."""
    high: float
    mean: float
    """About that of the others."""


def outliers_of(sketch: Sketch) -> Outliers | None:
    """Return the values that are outside of the 10th and the 90th percentile by OUTLIER usual sizes;
    None without any."""
    _, mean, p10, p90, lowest, highest = moments_of(sketch)
    if mean is None or p10 is None or p90 is None or lowest is None or highest is None:
        return None
    reach = OUTLIER * max(usual_size(sketch), abs(p10), abs(p90))
    low, high = p10 - reach, p90 + reach
    if low <= lowest and highest <= high:
        return None
    rest = [(value, count) for value, count in sketch if low <= value <= high]
    return Outliers(max(lowest, highest, key=abs), low, high, mean_of(rest) or 0.0)


class Moments(NamedTuple):
    """What figures say about a distribution; None without a value."""

    n: int
    mean: float | None
    p10: float | None
    """Smallest value that at least a tenth of all values do not exceed."""
    p90: float | None
    lowest: float | None
    highest: float | None


def moments_of(sketch: Sketch) -> Moments:
    """Return the `Moments` of all values, without adding up counts more than once."""
    if not sketch:
        return Moments(0, None, None, None, None, None)
    totals = list(accumulate([count for _, count in sketch]))
    mean, p10 = _mean(sketch, totals[-1]), _quantile(sketch, totals, 0.1)
    p90 = _quantile(sketch, totals, 0.9)
    return Moments(totals[-1], mean, p10, p90, sketch[0][0], sketch[-1][0])


def error_of(sketch: Sketch, scatter: float = 0.0, mean: float | None = None) -> float | None:
    """Return the standard error of the mean, from the sample's variance; None for fewer than two
    values.

    `mean`: that of the sketch, if it is known.
    """
    count = count_of(sketch)
    if count < 2:
        return None
    mean = _mean(sketch, count) if mean is None else mean
    largest = max(abs(sketch[0][0] - mean), abs(sketch[-1][0] - mean)) or 1.0
    # squares may overflow
    squares = math.fsum([((value - mean) / largest) ** 2 * many for value, many in sketch])
    return math.hypot(
        largest * math.sqrt(squares / (count - 1) / count), scatter / math.sqrt((count - 1) * count)
    )


def above(sketch: Sketch, bar: float) -> int:
    """Return the number of values greater than `bar`."""
    return sum([count for value, count in sketch if value > bar])


def quantile(sketch: Sketch, share: float) -> float | None:
    """Return the smallest value that at least `share` (0 to 1) of all values do not exceed; None
    without values."""
    totals = list(accumulate([count for _, count in sketch]))
    return _quantile(sketch, totals, share) if totals else None


def _quantile(sketch: Sketch, totals: Sequence[int], share: float) -> float:
    """Return a quantile. `totals`: number of values up to each pair."""
    return sketch[bisect_left(totals, share * totals[-1] - 1e-9)][0]


def _mean(sketch: Sketch, count: int) -> float:
    """Return the mean, which rounding leaves within the values: 3 * 0.1 / 3 is more than 0.1."""
    mean = math.fsum([value * many for value, many in sketch]) / count
    return min(max(mean, sketch[0][0]), sketch[-1][0])
