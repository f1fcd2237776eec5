"""Endings: ended episodes as narrow tuples in the order of `end_number`, for rollups and figures.

No model instance and no `datetime` is created, so that a thousand endings cost about 4 ms on either
database.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import FloatField, Func, QuerySet
from django.db.models.sql.compiler import SQLCompiler

from environments.scoring.returns import MAX_RETURN, RETURNS
from episodes.attempts.rule import ENDED, KIND, is_attempt


class Ending(NamedTuple):
    """What statistics need to know about one ended episode. Other models are referred to by id."""

    number: int
    """Number of the ending, Episode.end_number."""
    episode: int
    environment: int
    task: int
    split: int | None
    run: int | None
    run_step: int | None
    player: str
    """Kind of player: agent, human or script."""
    kind: str
    """Kind of the ending, as `episodes.attempts.rule.KIND` defines it."""
    steps: int
    """Number of steps that ran."""
    failed: int
    refused: int
    return_sum: float
    return_last: float | None
    return_max: float | None
    return_mean: float | None
    has_components: bool | None
    """Whether an output may report components of its reward; None: not known."""
    ended: float
    """Time of the ending, in seconds since the epoch, to the millisecond."""

    @property
    def returns(self) -> tuple[float, float | None, float | None, float | None]:
        """The four returns in the order of RETURNS."""
        return self.return_sum, self.return_last, self.return_max, self.return_mean

    @property
    def is_attempt(self) -> bool:
        return is_attempt(self.kind)


class Epoch(Func):
    """A moment as seconds since the epoch, to the millisecond."""

    arity = 1
    output_field = FloatField()

    def as_sqlite(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any
    ) -> Any:
        template = "ROUND((julianday(%(expressions)s) - 2440587.5) * 86400.0, 3)"
        return self.as_sql(compiler, connection, template=template)

    def as_postgresql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any
    ) -> Any:
        template = "CAST(ROUND(extract(epoch FROM %(expressions)s), 3) AS double precision)"
        return self.as_sql(compiler, connection, template=template)


_COLUMNS: tuple[Any, ...] = (
    *("end_number", "pk", "environment_id", "task_id", "split_id", "run_id", "run_step", "player"),
    *(KIND, "steps_count", "failed_count", "refused_count"),
    *(*(f"return_{name}" for name in RETURNS), "has_components", Epoch("ended")),
)


def endings_of(episodes: QuerySet[Any, Any], most: int | None = None) -> list[Ending]:
    """Return the episodes that have ended in order of their endings; only the first `most` of them
    if given.

    One query.
    """
    rows = episodes.filter(ENDED).order_by("end_number").values_list(*_COLUMNS)
    return [Ending._make(row) for row in rows_of(rows[:most])]


def rows_of(rows: QuerySet[Any, Any]) -> list[tuple[Any, ...]]:
    """Return the rows of a query of values as the driver gives them, in a third of the time that
    Django takes."""
    try:
        sql, values = rows.query.sql_with_params()
    except EmptyResultSet:
        return []
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())


def bounded(value: float) -> float:
    """Return the number nearest to `value` within -MAX_RETURN and MAX_RETURN."""
    return max(-MAX_RETURN, min(MAX_RETURN, value))
