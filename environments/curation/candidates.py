"""Candidates: rows of an index that lead to tasks, walked in order by keyset. Under every batch of a selection.

What a selection asks beyond that index is asked of some hundred or thousand rows at a time, so that no query reads the
whole of a table however few tasks there are to be found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from django.db.models import BooleanField, Count, F, Max, Min, OuterRef, Q, QuerySet, Subquery, Value

from environments.models import Task

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


@dataclass(frozen=True, slots=True)
class Candidates:
    rows: QuerySet[Any]
    key: str
    """A field that an index holds in order."""
    task: str
    """The field with the task's id."""
    is_rising: bool = False
    """From low keys to high ones; else the other way."""

    @property
    def is_by_position(self) -> bool:
        return self.key == "position"

    def span(self, after: Key | None, count: int, *, backward: bool) -> Span:
        """The next `count` beyond the key, in the direction asked; from the very end without one."""
        rising = self.is_rising != backward
        end = (Max if rising else Min)("at")
        keys = self._beyond(after, None, rising).values(at=F(self.key))[:count]
        found = keys.aggregate(end=end, count=Count("at"))
        return Span(found["end"], found["count"])

    def where(self, condition: Q) -> Candidates:
        """Those whose task satisfies the condition."""
        # a value, not EXISTS, which a database may turn into a join or a table of all tasks that satisfy the condition:
        # this is asked of each row by the task's key
        fitting = Task.objects.filter(condition, pk=OuterRef(self.task)).order_by().values(fits=Value(True))
        fits = Subquery(fitting, output_field=BooleanField())
        return replace(self, rows=self.rows.filter(fits))

    def between(self, after: Key | None, end: Key | None, count: int, *, backward: bool) -> list[Candidate]:
        """Up to `count` of those beyond `after` and up to `end`, in order; None: without that bound."""
        rows = self._beyond(after, end, self.is_rising != backward)
        return [Candidate(*row) for row in rows.values_list(self.key, self.task)[:count]]

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

    def _beyond(self, after: Key | None, end: Key | None, rising: bool) -> QuerySet[Any]:
        rows = self.rows if after is None else self.rows.filter(**{f"{self.key}__{'gt' if rising else 'lt'}": after})
        rows = rows if end is None else rows.filter(**{f"{self.key}__{'lte' if rising else 'gte'}": end})
        return rows.order_by(self.key if rising else f"-{self.key}")
