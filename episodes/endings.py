"""Endings: ended episodes as narrow tuples in the order of `end_number`. Read by `follower/` and `analytics/`.

No model instance and no time of Python's is made: a thousand of them cost some 4 ms on either database.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BigIntegerField, Case, CharField, F, FloatField, Func, Max, QuerySet, Value, When
from django.db.models.sql.compiler import SQLCompiler

from episodes.models import Episode, Progress
from episodes.statistics import FAILURES

LARGEST_RETURN = 1e290
"""Of either sign; returns beyond count as this, so that no sum of them overflows."""

_NO_ATTEMPTS = frozenset({*FAILURES, "probe"})


class Ending(NamedTuple):
    """What statistics need of one ended episode."""

    number: int
    """Its `end_number`."""
    episode: int
    environment: int
    split: int | None
    run: int | None
    run_step: int | None
    kind: str
    """Its cause, or "probe"."""
    steps: int
    """That ran."""
    failed: int
    refused: int
    return_sum: float
    return_last: float | None
    return_max: float | None
    return_mean: float | None
    ended: float
    """Seconds since the epoch, to the millisecond."""

    @property
    def is_attempt(self) -> bool:
        return self.kind not in _NO_ATTEMPTS


class Epoch(Func):
    """A moment as seconds since the epoch, to the millisecond."""

    arity = 1
    output_field = FloatField()

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        template = "ROUND((julianday(%(expressions)s) - 2440587.5) * 86400.0, 3)"
        return self.as_sql(compiler, connection, template=template)

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        template = "CAST(ROUND(extract(epoch FROM %(expressions)s), 3) AS double precision)"
        return self.as_sql(compiler, connection, template=template)


KIND = Case(When(is_probe=True, then=Value("probe")), default=F("cause"), output_field=CharField())
_COLUMNS: tuple[Any, ...] = (
    *("end_number", "pk", "environment_id", "split_id", "run_id", "run_step", KIND),
    *("steps_count", "failed_count", "refused_count", "return_sum", "return_last", "return_max", "return_mean"),
    Epoch("ended"),
)


def endings_of(episodes: QuerySet[Episode], most: int | None = None) -> list[Ending]:
    """Of those that have ended, the first `most` in order of their endings. One query."""
    rows = episodes.filter(status="ended").order_by("end_number").values_list(*_COLUMNS)
    return [Ending._make(row) for row in rows[:most]]


def endings_within(parts: Sequence[QuerySet[Episode]]) -> list[list[Ending]]:
    """Of each part, like `endings_of`; one query for all of them."""
    if not parts:
        return []
    found: list[list[Ending]] = [[] for _ in parts]
    chosen = [part.filter(status="ended").order_by() for part in parts]
    marked = [
        part.annotate(place=Value(place, BigIntegerField())).values_list("place", *_COLUMNS)
        for place, part in enumerate(chosen)
    ]
    rows = marked[0].union(*marked[1:], all=True) if len(marked) > 1 else marked[0]
    for place, *row in rows:
        found[place].append(Ending._make(row))
    return [sorted(part) for part in found]


def last_end() -> int:
    """The highest number that an ending has, or had when something followed it; 0 before the first. Two queries."""
    last: int = Episode.objects.filter(status="ended").aggregate(last=Max("end_number"))["last"] or 0
    followed: int = Progress.objects.aggregate(last=Max("end_number"))["last"] or 0
    return max(last, followed)


def bounded(value: float) -> float:
    """The nearest number that sums can bear."""
    return max(-LARGEST_RETURN, min(LARGEST_RETURN, value))
