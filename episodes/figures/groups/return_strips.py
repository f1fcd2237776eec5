"""The returns of groups as dots on a line, on the same scale for all groups of an environment on a
page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt

from environments.display.numbers import plain, signed
from episodes.figures.groups.groups import GroupLine

WIDTH, HEIGHT = 120, 16
MARGIN = 7
"""Beside the outermost dots, as far as the largest one reaches."""
MIN_RADIUS, MAX_RADIUS = 2.2, MARGIN
MAX_NAMED = 8
"""Returns that the text of a strip names."""


@dataclass(frozen=True, slots=True)
class Dot:
    """Attempts whose returns are at the same pixel."""

    x: int
    radius: float
    """Its square is proportional to their number."""
    is_success: bool


@dataclass(frozen=True, slots=True)
class ReturnStrip:
    dots: Sequence[Dot]
    threshold: float | None
    """Where success begins; None beyond the scale."""
    words: str
    """What it shows, such as `+0.85 (6), +1.05 (2)`."""


class ReturnScale:
    """The scale of the returns of some groups."""

    def __init__(self, lines: Iterable[GroupLine]) -> None:
        returns = [value for line in lines for value in line.returns]
        self._low, self._high = min(returns, default=0.0), max(returns, default=0.0)

    def place(self, value: float) -> float:
        # halves cannot overflow
        span = self._high / 2 - self._low / 2
        share = (value / 2 - self._low / 2) / span if span else 0.5
        return MARGIN + share * (WIDTH - 2 * MARGIN)

    def strip(self, line: GroupLine) -> ReturnStrip:
        """Return the strip of one of the groups."""
        is_success = line.definition.is_success
        counts = Counter((round(self.place(value)), is_success(value)) for value in line.returns)
        values = Counter(signed(value) for value in sorted(line.returns))
        texts = [f"{value} ({count})" for value, count in list(values.items())[:MAX_NAMED]]
        texts += [f"{len(values) - MAX_NAMED} more"] if len(values) > MAX_NAMED else []
        threshold = line.definition.threshold
        return ReturnStrip(
            dots=[
                Dot(x, round(min(MAX_RADIUS, MIN_RADIUS * sqrt(count)), 1), success)
                for (x, success), count in sorted(counts.items())
            ],
            threshold=round(self.place(threshold), 1)
            if self._low < threshold < self._high
            else None,
            words=f"{', '.join(texts)}; success above {plain(threshold)}",
        )
