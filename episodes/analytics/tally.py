"""Tally: what endings say of one kind of return, from blocks or from rows of single endings. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from episodes.endings import NO_ATTEMPTS, bounded
from episodes.sketches import Sketch, merged, sketch_of

Row = tuple[int, str, int, float | None, float | None]
"""A single ending: its `end_number`, its cause or "probe", steps that ran, its return, and its place on the axis:
seconds since the epoch by time, the training step by step, its id by episode."""


@dataclass(frozen=True, slots=True)
class Tally:
    """One ending or more."""

    first_end: int
    last_end: int
    episodes: int
    attempts: int
    causes: dict[str, int]
    """Endings by kind, as `endings.py` says."""
    returns: Sketch
    """Of the attempts, as are the lengths."""
    lengths: Sketch
    """Steps that ran."""


def tally_of(rows: Sequence[Row]) -> Tally:
    """Of one row or more."""
    attempts = [row for row in rows if row[1] not in NO_ATTEMPTS]
    numbers = [row[0] for row in rows]
    return Tally(
        first_end=min(numbers),
        last_end=max(numbers),
        episodes=len(rows),
        attempts=len(attempts),
        causes=dict(Counter([row[1] for row in rows])),
        returns=_bounded(sketch_of([row[3] for row in attempts if row[3] is not None])),
        lengths=sketch_of([row[2] for row in attempts]),
    )


def together(tallies: Sequence[Tally]) -> Tally:
    """One of all of them, one or more."""
    if len(tallies) == 1:
        return tallies[0]
    causes: Counter[str] = Counter()
    for one in tallies:
        causes.update(one.causes)
    return Tally(
        first_end=min(one.first_end for one in tallies),
        last_end=max(one.last_end for one in tallies),
        episodes=sum(one.episodes for one in tallies),
        attempts=sum(one.attempts for one in tallies),
        causes=dict(causes),
        returns=merged(one.returns for one in tallies),
        lengths=merged(one.lengths for one in tallies),
    )


def _bounded(sketch: Sketch) -> Sketch:
    """Only the outermost values can be beyond what sums bear."""
    if sketch and (bounded(sketch[0][0]) != sketch[0][0] or bounded(sketch[-1][0]) != sketch[-1][0]):
        return merged([[(bounded(value), count) for value, count in sketch]])
    return sketch
