"""Figures of a number of attempts, whatever they have in common: a task, a run, a kind of player, a
point of a curve.

Pages and the API read them. A dataclass of more figures extends `Figures`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from environments.scoring.convention import Coverage
from environments.scoring.success_interval import Interval, interval


class AttemptCounts(Protocol):
    """What a success rate follows from."""

    @property
    def n(self) -> int:
        """Attempts."""

    @property
    def successes(self) -> int: ...

    @property
    def interval(self) -> Interval:
        """95 % interval of the success rate; 0 to 1 without attempts."""


class SuccessRate:
    """The success rate that follows from the numbers of attempts and of successes."""

    __slots__ = ()

    @property
    def success(self: AttemptCounts) -> float | None:
        """Successes divided by attempts, 0 to 1; None without attempts."""
        return self.successes / self.n if self.n else None

    @property
    def interval(self: AttemptCounts) -> Interval:
        """Wilson's 95 % interval of the success rate; 0 to 1 without attempts."""
        return interval(self.successes, self.n)

    @property
    def success_low(self: AttemptCounts) -> float | None:
        """Lower end of the interval; None without attempts."""
        return self.interval.low if self.n else None

    @property
    def success_high(self: AttemptCounts) -> float | None:
        return self.interval.high if self.n else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures(SuccessRate):
    coverage: Coverage
    """How many rollouts count, and in what way."""
    n: int
    """Attempts: the rollouts that count by the definition, those that count as 0 included."""
    scored: int
    """Attempts that have a return."""
    mean: float | None
    """Mean of the returns; None if there are none."""
    successes: int
    """Attempts whose return is above the threshold of success."""
