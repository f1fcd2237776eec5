"""Candidates: rows of an index that lead to tasks, walked in order by keyset. Under every batch of a selection.

What a selection asks beyond that index is asked of some hundred or thousand rows at a time, so that no query reads the
whole of a table however few tasks there are to be found.

Cursor: where a page of tasks begins or ends, as its address has it: `1200` is a place in a split, `n1200` an id.

Look: one walk along candidates, with what it found. Under every batch of a selection.

Candidates go by in spans, each asked about in one query. After a span in which nothing was found, the ways of the other
filters say where their next tasks are, and the walk goes on at the furthest of them: between two of those there is
nothing to be found. So long stretches without any match cost a query each, whatever their length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Literal, NamedTuple

from django.db.models import BooleanField, Count, F, Max, Min, OuterRef, Q, QuerySet, Subquery, Value

from environments.models import Task

SMALL_SPAN = 200

Key = int


class TaskCandidate(NamedTuple):
    key: Key
    task: int


@dataclass(frozen=True, slots=True)
class Span:
    """A number of candidates that follow each other."""

    end: Key | None
    """Key of the last; None: there are none."""
    count: int
    hits: list[TaskCandidate]
    """Those that fit, in order."""


@dataclass(frozen=True, slots=True)
class Candidates:
    rows: QuerySet[Any]
    key: str
    """A field that an index holds in order."""
    task: str
    """The field with the task's id."""
    is_rising: bool = False
    """From low keys to high ones; else the other way."""

    def fits(self, condition: Q) -> Subquery:
        """Whether a row's task satisfies the condition: true, or null."""
        # a value, not EXISTS, which a database may turn into a join or a table of all tasks that satisfy the condition:
        # this is asked of each row by the task's key
        fitting = Task.objects.filter(condition, pk=OuterRef(self.task)).order_by().values(fits=Value(True))
        return Subquery(fitting, output_field=BooleanField())

    def span(self, fits: Subquery, after: Key | None, count: int, most: int, *, backward: bool) -> Span:
        """The next `count` beyond the key, in the direction asked; from the very end without one. `most`: hits."""
        if count <= SMALL_SPAN:
            return self._small_span(fits, after, count, most, backward=backward)
        keys = self._beyond(after, None, backward).values(at=F(self.key))[:count]
        found = keys.aggregate(end=(Max if self._is_rising(backward) else Min)("at"), count=Count("at"))
        if found["end"] is None:
            return Span(None, 0, [])
        hits = self.first(after, most, fits, found["end"], backward=backward)
        return Span(found["end"], found["count"], hits)

    def first(
        self, after: Key | None, most: int, fits: Subquery | None = None, end: Key | None = None, *, backward: bool
    ) -> list[TaskCandidate]:
        """The first `most` beyond `after`, in order; up to `end` and only those that fit, where these are given."""
        rows = self._beyond(after, end, backward)
        rows = rows if fits is None else rows.filter(fits)
        return [TaskCandidate(*row) for row in rows.values_list(self.key, self.task)[:most]]

    def _small_span(self, fits: Subquery, after: Key | None, count: int, most: int, *, backward: bool) -> Span:
        """A span that is read in one query, for it is mostly the only one."""
        rows = self._beyond(after, None, backward).annotate(fits=fits)
        told = list(rows.values_list(self.key, self.task, "fits")[:count])
        hits = [TaskCandidate(key, task) for key, task, is_hit in told if is_hit]
        return Span(told[-1][0] if told else None, len(told), hits[:most])

    def nearest(self, task: int, *, rising: bool) -> int | None:
        """The first task beyond `task`, of candidates that go by the task's id."""
        rows = self.rows.filter(**{f"{self.task}__{'gt' if rising else 'lt'}": task})
        found: int | None = (
            rows.order_by(self.task if rising else f"-{self.task}").values_list(self.task, flat=True).first()
        )
        return found

    def size(self, most: int) -> int:
        """How many there are, counted up to `most`."""
        return self.rows.order_by().values(self.task)[:most].count()

    def tasks(self, most: int) -> list[int]:
        return list(self.rows.order_by().values_list(self.task, flat=True)[:most])

    def _beyond(self, after: Key | None, end: Key | None, backward: bool) -> QuerySet[Any]:
        rising = self._is_rising(backward)
        rows = self.rows if after is None else self.rows.filter(**{f"{self.key}__{'gt' if rising else 'lt'}": after})
        rows = rows if end is None else rows.filter(**{f"{self.key}__{'lte' if rising else 'gte'}": end})
        return rows.order_by(self.key if rising else f"-{self.key}")

    def _is_rising(self, backward: bool) -> bool:
        return self.is_rising != backward


Order = Literal["newest", "split"]
"""Newest first, or as agents get them from the split."""

_MARK = "n"


@dataclass(frozen=True, slots=True)
class WalkCursor:
    key: int | None
    """A place or a task's id; None: from the very end."""
    order: Order | None = None
    """None: of neither, nothing was read."""

    @classmethod
    def parse(cls, text: str) -> WalkCursor:
        """What cannot be read counts as none."""
        digits = text.removeprefix(_MARK).removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 19):
            return cls(None)
        return cls(int(text.removeprefix(_MARK)), "newest" if text.startswith(_MARK) else "split")

    def __str__(self) -> str:
        return "" if self.key is None else f"{_MARK if self.order == 'newest' else ''}{self.key}"


SPANS = (200, 800, 2000, 5000)
"""Candidates asked about together: few at first, for mostly they are found at once."""
QUICK_SECONDS = 0.01
"""Where time is limited, a span is followed by a larger one only if it took less than this."""


clock = monotonic
"""The clock by which the time of a look is limited."""


class Walk:
    """`condition` on Task: what is asked beyond the candidates themselves. `others`: further ways that have to lead to
    a task, by its id; of none with candidates that go by another key. `is_few`: all candidates fit one span.
    """

    def __init__(
        self, candidates: Candidates, condition: Q, others: Sequence[Candidates] = (), *, is_few: bool = False
    ) -> None:
        self._candidates, self._others = candidates, others
        self._fits = candidates.fits(condition) if condition else None
        self._is_few = is_few
        self.found: list[TaskCandidate] = []
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
