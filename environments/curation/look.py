"""Look: one walk along candidates, with what it found. Under every batch of a selection.

Candidates go by in spans, each asked about in one query. After a span in which nothing was found, the ways of the other
filters say where their next tasks are, and the walk goes on at the furthest of them: between two of those there is
nothing to be found. So long stretches without any match cost a query each, whatever their length.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from django.db.models import Q

from environments.curation.candidates import Candidate, Candidates, Key

SPANS = (200, 800, 2000, 5000)
"""Candidates asked about together: few at first, for mostly they are found at once."""
QUICK_SECONDS = 0.01
"""Where time is limited, a span is followed by a larger one only if it took less than this."""


clock = monotonic
"""The clock by which the time of a look is limited."""


class Look:
    """`condition` on Task: what is asked beyond the candidates themselves. `others`: further ways that have to lead to
    a task, by its id; of none with candidates that go by another key. `is_few`: all candidates fit one span.
    """

    def __init__(
        self, candidates: Candidates, condition: Q, others: Sequence[Candidates] = (), *, is_few: bool = False
    ) -> None:
        self._candidates, self._others = candidates, others
        self._fits = candidates.fits(condition) if condition else None
        self._is_few = is_few
        self.found: list[Candidate] = []
        """Candidates that fit, in the direction of the walk."""
        self.at: Key | None = None
        """Where it ended: at the last one found, or at the last one looked at."""
        self.seen = 0
        self.is_last = False
        """Nothing comes after."""

    def find(
        self,
        limit: int,
        start: Key | None = None,
        *,
        backward: bool = False,
        until: float | None = None,
        most: int | None = None,
    ) -> None:
        """Walk until `limit` are found, until that moment of `clock`, or until `most` were looked at."""
        self.at, sizes = start, 0
        while not self.is_last and len(self.found) < limit:
            began, before, count = clock(), self.at, len(self.found)
            self._take(SPANS[sizes], limit, backward)
            is_quick = until is None or clock() - began < QUICK_SECONDS
            if len(self.found) == count and self._skip(before, backward):
                sizes = 0
            elif is_quick:
                sizes = min(sizes + 1, len(SPANS) - 1)
            if (until is not None and clock() > until) or (most is not None and self.seen >= most):
                return

    def _take(self, size: int, limit: int, backward: bool) -> None:
        """Look at one span; at all that there is, where it is few or nothing is asked of it."""
        wanted, end = limit - len(self.found), None
        if self._fits is None or self._is_few:
            hits = self._candidates.first(self.at, wanted + 1, self._fits, backward=backward)
            self.seen, self.is_last = self.seen + len(hits[:wanted]), True
        else:
            span = self._candidates.span(self._fits, self.at, size, wanted + 1, backward=backward)
            hits, end, self.seen, self.is_last = span.hits, span.end, self.seen + span.count, span.count < size
        has_more = len(hits) > wanted
        self.found += hits[:wanted]
        self.is_last &= not has_more
        if not has_more and end is not None:
            self.at = end
        elif hits:
            self.at = self.found[-1].key

    def _skip(self, before: Key | None, backward: bool) -> bool:
        """Go to where all other ways go on; whether that is further than what was looked at since `before`."""
        if self.at is None or self.is_last:
            return False
        at, step = self.at, 1 if backward else -1  # by id, the newest first
        for other in self._others:
            nearest = other.nearest(at, rising=backward)
            if nearest is None:
                self.is_last = True
                return False
            at = nearest - step if (nearest - step - at) * step > 0 else at
        walked, skipped = 0 if before is None else abs(self.at - before), abs(at - self.at)
        self.at = at
        return skipped > walked
