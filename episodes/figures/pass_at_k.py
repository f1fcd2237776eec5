"""pass@k: the chance that one of k attempts at a task succeeds.

Source: Chen et al. 2021,
"Evaluating Large Language Models Trained on Code", section 2.1: for a task with n attempts and c
successes, 1 - C(n-c, k) / C(n, k) is an unbiased estimate. It is averaged over the tasks with k
attempts or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from environments.scoring.success_interval import interval_over_tasks

_DOUBLING = [2**power for power in range(11)]


@dataclass(frozen=True, slots=True)
class PassRate:
    k: int
    rate: float
    """Mean of the tasks' chances, 0 to 1."""
    low: float
    """Lower end of its 95 % interval, with every task as one observation."""
    high: float
    tasks: int
    """Number of tasks that it is the mean of: the same for each k."""


def pass_at(k: int, attempts: int, successes: int) -> float:
    """Return pass@k of one task. `k` is 1 or more, and at most `attempts`."""
    misses = 1.0
    for place in range(k):  # C(n-c, k) / C(n, k), factor by factor
        misses *= max(0, attempts - successes - place) / (attempts - place)
        if not misses:
            break
    return 1.0 - misses


def pass_rates(tasks: Sequence[tuple[int, int, int]]) -> list[PassRate]:
    """Return pass@k for k = 1, 2, 4, … as far as half of the tasks have so many attempts.

    All are means of the same tasks, those with enough attempts for the last k, so that they can be
    compared.
    `tasks`: attempts, successes, and the number of tasks that have just these.
    """
    half = sum(many for _, _, many in tasks) / 2
    ks = [
        k
        for k in _DOUBLING
        if half and sum(many for attempts, _, many in tasks if attempts >= k) >= half
    ]
    able = [task for task in tasks if ks and task[0] >= ks[-1]]
    count, rates = sum(many for _, _, many in able), list[PassRate]()
    for k in ks:
        chances = [(pass_at(k, attempts, successes), many) for attempts, successes, many in able]
        rate = min(1.0, sum(chance * many for chance, many in chances) / count)
        variance = sum((chance - rate) ** 2 * many for chance, many in chances) / count**2
        # k attempts are one observation of whether any of them succeeds
        choices = sum(attempts // k * many for attempts, _, many in able)
        rates.append(PassRate(k, rate, *interval_over_tasks(rate, variance, count, choices), count))
    return rates
