"""Slack: by how much a rate of success may be off that was reckoned from blocks. Read by curves and histograms.

A block keeps more than some values as groups of neighbours under their mean (`sketches.py`). No group reaches across
the class's threshold, nor across the one that was in force when the block was written, so success by the class's is
exact; another threshold may cut through the group on either side of it.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter

from environments.scoring.definition import Definition
from episodes.analytics.summary_cover import SummaryCover
from episodes.attempts.sketches import count_of

LARGEST_GROUP = 1 / 14
"""Share of a sketch: what holds more is one value that many share."""
MIN_TOLD = 0.0005


def slack_of(found: SummaryCover, definition: Definition) -> float:
    """Share of all attempts, 0 to 1; 0 where the rate is exact."""
    if not found.blocks or definition.is_edge:
        return 0.0
    below = above = 0
    for block in found.blocks:
        sketch = block.summary.returns[definition.return_]
        most = LARGEST_GROUP * count_of(sketch)
        place = bisect_right(sketch, definition.threshold, key=itemgetter(0))
        below += sum(_mixed(count, most) for _, count in sketch[max(0, place - 1) : place])
        above += sum(_mixed(count, most) for _, count in sketch[place : place + 1])
    attempts = sum(block.summary.attempts for block in found.blocks) + len(found.rows)
    share = max(below, above) / max(1, attempts)
    return share if share >= MIN_TOLD else 0.0


def sentence_of(slack: float, definition: Definition) -> str:
    """Empty where the rate is exact."""
    if not slack:
        return ""
    told = f"{100 * slack:.1f}" if slack < 0.1 else f"{100 * slack:.0f}"
    threshold = f"{definition.threshold:g}"
    return (
        f"Of older episodes not every return is kept: success above {threshold} may be off by up to {told} % of them."
    )


def _mixed(count: int, most: float) -> int:
    """Of a pair beside the threshold, how many may belong to its other side."""
    return count - 1 if count <= most else 0
