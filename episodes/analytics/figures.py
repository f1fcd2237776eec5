"""Figures: the numbers of a tally of endings under a definition, each with what it rests on."""

from __future__ import annotations

from dataclasses import dataclass

from environments.buckets import interval
from episodes.analytics.definition import Definition
from episodes.analytics.tally import Tally
from episodes.sketches import above, count_of, error_of, mean_of, quantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Percentiles are exact up to 32 distinct values, then approximate (`sketches.py`)."""

    episodes: int
    """Endings of every kind."""
    n: int
    """Attempts: without probes, continuations and failures of the machinery."""
    scored: int
    """Attempts that have a return."""
    mean: float | None
    """Of the returns; None without any, like the percentiles."""
    error: float | None
    """Standard error of the mean; None below two returns."""
    p10: float | None
    p90: float | None
    successes: int
    success: float | None
    """Successes by attempts, 0 to 1; None without attempts."""
    success_low: float
    """Wilson's 95 % interval of it; 0 to 1 without attempts."""
    success_high: float
    length_mean: float | None
    """Steps that ran in an attempt."""
    length_p10: float | None
    length_p90: float | None


def figures_of(tally: Tally, definition: Definition) -> Figures:
    """`tally` is of the definition's return."""
    returns, lengths = tally.returns, tally.lengths
    successes = above(returns, definition.threshold)
    low, high = interval(successes, tally.attempts)
    p10, p90 = quantiles(returns, 0.1, 0.9)
    length_p10, length_p90 = quantiles(lengths, 0.1, 0.9)
    return Figures(
        episodes=tally.episodes,
        n=tally.attempts,
        scored=count_of(returns),
        mean=mean_of(returns),
        error=error_of(returns),
        p10=p10,
        p90=p90,
        successes=successes,
        success=successes / tally.attempts if tally.attempts else None,
        success_low=low,
        success_high=high,
        length_mean=mean_of(lengths),
        length_p10=length_p10,
        length_p90=length_p90,
    )
