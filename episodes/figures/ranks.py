"""Ranks of figures, and how sure they are by their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from environments.scoring.success_interval import Interval


class Rank(NamedTuple):
    place: int
    """From 1 on, the same for equal figures."""
    best: int
    """One more than the figures whose intervals are above its own."""
    worst: int
    """The number of figures whose intervals are not below its own."""


def ranks_of(figures: Sequence[tuple[float | None, Interval | None]]) -> list[Rank | None]:
    """Return the rank of each figure, of which the highest is the best; None without a figure.

    `figures`: each with its 95 % interval; without one it may have any rank.
    """
    values = [value for value, _ in figures if value is not None]
    intervals = [
        interval or Interval(-inf, inf) for value, interval in figures if value is not None
    ]
    ranks = {
        (value, own): Rank(
            1 + sum(other > value for other in values),
            1 + sum(other.low > own.high for other in intervals),
            sum(other.high >= own.low for other in intervals),
        )
        for value, own in zip(values, intervals, strict=True)
    }
    return [
        None if value is None else ranks[value, interval or Interval(-inf, inf)]
        for value, interval in figures
    ]
