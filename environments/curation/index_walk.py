"""One walk along candidates (rows of an index that lead to tasks) in order by keyset, with the
tasks that it found.

Every batch of a selection is read by one. Candidates are read in spans; whether their tasks satisfy
the rest of the selection is asked in one query for some hundred or thousand of them, so that no
query reads a whole table however few tasks match. After a span without a match, the indexes of the
other filters say where their next tasks are, and the walk continues at the furthest of them,
because nothing before it can match. So a long stretch without any match costs one query for each
filter, whatever its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Literal, NamedTuple

from django.db.models import (
    BooleanField,
    Count,
    F,
    Max,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
)

from environments.database.storable import id_in
from environments.models import Task

MAX_ONE_QUERY_SPAN = 200
"""Candidates that are read and tested in one query; longer spans take one query to be measured and
one to be tested."""

Key = int
"""A position in a split, or a task's id."""


class TaskCandidate(NamedTuple):
    key: Key
    task: int


@dataclass(frozen=True, slots=True)
class Span:
    """A number of consecutive candidates."""

    end: Key | None
    """Key of the last candidate; None: the span is empty."""
    count: int
    hits: list[TaskCandidate]
    """Candidates whose tasks match, in order."""


@dataclass(frozen=True, slots=True)
class Candidates:
    rows: QuerySet[Any]
    key: str
    """A field whose order an index holds."""
    task: str
    """The field with the task's id."""
    is_rising: bool = False
    """Whether they are read from low keys to high keys instead of from high to low."""

    def fits(self, condition: Q) -> Subquery:
        """Return an expression on a row: true if its task satisfies the condition, else null."""
        # a value instead of EXISTS, which a database may turn into a join or into a table of all
        # tasks that satisfy the condition: this one is computed for each row by the task's key
        fitting = (
            Task.objects.filter(condition, pk=OuterRef(self.task))
            .order_by()
            .values(fits=Value(True))
        )
        return Subquery(fitting, output_field=BooleanField())

    def span(
        self, fits: Subquery, after: Key | None, count: int, most: int, *, backward: bool
    ) -> Span:
        """Return the next `count` candidates after the key `after` (None: from the start), with at
        most `most` hits."""
        if count <= MAX_ONE_QUERY_SPAN:
            # read and tested in one query, because most walks end within their first span
            rows = self._beyond(after, None, backward).annotate(fits=fits)
            candidates = list(rows.values_list(self.key, self.task, "fits")[:count])
            hits = [TaskCandidate(key, task) for key, task, is_hit in candidates if is_hit]
            return Span(candidates[-1][0] if candidates else None, len(candidates), hits[:most])
        keys = self._beyond(after, None, backward).values(at=F(self.key))[:count]
        facts = keys.aggregate(
            end=(Max if self._is_rising(backward) else Min)("at"), count=Count("at")
        )
        if facts["end"] is None:
            return Span(None, 0, [])
        hits = self.first(after, most, fits, facts["end"], backward=backward)
        return Span(facts["end"], facts["count"], hits)

    def first(
        self,
        after: Key | None,
        most: int,
        fits: Subquery | None = None,
        end: Key | None = None,
        *,
        backward: bool,
    ) -> list[TaskCandidate]:
        """Return the first `most` candidates after `after`, in order; up to the key `end`; with
        `fits` only matches."""
        rows = self._beyond(after, end, backward)
        rows = rows if fits is None else rows.filter(fits)
        return [TaskCandidate(*row) for row in rows.values_list(self.key, self.task)[:most]]

    def nearest(self, task: int, *, rising: bool) -> int | None:
        """Return the id of the first task after `task`, for candidates whose key is the task's
        id."""
        rows = self.rows.filter(**{f"{self.task}__{'gt' if rising else 'lt'}": task})
        task_id: int | None = (
            rows.order_by(self.task if rising else f"-{self.task}")
            .values_list(self.task, flat=True)
            .first()
        )
        return task_id

    def size(self, most: int) -> int:
        """Return the number of candidates, counted up to `most`."""
        return self.rows.order_by().values(self.task)[:most].count()

    def tasks(self, most: int) -> list[int]:
        """Return the ids of at most `most` tasks, in no particular order."""
        return list(self.rows.order_by().values_list(self.task, flat=True)[:most])

    def _beyond(self, after: Key | None, end: Key | None, backward: bool) -> QuerySet[Any]:
        rising = self._is_rising(backward)
        rows = (
            self.rows
            if after is None
            else self.rows.filter(**{f"{self.key}__{'gt' if rising else 'lt'}": after})
        )
        rows = (
            rows
            if end is None
            else rows.filter(**{f"{self.key}__{'lte' if rising else 'gte'}": end})
        )
        return rows.order_by(self.key if rising else f"-{self.key}")

    def _is_rising(self, backward: bool) -> bool:
        return self.is_rising != backward


