"""Figures computed from summaries and from rows of single endings, and the statistics behind them.

Nothing here reads the database.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

from environments.scoring.attempt_figures import SuccessRate
from environments.scoring.convention import Coverage, coverages_together
from environments.scoring.definition import Definition, Definitions
from environments.scoring.returns import Return
from episodes.attempts.rule import EXPIRED_KINDS, OWN_KINDS
from episodes.attempts.sketches import (
    Moments,
    Outliers,
    Sketch,
    above,
    error_of,
    moments_of,
    outliers_of,
    sketch_of,
)
from episodes.attempts.summary import (
    CallCounts,
    Distributions,
    JudgedSummary,
    Summary,
    calls_together,
    judged_together,
    merged_if_several,
    returns_sketch,
)


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the standard deviation of the population, for one finite number or more
    of any size.

    Sums and squares of huge numbers overflow, so they are computed in multiples of a power of two,
    which rounds nothing. The deviation of equal numbers is exactly 0.
    """
    low, high = min(values), max(values)
    if low == high:
        return low, 0.0
    scale = math.ldexp(1.0, math.frexp(max(map(abs, values)))[1] - 1)
    shares = [value / scale for value in values]
    mean = math.fsum(shares) / len(shares)
    squares = math.fsum([(share - mean) ** 2 for share in shares])
    return min(max(mean * scale, low), high), math.sqrt(squares / len(shares)) * scale


EndingRow = tuple[int, str, int, float | None, float | None, int, int, int | None, int]
"""A single ending: `end_number`, kind, number of steps that ran, return, place on the axis (seconds
since the epoch by time, the training step by step, the episode's id by episode), failed calls,
refused calls, split, and environment."""


def summary_of(rows: Sequence[EndingRow], return_: Return) -> Summary:
    """Summarize one row or more, which have been read for this definition of return."""
    numbers = [row[0] for row in rows]
    late_rows = [row for row in rows if row[1] in EXPIRED_KINDS]
    return Summary(
        first_end=min(numbers),
        last_end=max(numbers),
        episodes=len(rows),
        causes=dict(Counter([row[1] for row in rows])),
        own=_distributions([row for row in rows if row[1] in OWN_KINDS], return_),
        expired=_distributions(late_rows, return_) if late_rows else None,
    )


def _distributions(rows: Sequence[EndingRow], return_: Return) -> Distributions:
    calls = CallCounts(sum([row[5] for row in rows]), sum([row[6] for row in rows]))
    returns = returns_sketch([row[3] for row in rows])
    return Distributions({return_: returns}, sketch_of([row[2] for row in rows]), calls)


