"""Change points: the places at which the level of series over the same axis changes by more than
their noise.

Binary segmentation: a part of the axis is divided where two levels fit best, and its halves are
examined in turn. Whether a part is divided at all is decided by the CUSUM statistic of each series:
the largest distance of its running sum from a straight line, in standard deviations of the sum. Of
noise around one level it follows the largest distance of a Brownian bridge from 0, whose
distribution is Kolmogorov's. The noise is measured between neighbours, to which a change of level
hardly adds, so a steady slope is found as steps.

Source: Page 1954, "Continuous inspection schemes"; Scott and Knott 1974 (binary segmentation).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

FALSE_ALARM = 0.01
"""Chance that series of noise around one level get any change point, about."""
MIN_POINTS = 12
"""Points without which the noise is not known well enough."""
MIN_LEVEL = 3
"""Points of a level at least."""


def change_points(series: Sequence[Sequence[float]], weights: Sequence[float]) -> list[int]:
    """Return the places at which another level of some series begins, in order.

    `series`: each has a value for each place. `weights`: how many observations each value is the
    mean of, above 0.
    """
    noises = [_noise(values, weights) for values in series]
    scaled_values = [
        [value / noise for value in values]
        for values, noise in zip(series, noises, strict=True)
        if noise
    ]
    if len(weights) < MIN_POINTS or not scaled_values:
        return []
    # the first term of Kolmogorov's distribution; noise of few points may be larger than measured
    least = math.sqrt(math.log(2 * len(series) / FALSE_ALARM) / 2) * (1 + 2 / len(weights))
    places, parts = list[int](), [(0, len(weights))]
    while parts:
        start, beyond = parts.pop()
        own = [values[start:beyond] for values in scaled_values]
        place = _division(own, weights[start:beyond], least)
        if place is not None:
            places.append(start + place)
            parts += [(start, start + place), (start + place, beyond)]
    return sorted(places)


def _noise(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the standard deviation of a single observation, from the differences of neighbours."""
    terms = [
        (right - left) ** 2 / (1 / before + 1 / after)
        for (left, right), (before, after) in zip(pairwise(values), pairwise(weights), strict=True)
    ]
    return math.sqrt(math.fsum(terms) / len(terms)) if terms else 0.0


def _division(
    series: Sequence[Sequence[float]], weights: Sequence[float], least: float
) -> int | None:
    """Return the place that divides a part in two levels; None if it has one."""
    counts = list(accumulate(weights))
    total = counts[-1]
    distances = list[list[float]]()
    for values in series:
        sums = list(accumulate(map(float.__mul__, map(float, weights), values)))
        mean = sums[-1] / total
        distances.append([part - count * mean for part, count in zip(sums, counts, strict=True)])
    if max(abs(distance) for row in distances for distance in row) <= least * math.sqrt(total):
        return None
    places = range(MIN_LEVEL, len(weights) - MIN_LEVEL + 1)
    return max(
        places,
        key=lambda place: (
            sum(row[place - 1] ** 2 for row in distances)
            / (counts[place - 1] * (total - counts[place - 1]))
        ),
        default=None,
    )
