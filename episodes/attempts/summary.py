"""Summary: what endings of a scope say together, from the endings themselves or from CurveBlocks or StepSpans. Pure.

Made by `follower/blocks.py` and `follower/spans.py`, which keep it, and read by `analytics/`, for points of curves.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from episodes.attempts.endings import Ending, bounded
from episodes.attempts.sketches import Sketch, compressed, merged, sketch_of

RETURNS = ("return_sum", "return_last", "return_max", "return_mean")
SKETCHES = (*RETURNS, "length")
FACTS = ("first_end", "last_end", "began", "ended", "episodes", "attempts", "causes", "steps")
"""Fields of a Summary and columns of CurveBlock and StepSpan, besides the sketches."""


@dataclass(frozen=True, slots=True)
class Summary:
    """One ending or more."""

    first_end: int
    last_end: int
    began: float
    """Seconds since the epoch at which the first of them ended."""
    ended: float
    episodes: int
    attempts: int
    causes: dict[str, int]
    """Endings by kind, as `endings.py` says."""
    steps: int
    """Of the attempts."""
    sketches: dict[str, Sketch]
    """Of the attempts, by name of SKETCHES; those that were asked for."""

    def compressed(self, edges: Sequence[float]) -> Summary:
        """With small sketches. `edges`: thresholds of success, ascending, which groups of returns do not cross."""
        sketches = {
            name: compressed(sketch, () if name == "length" else edges) for name, sketch in self.sketches.items()
        }
        facts = {name: getattr(self, name) for name in FACTS}
        return Summary(**facts, sketches=sketches)


def summary_of(endings: Sequence[Ending], names: Sequence[str] = SKETCHES) -> Summary:
    """Of one ending or more, in their order; its sketches are exact."""
    attempts = [ending for ending in endings if ending.is_attempt]
    times = [ending.ended for ending in endings]
    return Summary(
        first_end=min(ending.number for ending in endings),
        last_end=max(ending.number for ending in endings),
        began=min(times),
        ended=max(times),
        episodes=len(endings),
        attempts=len(attempts),
        causes=dict(Counter(ending.kind for ending in endings)),
        steps=sum(ending.steps for ending in attempts),
        sketches={name: _sketch(attempts, name) for name in names},
    )


def _sketch(attempts: Iterable[Ending], name: str) -> Sketch:
    if name == "length":
        return sketch_of(float(ending.steps) for ending in attempts)
    values = (getattr(ending, name) for ending in attempts)
    return sketch_of(bounded(value) for value in values if value is not None)


def together(summaries: Sequence[Summary]) -> Summary:
    """One of all of them, one or more, that have the same sketches."""
    if len(summaries) == 1:
        return summaries[0]
    causes: Counter[str] = Counter()
    for one in summaries:
        causes.update(one.causes)
    return Summary(
        first_end=min(one.first_end for one in summaries),
        last_end=max(one.last_end for one in summaries),
        began=min(one.began for one in summaries),
        ended=max(one.ended for one in summaries),
        episodes=sum(one.episodes for one in summaries),
        attempts=sum(one.attempts for one in summaries),
        causes=dict(causes),
        steps=sum(one.steps for one in summaries),
        sketches={name: merged(one.sketches[name] for one in summaries) for name in summaries[0].sketches},
    )


def read_summary(row: Sequence[Any], names: Sequence[str]) -> Summary:
    """Of columns FACTS (times as seconds since the epoch) and then `names`."""
    facts: dict[str, Any] = dict(zip(FACTS, row, strict=False))
    facts["causes"] = json.loads(facts["causes"])
    texts = row[len(FACTS) :]
    return Summary(**facts, sketches={name: json.loads(text) for name, text in zip(names, texts, strict=True)})
