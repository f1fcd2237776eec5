"""How the returns of a group spread, and how many groups teach nothing because all returns are
equal; how a figure spreads over runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import NamedTuple

from environments.scoring.definition import Definition, Definitions
from episodes.attempts.group_states import MAX_FLAT_RANGE, GroupCount
from episodes.attempts.summary import EndedReturn, returns_counted
from episodes.figures.scope_figures import mean_and_deviation

EPSILON = 1e-4


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread of the returns of a group."""

    scored: int
    """Attempts that have a return."""
    mean: float | None
    """Mean of the returns; None if there are none."""
    deviation: float | None
    """Standard deviation of the population; None if there are no returns."""
    low: float | None = None
    """Lowest return; None, like the highest, if there are none."""
    high: float | None = None

    @property
    def is_flat(self) -> bool:
        """Return whether two attempts or more all have the same return, as `GroupState` decides
        it."""
        if self.scored < 2 or self.low is None or self.high is None:
            return False
        return self.high - self.low <= MAX_FLAT_RANGE

    def advantage(self, value: float) -> float:
        """Return the advantage of a return of the group, which must have one."""
        assert self.mean is not None and self.deviation is not None
        half = value / 2 - self.mean / 2  # the difference itself may overflow
        return half / (self.deviation + EPSILON) * 2


class RunSpread(NamedTuple):
    """The spread of a figure over runs, each of which counts once."""

    mean: float
    deviation: float | None
    """Standard deviation of the sample; None for one run."""
    runs: int
    """Number of runs that have the figure."""

    @classmethod
    def of(cls, values: Iterable[float | None]) -> RunSpread | None:
        """Return the spread of those values that are known; None without any."""
        numbers = [value for value in values if value is not None]
        if not numbers:
            return None
        return cls(fmean(numbers), stdev(numbers) if len(numbers) > 1 else None, len(numbers))


def spread_of(values: Iterable[float]) -> Spread:
    """Return the spread of finite values; the deviation of equal values is exactly 0."""
    returns = list(values)
    if not returns:
        return Spread(0, None, None)
    return Spread(len(returns), *mean_and_deviation(returns), min(returns), max(returns))


def spread_of_endings(endings: Iterable[EndedReturn], definition: Definition) -> Spread:
    """Return the spread of the returns that count."""
    returns = returns_counted(endings, definition.convention)
    return spread_of(value for value in returns if value is not None)


def count_groups(
    groups: Mapping[tuple[int, ...], Sequence[EndedReturn]], definitions: Definitions
) -> GroupCount:
    """Count the groups with these endings, whose keys begin with the id of their environment."""
    spreads = [
        spread_of_endings(endings, definitions.of(environment))
        for (environment, *_), endings in groups.items()
        if len(endings) > 1
    ]
    spreads = [spread for spread in spreads if spread.scored > 1]
    deviations = math.fsum([spread.deviation or 0.0 for spread in spreads])
    return GroupCount(len(spreads), sum([spread.is_flat for spread in spreads]), deviations)
