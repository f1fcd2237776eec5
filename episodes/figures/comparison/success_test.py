"""Whether two rates of success at one task differ by more than chance: Fisher's exact test, with
Holm's correction where several tasks are tested."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

MAX_P = 0.05
"""A difference is significant below this p, and differences at several tasks if the chance that any
of them comes of noise is below it."""


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


def largest_significant(ps: Sequence[float]) -> float:
    """Return the largest p that is significant among those of several tasks; 0 if none is.

    Source: Holm 1979, "A simple sequentially rejective multiple test procedure".
    """
    largest = 0.0
    for place, p in enumerate(sorted(ps)):
        if p * (len(ps) - place) >= MAX_P:
            break
        largest = p
    return largest


def _log_ways(count: int, size: int) -> float:
    """Return the logarithm of the number of ways to choose so many."""
    return math.lgamma(count + 1) - math.lgamma(size + 1) - math.lgamma(count - size + 1)