Order = Literal["newest", "split", "sorted"]
"""Newest task first, the order in which agents get the tasks of the split, or sorted by a
column."""

_MARKS: dict[Order, str] = {"newest": "n", "sorted": "r", "split": ""}


@dataclass(frozen=True, slots=True)
class WalkCursor:
    """Where a page of tasks starts or ends, as text for an address: `1200` is a position in a
    split, `n1200` an id, `r1200` a rank in a sorted list."""

    key: int | None
    """A position, a task's id or a rank; None: the very start."""
    order: Order | None = None
    """None: the text held no cursor."""

    @classmethod
    def parse(cls, text: str) -> WalkCursor:
        """Return the cursor in `text`; the very start if it holds none."""
        order = next(order for order, mark in _MARKS.items() if text.startswith(mark))
        digits = text.removeprefix(_MARKS[order])
        return cls(None) if id_in(digits.removeprefix("-")) is None else cls(int(digits), order)

    def __str__(self) -> str:
        return "" if self.key is None else f"{_MARKS[self.order or 'split']}{self.key}"


SPANS = (200, 800, 2000, 5000)
"""Candidates in the first, second, … span: few at first, because a page is mostly full after
one."""
MAX_QUICK_SECONDS = 0.01
"""Where time is limited, a span is followed by a longer one only if it took less than this."""


clock = monotonic
"""The clock that limits the time of a walk; benchmarks replace it by one of CPU time."""


def deadline(seconds: float | None) -> float | None:
    """Return the moment of `clock` in `seconds`; None: no limit."""
    return None if seconds is None else clock() + seconds


class Walk:
    """`condition` on Task is what the selection asks beyond the candidates themselves. `others` are
    further candidates that have to lead to the same task, all by its id; there are none where
    `candidates` have another key. `is_few`: all candidates fit into one span.
    """

    def __init__(
        self,
        candidates: Candidates,
        condition: Q,
        others: Sequence[Candidates] = (),
        *,
        is_few: bool = False,
    ) -> None:
        self._candidates, self._others = candidates, others
        self._fits = candidates.fits(condition) if condition else None
        self._is_few = is_few
        self.found: list[TaskCandidate] = []
        """Candidates that match, in the direction of the walk."""
        self.at: Key | None = None
        """Key at which the walk ended: of the last match, or of the last candidate that was
        tested."""
        self.seen = 0
        """Number of candidates that were tested."""
        self.is_last = False
        """Whether nothing comes after `at`."""

    def find(
        self,
        limit: int,
        start: Key | None = None,
        *,
        backward: bool = False,
        until: float | None = None,
        most: int | None = None,
    ) -> None:
        """Walk until `limit` matches are found, until the moment `until` of `clock`, or until
        `most` were tested."""
        self.at, sizes = start, 0
        while not self.is_last and len(self.found) < limit:
            start_time, before, count = clock(), self.at, len(self.found)
            self._take(SPANS[sizes], limit, backward)
            is_quick = until is None or clock() - start_time < MAX_QUICK_SECONDS
            if len(self.found) == count and self._skip(before, backward):
                sizes = 0
            elif is_quick:
                sizes = min(sizes + 1, len(SPANS) - 1)
            if (until is not None and clock() > until) or (most is not None and self.seen >= most):
                return

    def _take(self, size: int, limit: int, backward: bool) -> None:
        """Test one span; where there are few candidates or no condition, read all matches at
        once."""
        room, end = limit - len(self.found), None
        if self._fits is None or self._is_few:
            hits = self._candidates.first(self.at, room + 1, self._fits, backward=backward)
            self.seen, self.is_last = self.seen + len(hits[:room]), True
        else:
            span = self._candidates.span(self._fits, self.at, size, room + 1, backward=backward)
            hits, end, self.seen, self.is_last = (
                span.hits,
                span.end,
                self.seen + span.count,
                span.count < size,
            )
        has_more = len(hits) > room
        self.found += hits[:room]
        self.is_last &= not has_more
        if not has_more and end is not None:
            self.at = end
        elif hits:
            self.at = self.found[-1].key

    def _skip(self, before: Key | None, backward: bool) -> bool:
        """Move to where all other filters have their next task; whether that is further than the
        span from `before`."""
        if self.at is None or self.is_last:
            return False
        at, step = self.at, 1 if backward else -1  # by id, the newest first
        for other in self._others:
            nearest = other.nearest(at, rising=backward)
            if nearest is None:
                self.is_last = True
                return False
            at = nearest - step if (nearest - step - at) * step > 0 else at
        walk_length, skip_length = 0 if before is None else abs(self.at - before), abs(at - self.at)
        self.at = at
        return skip_length > walk_length
