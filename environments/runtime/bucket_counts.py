"""Counts of measured values by size, cheap enough for every tool call."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


class BucketCounts:
    """Counts values by the first of `bounds` that they don't exceed. Written by one thread; any may
    read a snapshot."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def snapshot(self) -> CountedValues:
        """Return the counts so far."""
        return CountedValues(self._bounds, tuple(self._counts), self._total)


@dataclass(frozen=True, slots=True)
class CountedValues:
    """The counts of a histogram at one moment."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    """Values of each bound that exceed the bound before; the last one: values beyond all bounds."""
    total: float
    """Sum of all values."""

    @property
    def count(self) -> int:
        return sum(self.counts)

    def cumulated(self) -> list[int]:
        """Return for each bound how many values don't exceed it, and at last the number of all."""
        return list(accumulate(self.counts))

    def quantile(self, share: float) -> float | None:
        """Return the bound that `share` of the values don't exceed; None without values, infinity
        beyond all bounds."""
        threshold = share * self.count
        if not threshold:
            return None
        return (*self.bounds, float("inf"))[bisect_left(self.cumulated(), threshold)]
