"""The score of a player over a suite, with its interval, computed from sums over the tasks of each
member. Pure.

A task's figure is the success rate of the attempts at it, or their mean return. A member's score is
the mean over its tasks, the suite's the mean of the members' scores by their weights.

Every task is one observation. The interval of a member's success rate is that of leaderboards
(`interval_over_tasks`), the interval of a mean return the normal one. The members' intervals make
the suite's by the method of variance estimates recovery, which for normal intervals is the
stratified one, and keeps those of rates within 0 and 1.
Source: Zou and Donner 2008, "Construction of confidence limits about effect measures", Statistics
in Medicine 27.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from environments.scoring.success_interval import Z_95, Interval, interval_over_tasks
from episodes.figures.leaderboard.leaderboard_results import MAX_SQUARED
from episodes.suites.versions import Score


@dataclass(slots=True)
class TaskSums:
    """Sums over the tasks of a member that one player attempted."""

    tasks: int = 0
    """Tasks that have a figure."""
    total: float = 0.0
    """Sum of their figures."""
    squares: float = 0.0
    """Sum of the squares of their figures."""
    largest: float = 0.0
    """Greatest figure without its sign."""
    attempts: int = 0
    """Attempts at them."""
    kinds: dict[str, int] = field(default_factory=dict)
    """Rollouts at all tasks of the member by kind of ending; "" for those that finished or were
    abandoned."""

    def add(self, figure: float, attempts: int) -> None:
        self.tasks += 1
        self.total += figure
        self.largest = max(self.largest, abs(figure))
        self.squares += figure**2 if abs(figure) <= MAX_SQUARED else 0.0
        self.attempts += attempts

    @property
    def mean(self) -> float | None:
        return self.total / self.tasks if self.tasks else None

    @property
    def variance(self) -> float:
        """Variance of the figures, of which there are some, each at most MAX_SQUARED."""
        return max(0.0, self.squares / self.tasks - (self.total / self.tasks) ** 2)

    def interval(self, score: Score) -> Interval | None:
        """Return the 95 % interval of the mean; None if it cannot be said: without tasks, or of a
        single return."""
        if not self.tasks:
            return None
        if score == "success":
            rate, variance = min(1.0, self.total / self.tasks), self.variance / self.tasks
            return interval_over_tasks(rate, variance, self.tasks, self.attempts)
        if self.tasks < 2 or self.largest > MAX_SQUARED:
            return None
        mean = self.total / self.tasks
        half = Z_95 * math.sqrt(self.variance / (self.tasks - 1))
        return Interval(mean - half, mean + half)


def score_of(
    members: Sequence[TaskSums], weights: Sequence[float], score: Score
) -> tuple[float | None, Interval | None]:
    """Return the score over all members and its 95 % interval. The score is None if there is no
    task of one of them, the interval if that of one cannot be said."""
    means = [member.mean for member in members if member.mean is not None]
    if len(means) < len(members):
        return None, None
    shares = shares_of(weights)
    value = math.fsum(share * mean for share, mean in zip(shares, means, strict=True))
    intervals = [interval for member in members if (interval := member.interval(score))]
    if len(intervals) < len(members):
        return value, None
    parts = list(zip(shares, means, intervals, strict=True))
    below = math.hypot(*(share * (mean - interval.low) for share, mean, interval in parts))
    above = math.hypot(*(share * (interval.high - mean) for share, mean, interval in parts))
    return value, Interval(value - below, value + above)


def shares_of(weights: Sequence[float]) -> list[float]:
    """Return the weights divided by their sum."""
    whole = math.fsum(weights)
    return [weight / whole for weight in weights]
