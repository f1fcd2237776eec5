"""What paired differences say: a bootstrap interval, the exact sign test, an effect size, and how
many more to take."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

from environments.scoring.success_interval import Z_95
from episodes.figures.scope_figures import mean_and_deviation

RESAMPLES = 2_000
MAX_RESAMPLED = 500
"""Differences that are resampled at most, which takes 0.1 s; of more the mean is very nearly
normal."""
POWER = 0.8
_Z_POWER = NormalDist().inv_cdf(POWER)


@dataclass(frozen=True, slots=True)
class PairedEvidence:
    count: int
    """Number of differences, 2 or more."""
    difference: float
    """Their mean."""
    low: float
    """Lower end of the mean's 95 % interval."""
    high: float
    is_resampled: bool
    """Whether the interval is that of the bootstrap (percentiles of RESAMPLES means); else it is
    the normal one."""
    effect: float | None
    """Cohen's d of paired differences: their mean divided by their standard deviation; None if all
    are equal."""
    wins: int
    """Number of differences above 0."""
    losses: int
    p: float
    """Two-sided p of the exact sign test over wins and losses: how likely a split at least so
    uneven is by chance."""
    needed: int | None
    """Differences that are needed, of a kind like these, so that the 95 % interval excludes 0 with
    probability POWER; None if the mean is 0.
    """

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0

    @property
    def more(self) -> int:
        """How many more differences are needed."""
        return max(0, (self.needed or 0) - self.count)


def evidence_of(
    differences: Sequence[float], most_resampled: int = MAX_RESAMPLED
) -> PairedEvidence:
    """Return what two differences or more say. Equal differences give equal results: the resamples
    are seeded. `most_resampled`: above so many the interval is the normal one."""
    return evidence_over([(1.0, differences)], most_resampled)


def evidence_over(
    strata: Sequence[tuple[float, Sequence[float]]], most_resampled: int = MAX_RESAMPLED
) -> PairedEvidence:
    """Return what differences in several strata say: the share of each, which add up to 1, and its
    differences.

    A stratum has two differences or more. The difference is the mean of the strata's means by their
    shares, resamples are drawn in each stratum, and the deviation is that of as many differences
    without strata with the same error.
    """
    values = [value for _, differences in strata for value in differences]
    count, mean, errors = len(values), 0.0, list[float]()
    for share, differences in strata:
        middle, spread = mean_and_deviation(differences)
        mean += share * middle
        errors.append(share * spread / math.sqrt(len(differences) - 1))
    error = math.hypot(*errors)  # squares may overflow
    deviation = error * math.sqrt(count)
    is_resampled = count <= most_resampled
    low, high = mean - Z_95 * error, mean + Z_95 * error
    if is_resampled:
        low, high = _resampled(tuple((share, tuple(part)) for share, part in strata))
    wins, losses = sum(value > 0 for value in values), sum(value < 0 for value in values)
    return PairedEvidence(
        count=count,
        difference=mean,
        low=low,
        high=high,
        is_resampled=is_resampled,
        effect=mean / deviation if deviation else None,
        wins=wins,
        losses=losses,
        p=sign_test(wins, losses),
        needed=max(2, math.ceil(((Z_95 + _Z_POWER) * deviation / mean) ** 2)) if mean else None,
    )


def sign_test(wins: int, losses: int) -> float:
    """Return the two-sided p of the exact sign test, 1 without wins and losses."""
    count = wins + losses
    logs = [
        math.lgamma(count + 1) - math.lgamma(place + 1) - math.lgamma(count - place + 1)
        for place in range(min(wins, losses) + 1)
    ]
    halves = count * math.log(2)
    return min(1.0, 2 * math.fsum([math.exp(log - halves) for log in logs]))


# half of the time of a page, which is often loaded again with the same differences
@lru_cache(maxsize=256)
def _resampled(strata: tuple[tuple[float, tuple[float, ...]], ...]) -> tuple[float, float]:
    """Return the 2.5th and the 97.5th percentile of the means of resamples."""
    chance = random.Random(0)  # nosec B311 # no secret
    parts = [(share / len(part), part, len(part)) for share, part in strata]
    means = sorted(
        sum([share * sum(chance.choices(part, k=size)) for share, part, size in parts])
        for _ in range(RESAMPLES)
    )
    edge = RESAMPLES // 40
    return means[edge - 1], means[-edge]
