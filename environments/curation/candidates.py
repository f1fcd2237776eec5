"""Candidates: rows of an index that lead to tasks, walked in order by keyset. Under every batch of a selection.

What a selection asks beyond that index is asked of some hundred or thousand rows at a time, so that no query reads the
whole of a table however few tasks there are to be found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import BooleanField, Count, F, Max, Min, OuterRef, Q, QuerySet, Subquery, Value

from environments.models import Task

SMALL_SPAN = 200

Key = int


class Candidate(NamedTuple):
    key: Key
    task: int


@dataclass(frozen=True, slots=True)
class Span:
    """A number of candidates that follow each other."""

    end: Key | None
    """Key of the last; None: there are none."""
    count: int
    hits: list[Candidate]
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
    ) -> list[Candidate]:
        """The first `most` beyond `after`, in order; up to `end` and only those that fit, where these are given."""
        rows = self._beyond(after, end, backward)
        rows = rows if fits is None else rows.filter(fits)
        return [Candidate(*row) for row in rows.values_list(self.key, self.task)[:most]]

    def _small_span(self, fits: Subquery, after: Key | None, count: int, most: int, *, backward: bool) -> Span:
        """A span that is read in one query, for it is mostly the only one."""
        rows = self._beyond(after, None, backward).annotate(fits=fits)
        told = list(rows.values_list(self.key, self.task, "fits")[:count])
        hits = [Candidate(key, task) for key, task, is_hit in told if is_hit]
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
