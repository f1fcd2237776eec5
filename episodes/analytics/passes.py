"""pass@k: the chance that one of k attempts at a task succeeds. Pure.

Source: Chen et al. 2021, "Evaluating Large Language Models Trained on Code", section 2.1: of a task with n attempts and
c successes 1 - C(n-c, k) / C(n, k) is an unbiased estimate. It is averaged over the tasks with k attempts or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MOST_K = 1024


@dataclass(frozen=True, slots=True)
class PassRate:
    k: int
    rate: float
    """0 to 1."""
    tasks: int
    """That have k attempts or more; the rate is their mean."""


def pass_at(k: int, attempts: int, successes: int) -> float:
    """Of one task with `k` attempts or more, 1 or more."""
    misses = 1.0
    for place in range(k):  # C(n-c, k) / C(n, k), factor by factor
        misses *= max(0, attempts - successes - place) / (attempts - place)
        if not misses:
            break
    return 1.0 - misses


def pass_rates(tasks: Sequence[tuple[int, int, int]]) -> list[PassRate]:
    """For k = 1, 2, 4, … as far as any task has so many attempts. `tasks`: attempts, successes and how many such."""
    found: list[PassRate] = []
    most, k = max((attempts for attempts, _, _ in tasks), default=0), 1
    while k <= min(most, MOST_K):
        able = [(pass_at(k, attempts, successes), many) for attempts, successes, many in tasks if attempts >= k]
        count = sum(many for _, many in able)
        found.append(PassRate(k, sum(rate * many for rate, many in able) / count, count))
        k *= 2
    return found
