"""Bounds of the error of a success rate that was computed from blocks, for curves and histograms.

The mean and its standard error need none: both are exact (`attempts/sketches.py`).

When a block has many distinct returns, it stores groups of neighbours under their mean
(`attempts/sketches.py`). No group reaches across the class's threshold, nor across the one that was
in force when the block was written, so success by the class's threshold is exact. Another threshold
may cut through the groups on either side of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter

from environments.display.numbers import threshold_text
from environments.scoring.definition import Definition, Definitions
from episodes.attempts.sketches import Sketch, count_of
from episodes.figures.summary_cover import SummaryCover

MAX_GROUP_SHARE = 1 / 14
"""A pair with a larger share of its sketch is a single value that many episodes share."""
MIXED_PAIRS = 2
"""Pairs on either side of a threshold with values that may lie on its other side. In a block of the
lowest level that is one pair; blocks and spans that were merged from others have grouped pairs that
were means already.
"""
MIN_SHOWN = 0.0005
"""Smaller bounds count as 0."""


def error_bound_of(cover: SummaryCover, definitions: Definitions) -> float:
    """Return by how much the success rate may be off, as a share of all attempts, 0 to 1; 0 if the
    rate is exact."""
    environments = {pk for block in cover.blocks for pk, _ in block.pairs}
    if all(definitions.of(pk).is_edge for pk in environments):
        return 0.0
    below = above = attempts = 0
    for sketch, definition in _sketches(cover, definitions):
        count = count_of(sketch)
        attempts += count
        if definition.is_edge:
            continue
        most = MAX_GROUP_SHARE * count
        place = bisect_right(sketch, definition.bar, key=itemgetter(0))
        below += sum(
            _mixed(count, most) for _, count in sketch[max(0, place - MIXED_PAIRS) : place]
        )
        above += sum(_mixed(count, most) for _, count in sketch[place : place + MIXED_PAIRS])
    share = max(below, above) / max(1, attempts + len(cover.rows))
    return share if share >= MIN_SHOWN else 0.0


def _sketches(cover: SummaryCover, definitions: Definitions) -> Iterator[tuple[Sketch, Definition]]:
    """Yield the sketches of returns in the blocks that count with their own return, each with its
    definition."""
    for block in cover.blocks:
        for environment, summary in block.pairs:
            definition = definitions.of(environment)
            yield list(summary.own.returns[definition.return_]), definition
            if summary.expired and definition.convention.expired == "keep":
                yield summary.expired.returns[definition.return_], definition


def sentence_of(error: float, definitions: Definitions) -> str:
    """Return a sentence about the bound for pages; empty if the rate is exact."""
    if not error:
        return ""
    percent = f"{100 * error:.1f}" if error < 0.1 else f"{100 * error:.0f}"
    above = (
        f" above {threshold_text(definitions.threshold)}"
        if isinstance(definitions, Definition)
        else ""
    )
    return (
        f"Not every return of older episodes is stored: success{above} may be off by up to "
        f"{percent} % of them."
    )


def _mixed(count: int, most: float) -> int:
    """Return how many values of a pair next to the threshold may lie on its other side."""
    return count - 1 if count <= most else 0
