"""Whether two rates of success at one task differ by more than chance: Fisher's exact test."""

from __future__ import annotations

import math
from functools import lru_cache

MAX_P = 0.05
"""A difference is significant below this p."""


# thousands of tasks have the same few counts
@lru_cache(maxsize=4096)
def exact_test(successes: int, attempts: int, others: int, other_attempts: int) -> float:
    """Return the two-sided p of so many `successes` and `others` of the attempts of two: how likely
    counts at least so uneven are by chance."""
    total = successes + others
    counts = range(max(0, total - other_attempts), min(total, attempts) + 1)
    logs = [_log_ways(attempts, n) + _log_ways(other_attempts, total - n) for n in counts]
    highest, own = max(logs), logs[successes - counts.start]
    chances = [math.exp(log - highest) for log in logs]
    # equally likely counts differ by rounding
    rare = [chance for chance, log in zip(chances, logs, strict=True) if log <= own + 1e-9]
    return math.fsum(rare) / math.fsum(chances)


def _log_ways(count: int, chosen: int) -> float:
    """Return the logarithm of the number of ways to choose so many."""
    return math.lgamma(count + 1) - math.lgamma(chosen + 1) - math.lgamma(count - chosen + 1)