class ScopeFigures(SuccessRate):
    """Figures of one summary or more, of other episodes each, of which each follows its own
    definition.

    Each is computed when it is first asked for, because a chart asks for few. Percentiles are exact
    up to 32 distinct values, then approximate (see `attempts/sketches.py`).
    """

    def __init__(self, parts: Sequence[JudgedSummary]) -> None:
        self.parts = parts

    @property
    def episodes(self) -> int:
        """Number of ended episodes, of every kind."""
        return sum([part.episodes for part in self.parts])

    @cached_property
    def coverage(self) -> Coverage:
        """How many rollouts count, and in what way."""
        if len(self.parts) == 1:  # of most points
            return self.parts[0].coverage
        return coverages_together([part.coverage for part in self.parts])

    @property
    def n(self) -> int:
        """Attempts: the rollouts that count by the definitions, those that count as 0 included."""
        return self.coverage.counted

    @cached_property
    def _returns(self) -> Sketch:
        return merged_if_several([part.returns for part in self.parts])

    @cached_property
    def _of_returns(self) -> Moments:
        return moments_of(self._returns)

    @property
    def scored(self) -> int:
        """Attempts that have a return."""
        return self._of_returns.n

    @property
    def mean(self) -> float | None:
        """Mean of the returns; None if there are none."""
        return self._of_returns.mean

    @cached_property
    def error(self) -> float | None:
        """Standard error of the mean, exact like the mean; None below two returns."""
        return error_of(
            self._returns, math.hypot(*[part.scatter for part in self.parts]), self.mean
        )

    @property
    def p10(self) -> float | None:
        """Tenth percentile of the returns; None if there are none."""
        return self._of_returns.p10

    @property
    def p90(self) -> float | None:
        """Ninetieth percentile of the returns; None if there are none."""
        return self._of_returns.p90

    @property
    def lowest(self) -> float | None:
        """Lowest return; None if there are none."""
        return self._of_returns.lowest

    @property
    def highest(self) -> float | None:
        return self._of_returns.highest

    @property
    def is_mean_usual(self) -> bool:
        """Whether the mean lies between the 10th and the 90th percentile."""
        mean, p10, p90 = self.mean, self.p10, self.p90
        return mean is None or p10 is None or p90 is None or p10 <= mean <= p90

    @property
    def outliers(self) -> Outliers | None:
        """Returns far outside of the others; None if there are none."""
        return outliers_of(self._returns)

    @cached_property
    def successes(self) -> int:
        """Attempts whose return is above the threshold of success."""
        return sum([above(part.returns, part.definition.bar) for part in self.parts])

    @cached_property
    def _of_lengths(self) -> Moments:
        return moments_of(merged_if_several([part.lengths for part in self.parts]))

    @property
    def length_mean(self) -> float | None:
        """Mean of the steps that ran in a rollout that counts, infrastructure failures left out;
        None without any."""
        return self._of_lengths.mean

    @property
    def length_p10(self) -> float | None:
        return self._of_lengths.p10

    @property
    def length_p90(self) -> float | None:
        return self._of_lengths.p90

    @property
    def shortest(self) -> float | None:
        """Fewest steps of a rollout whose length counts; None without any."""
        return self._of_lengths.lowest

    @property
    def longest(self) -> float | None:
        return self._of_lengths.highest

    @cached_property
    def _calls(self) -> CallCounts:
        return calls_together([part.calls for part in self.parts])

    @property
    def tool_errors(self) -> float | None:
        """Mean of the calls that failed or were refused, of the rollouts whose lengths count; None
        without any."""
        rollouts = self._of_lengths.n
        return (self._calls.failed + self._calls.refused) / rollouts if rollouts else None

    @property
    def refused_calls(self) -> float | None:
        """Mean of those that were refused; None without any."""
        rollouts = self._of_lengths.n
        return self._calls.refused / rollouts if rollouts else None


def judged(
    blocks: Iterable[tuple[int, Summary]], rows: Sequence[EndingRow], definitions: Definitions
) -> list[JudgedSummary]:
    """Return summaries of what was read for the definitions, one for each that differs; empty if
    nothing was read.

    `blocks`: environments and summaries of their episodes.
    """
    if isinstance(definitions, Definition):
        alone = [summary for _, summary in blocks]
        alone += [summary_of(rows, definitions.return_)] if rows else []
        return [JudgedSummary(definitions, alone)] if alone else []
    summaries = defaultdict[Definition, list[Summary]](list)
    for environment, summary in blocks:
        summaries[definitions.of(environment)].append(summary)
    rows_by_environment = defaultdict[int, list[EndingRow]](list)
    for row in rows:
        rows_by_environment[row[-1]].append(row)
    for environment, some in rows_by_environment.items():
        definition = definitions.of(environment)
        summaries[definition].append(summary_of(some, definition.return_))
    return [JudgedSummary(definition, parts) for definition, parts in summaries.items()]


def by_definition_together(parts: Iterable[JudgedSummary]) -> list[JudgedSummary]:
    """Merge the summaries of each definition."""
    parts_by_definition = defaultdict[Definition, list[JudgedSummary]](list)
    for part in parts:
        parts_by_definition[part.definition].append(part)
    return [judged_together(some) for some in parts_by_definition.values()]


def excluded_of(parts: Sequence[JudgedSummary]) -> dict[str, int]:
    """Return the endings by kind that no figure of the definitions counts, most first."""
    coverage = coverages_together([part.coverage for part in parts])
    return dict(Counter({**coverage.out, **coverage.others}).most_common())
