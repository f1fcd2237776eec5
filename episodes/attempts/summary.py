"""Summary of some endings: their number, causes, and the distributions of returns and lengths.

The follower makes summaries from endings and stores them in CurveBlock and StepSpan rows
(`episodes/rollups`); `episodes/figures` merges them into curves, histograms and outlines. Pure: nothing here
reads the database.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from environments.scoring.convention import Convention, Coverage, counts_added, coverage_of
from environments.scoring.definition import Definition
from environments.scoring.returns import Return
from episodes.attempts.endings import bounded
from episodes.attempts.group_states import GroupTally
from episodes.attempts.rule import EXPIRED_KINDS, NO_CALL
from episodes.attempts.sketches import (
    Sketch,
    above,
    compressed,
    count_of,
    mean_of,
    merged,
    scatter_of,
    sketch_of,
    without,
)

NOTHING_LOST: Mapping[Return, float] = MappingProxyType({})
"""Scatters of sketches that are exact."""
NO_GROUPS = GroupTally()
"""The groups of a summary that counts none; nobody adds to it."""


class CallCounts(NamedTuple):
    """Numbers of calls of some rollouts that went wrong (see `Step.status`)."""

    failed: int
    refused: int


# not a dataclass, because a chart of runs makes ten thousand of them
class Distributions(NamedTuple):
    """Returns and lengths of some rollouts."""

    returns: Mapping[Return, Sketch]
    """Returns, for each definition of return that was read."""
    lengths: Sketch
    """Steps that ran in each rollout."""
    calls: CallCounts
    """Calls of all rollouts together."""
    scatters: Mapping[Return, float] = NOTHING_LOST
    """Scatter of each sketch of returns that is not exact (see `sketches.py`)."""

    def compressed(self, edges: Sequence[float]) -> Distributions:
        returns, scatters = dict[Return, Sketch](), dict(self.scatters)
        for name, sketch in self.returns.items():
            returns[name] = small = compressed(sketch, edges)
            if small is not sketch:
                scatters[name] = math.hypot(scatters.get(name, 0.0), scatter_of(sketch, small))
        return Distributions(returns, compressed(self.lengths), self.calls, scatters)

    def without(self, other: Distributions) -> Distributions:
        """Return these without the rollouts of `other`, which are exact and among them."""
        returns, scatters = dict[Return, Sketch](), dict[Return, float]()
        for name, sketch in self.returns.items():
            values = _values(other.returns[name])
            returns[name], scatters[name] = without(sketch, self.scatters.get(name, 0.0), values)
        calls = CallCounts(
            self.calls.failed - other.calls.failed, self.calls.refused - other.calls.refused
        )
        return Distributions(
            returns, without(self.lengths, 0.0, _values(other.lengths))[0], calls, scatters
        )


class Summary(NamedTuple):
    """A summary of one ending or more. What of it counts, and how, depends on the reader's
    convention."""

    first_end: int
    """Lowest `end_number` of the episodes."""
    last_end: int
    """Highest `end_number` of the episodes."""
    episodes: int
    """Number of ended episodes, of every kind."""
    causes: Mapping[str, int]
    """Endings by kind (see `episodes.attempts.rule.KIND`)."""
    own: Distributions
    """Distributions of the rollouts that finished or were abandoned, whose return every convention
    counts."""
    expired: Distributions | None = None
    """Distributions of the rollouts that expired; None if there are none."""
    groups: GroupTally = NO_GROUPS
    """Groups, for the spans of a run. Parts of a summary that is about to be merged may have
    negative numbers."""

    def compressed(self, edges: Sequence[float]) -> Summary:
        """Return the summary with small sketches.

        `edges`: bars of success, ascending, which no group of returns crosses.
        """
        expirations = self.expired and self.expired.compressed(edges)
        return self._replace(own=self.own.compressed(edges), expired=expirations)

    def without(self, other: Summary) -> Summary:
        """Return the summary without the endings of `other`, which is exact and of endings among
        these."""
        causes = {kind: count - other.causes.get(kind, 0) for kind, count in self.causes.items()}
        expirations = self.expired
        if expirations and other.expired:
            is_left = any(causes.get(kind) for kind in EXPIRED_KINDS)
            expirations = expirations.without(other.expired) if is_left else None
        return self._replace(
            episodes=self.episodes - other.episodes,
            causes={kind: count for kind, count in causes.items() if count},
            own=self.own.without(other.own),
            expired=expirations,
        )


def _values(sketch: Sketch) -> list[float]:
    return [value for value, count in sketch for _ in range(count)]


def together(summaries: Sequence[Summary]) -> Summary:
    """Merge one summary or more, which all have the same definitions of return."""
    if len(summaries) == 1:
        return summaries[0]
    expirations = [summary.expired for summary in summaries if summary.expired]
    groups = GroupTally()
    for summary in summaries:
        groups.add(summary.groups)
    return Summary(
        first_end=min(summary.first_end for summary in summaries),
        last_end=max(summary.last_end for summary in summaries),
        episodes=sum(summary.episodes for summary in summaries),
        causes=counts_added(summary.causes for summary in summaries),
        own=_merged([summary.own for summary in summaries]),
        expired=_merged(expirations) if expirations else None,
        groups=groups,
    )


@dataclass(frozen=True)
class JudgedSummary:
    """Summary of endings that all follow one definition.

    Its distributions are merged when they are first asked for, because few pages ask for all of
    them.
    """

    definition: Definition
    summaries: Sequence[Summary]
    """One summary or more."""
    parts: Sequence[JudgedSummary] = field(default=(), compare=False, repr=False)
    """What it was merged from, if it was: their returns may have been merged already."""

    @property
    def first_end(self) -> int:
        """Lowest `end_number` of the episodes."""
        return min([summary.first_end for summary in self.summaries])

    @property
    def last_end(self) -> int:
        """Highest `end_number` of the episodes."""
        return max([summary.last_end for summary in self.summaries])

    @property
    def episodes(self) -> int:
        """Number of ended episodes, of every kind."""
        return sum([summary.episodes for summary in self.summaries])

    @cached_property
    def causes(self) -> Mapping[str, int]:
        """Endings by kind (see `episodes.attempts.rule.KIND`)."""
        return counts_added([summary.causes for summary in self.summaries])

    @cached_property
    def coverage(self) -> Coverage:
        return coverage_of(self.causes, self.definition.convention)

    @cached_property
    def _counted(self) -> Sequence[Distributions]:
        """Distributions whose lengths count: first the own ones, then those of expired rollouts if
        these count."""
        own = [summary.own for summary in self.summaries]
        if self.definition.convention.expired == "out":
            return own
        return own + [summary.expired for summary in self.summaries if summary.expired]

    @property
    def _returned(self) -> Sequence[Distributions]:
        """Distributions whose returns count."""
        keeps = self.definition.convention.expired == "keep"
        return self._counted if keeps else self._counted[: len(self.summaries)]

    @property
    def return_sketches(self) -> list[Sketch]:
        """`returns` before they are merged, one sketch or more."""
        sketches = [part.returns[self.definition.return_] for part in self._returned]
        treatments = self.definition.convention.treatments
        zeros = sum(
            [count for kind, count in self.causes.items() if treatments.get(kind) == "zero"]
        )
        return [*sketches, [(0.0, zeros)]] if zeros else sketches

    @cached_property
    def returns(self) -> Sketch:
        """Returns that count, those that count as 0 included."""
        sketches = list[Sketch]()
        for summary in self.parts or (self,):
            has_merged = "returns" in vars(summary)
            sketches += [summary.returns] if has_merged else summary.return_sketches
        return merged_if_several(sketches)

    @property
    def scatter(self) -> float:
        """Scatter of `returns` (see `sketches.py`); 0.0 if they are exact."""
        return math.hypot(
            *[part.scatters.get(self.definition.return_, 0.0) for part in self._returned]
        )

    @cached_property
    def lengths(self) -> Sketch:
        """Lengths of the rollouts that count, without infrastructure failures."""
        lengths = [part.lengths for part in self._counted]
        no_calls = self.causes.get(NO_CALL, 0)
        if no_calls and self.definition.convention.no_call != "out":
            lengths.append([(0.0, no_calls)])
        return merged_if_several(lengths)

    @property
    def calls(self) -> CallCounts:
        """Calls of the rollouts whose lengths count."""
        return calls_together([part.calls for part in self._counted])

    @property
    def groups(self) -> Sequence[GroupTally]:
        """Groups, for the spans of a run, in parts."""
        return [summary.groups for summary in self.summaries if summary.groups.signatures]


def judged_together(parts: Sequence[JudgedSummary]) -> JudgedSummary:
    """Merge one summary or more that follow the same definition."""
    if len(parts) == 1:
        return parts[0]
    return JudgedSummary(
        parts[0].definition, [summary for part in parts for summary in part.summaries], parts
    )


def merged_if_several(sketches: Sequence[Sketch]) -> Sketch:
    """Merge one sketch or more."""
    return merged(sketches) if len(sketches) > 1 else list(sketches[0])


def _merged(parts: Sequence[Distributions]) -> Distributions:
    returns = {name: merged(part.returns[name] for part in parts) for name in parts[0].returns}
    names = {name for part in parts for name in part.scatters}
    scatters = {
        name: math.hypot(*(part.scatters.get(name, 0.0) for part in parts)) for name in names
    }
    return Distributions(
        returns,
        merged(part.lengths for part in parts),
        calls_together([part.calls for part in parts]),
        scatters,
    )


def calls_together(parts: Sequence[CallCounts]) -> CallCounts:
    return CallCounts(sum([part.failed for part in parts]), sum([part.refused for part in parts]))


def returns_sketch(returns: Iterable[float | None]) -> Sketch:
    """Return the exact sketch of the returns that are not None, huge ones bounded."""
    sketch = sketch_of([value for value in returns if value is not None])
    # only the outermost values can be too large for sums
    if sketch and (
        bounded(sketch[0][0]) != sketch[0][0] or bounded(sketch[-1][0]) != sketch[-1][0]
    ):
        return merged([[(bounded(value), count) for value, count in sketch]])
    return sketch


EndedReturn = tuple[str, float | None]
"""Kind of an ending (see `episodes.attempts.rule.KIND`), and the episode's own return."""


def returns_counted(endings: Iterable[EndedReturn], convention: Convention) -> list[float | None]:
    """Return the returns that count by the convention, huge ones bounded: 0.0 for those that count
    as 0; None without a return."""
    treatments = convention.treatments
    returns = list[float | None]()
    for kind, value in endings:
        treatment = treatments.get(kind, "keep")
        if treatment == "zero":
            returns.append(0.0)
        elif treatment == "keep":
            returns.append(value if value is None else bounded(value))
    return returns


def coverage_from(endings: Iterable[EndedReturn], convention: Convention) -> Coverage:
    return coverage_of(Counter(kind for kind, _ in endings), convention)


def figures_from(endings: Sequence[EndedReturn], definition: Definition) -> dict[str, Any]:
    """Return the fields of `Figures` for these endings, of which those count that the convention
    counts."""
    returns = returns_counted(endings, definition.convention)
    sketch = returns_sketch(returns)
    return {
        "n": len(returns),
        "coverage": coverage_from(endings, definition.convention),
        "scored": count_of(sketch),
        "mean": mean_of(sketch),
        "successes": above(sketch, definition.bar),
    }
