"""Outline: all endings of a scope as one set of figures and the few means of a sparkline. For lists of scopes.

A list draws dozens of them, so here nothing is computed for a point but its mean; `curve.py` makes whole points.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from episodes.analytics.cover import LEAST_RAW, Cover, cover
from episodes.analytics.curve import Part, parts_of
from episodes.analytics.definition import Definition
from episodes.analytics.figures import Figures, figures_of
from episodes.analytics.scope import Scope
from episodes.analytics.tally import Tally, tally_of, together
from episodes.endings import NO_ATTEMPTS

POINTS = 40
"""At most."""


@dataclass(frozen=True, slots=True)
class Outline:
    total: Figures | None
    """Of all endings; None without one."""
    excluded: dict[str, int]
    """Probes, continuations and failures of the machinery, by cause, most first: they count in no other figure."""
    means: Sequence[float | None]
    """Of the returns from the first ending to the last, POINTS at most; None where no attempt has one."""
    is_bounded: bool
    """Whether older endings are missing."""


def covers_of(scopes: Sequence[Scope], definition: Definition, least_blocks: int) -> list[Cover]:
    """What outlines are made of, of the definition's return. Five queries at most, whatever the number of scopes."""
    return cover(scopes, definition, least_blocks=least_blocks, most_rows=LEAST_RAW)


def outline_of(found: Cover, definition: Definition) -> Outline:
    """Of what was read for the definition's return; the threshold may be another."""
    points = [_tallies(part) for part in parts_of(found, POINTS)]
    total = together(list(chain.from_iterable(points))) if points else None
    causes = Counter(total.causes if total else {})
    return Outline(
        total=figures_of(total, definition) if total else None,
        excluded={cause: count for cause, count in causes.most_common() if cause in NO_ATTEMPTS},
        means=[_mean(tallies) for tallies in points],
        is_bounded=found.is_bounded,
    )


def _tallies(part: Part) -> list[Tally]:
    blocks, rows = part
    tallies = [tally for _, _, tally in blocks]
    return [*tallies, tally_of([row for _, row in rows])] if rows else tallies


def _mean(tallies: Sequence[Tally]) -> float | None:
    """Without the merging of sketches that other figures need."""
    returns = [pair for tally in tallies for pair in tally.returns]
    count = sum([many for _, many in returns])
    return math.fsum([value * many for value, many in returns]) / count if count else None
