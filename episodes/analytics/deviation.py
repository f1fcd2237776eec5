"""Deviation: how far numbers lie apart, of whatever size they are. Pure.

Sums and squares of what is huge overflow, so it is reckoned in shares of a power of two, by which nothing is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Of one finite number or more, the deviation that of the population; equal ones deviate by exactly 0."""
    if min(values) == max(values):
        return values[0], 0.0
    scale = math.ldexp(1.0, math.frexp(max(map(abs, values)))[1] - 1)
    shares = [value / scale for value in values]
    mean = math.fsum(shares) / len(shares)
    squares = math.fsum([(share - mean) ** 2 for share in shares])
    return mean * scale, math.sqrt(squares / len(shares)) * scale
