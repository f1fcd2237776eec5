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


def interval_over_tasks(rate: float, variance: float, tasks: int, attempts: int) -> Interval:
    """Return Wilson's 95 % interval of the success rate of attempts at tasks, with every task as
    one observation, because attempts at one task are alike; 0 to 1 without tasks.

    `variance`: the squared standard error of the rate over the tasks. It says how many attempts at
    new tasks the attempts are worth: as many as there are tasks if there is one attempt at each, at
    most all of them.
    """
    worth = float(tasks)
    if 0 < rate < 1:
        worth = min(attempts, rate * (1 - rate) / variance) if variance else attempts
    return interval(rate * worth, worth)
