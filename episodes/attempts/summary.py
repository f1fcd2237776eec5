"""Summary of some endings: their number, causes, and the distributions of returns and lengths.

The follower makes summaries from endings and stores them in CurveBlock and StepSpan rows (`episodes/rollups`);
analytics merges them into curves, histograms and outlines. Pure: nothing here reads the database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from environments.scoring.returns import Return
from episodes.attempts.endings import bounded
from episodes.attempts.sketches import Sketch, above, compressed, count_of, mean_of, merged, sketch_of


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary of one ending or more."""

    first_end: int
    """Lowest `end_number` of the episodes."""
    last_end: int
    """Highest `end_number` of the episodes."""
    episodes: int
    """Number of ended episodes, of every kind."""
    attempts: int
    causes: Mapping[str, int]
    """Endings by kind (see `episodes.attempts.rule.KIND`)."""
    returns: Mapping[Return, Sketch]
    """Returns of the attempts, for each definition of return that was read."""
    lengths: Sketch
    """Steps that ran in each attempt."""

    def compressed(self, edges: Sequence[float]) -> Summary:
        """Return the summary with small sketches.

        `edges`: thresholds of success, ascending, which no group of returns crosses.
        """
        returns = {name: compressed(sketch, edges) for name, sketch in self.returns.items()}
        return replace(self, returns=returns, lengths=compressed(self.lengths))


def together(summaries: Sequence[Summary]) -> Summary:
    """Merge one summary or more, which all have the same definitions of return."""
    if len(summaries) == 1:
        return summaries[0]
    causes: Counter[str] = Counter()
    for one in summaries:
        causes.update(one.causes)
    return Summary(
        first_end=min(one.first_end for one in summaries),
        last_end=max(one.last_end for one in summaries),
        episodes=sum(one.episodes for one in summaries),
        attempts=sum(one.attempts for one in summaries),
        causes=dict(causes),
        returns={name: merged(one.returns[name] for one in summaries) for name in summaries[0].returns},
        lengths=merged(one.lengths for one in summaries),
    )


def returns_sketch(returns: Iterable[float | None]) -> Sketch:
    """Return the exact sketch of the returns that are not None, huge ones bounded."""
    sketch = sketch_of([value for value in returns if value is not None])
    # only the outermost values can be too large for sums
    if sketch and (bounded(sketch[0][0]) != sketch[0][0] or bounded(sketch[-1][0]) != sketch[-1][0]):
        return merged([[(bounded(value), count) for value, count in sketch]])
    return sketch


def figures_from(returns: Sequence[float | None], threshold: float) -> dict[str, Any]:
    """Return the fields of `Figures` for attempts with these returns; None stands for an attempt without a return."""
    sketch = returns_sketch(returns)
    return {
        "n": len(returns),
        "scored": count_of(sketch),
        "mean": mean_of(sketch),
        "successes": above(sketch, threshold),
    }
