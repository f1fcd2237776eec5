"""The interval of a success rate, by Wilson's method."""

from __future__ import annotations

import math
from typing import NamedTuple

Z_95 = 1.959963984540054
"""Standard deviations on each side that hold 95 % of a normal distribution."""


class Interval(NamedTuple):
    low: float
    high: float


def interval(successes: float, attempts: float) -> Interval:
    """Return Wilson's 95 % interval of the success rate, within 0 to 1; 0 to 1 without attempts.

    Both are whole numbers, or those that attempts at few tasks are worth.
    """
    if not attempts:
        return Interval(0.0, 1.0)
    rate, noise = successes / attempts, Z_95**2 / attempts
    middle = rate + noise / 2
    reach = Z_95 * math.sqrt(rate * (1 - rate) / attempts + noise / (4 * attempts))
    # at the ends the two terms are equal except for rounding: return exactly 0 and 1 there
    low = (middle - reach) / (1 + noise) if successes else 0.0
    high = (middle + reach) / (1 + noise) if successes < attempts else 1.0
    return Interval(low, high)
