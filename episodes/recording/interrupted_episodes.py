"""Ends the episodes that a server left open when it died. The server that holds the database does
so at its start.

Sums of huge rewards may leave the range of floats: SQLite then returns an infinity, PostgreSQL
refuses the statement.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from django.db import DataError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import (
    Avg,
    Count,
    DateTimeField,
    Exists,
    F,
    FloatField,
    Func,
    Max,
    Min,
    OuterRef,
    Q,
    Subquery,
    Sum,
    Value,
)
from django.db.models.functions import Coalesce, Concat, Least, Trim
from django.db.models.sql.compiler import SQLCompiler

from environments.cluster.membership import ENDINGS, LOCKS
from environments.database.json_rows import ID_LISTS
from environments.database.storable import finite, storable
from environments.runtime.sessions_after_restart import STAYS
from environments.wire import NO_NUMBER
from episodes.models import Episode, SessionSecrets, SessionSnapshot, Step
from episodes.rollups.progress import last_end
from episodes.rollups.task_statistics import count_ended

INTERRUPTED = "The server ended without having been stopped."
"""Why an episode was interrupted that an earlier server left open."""
EMPTY: Mapping[int, str] = {}
_STEPS = Step.objects.filter(episode=OuterRef("pk")).order_by()
_REFUSED = Q(status="refused")


class Completed(Func):
    """Moment at which a step was answered; to the millisecond on SQLite."""

    arity = 3
    output_field = DateTimeField()

    def __init__(self) -> None:
        super().__init__("started", "waited_ms", "duration_ms")

    def as_sqlite(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any
    ) -> Any:
        start, waited_ms, duration_ms = (
            compiler.compile(part)[0] for part in self.get_source_expressions()
        )
        return (
            f"strftime('%%Y-%%m-%%d %%H:%%M:%%f', {start}, (({waited_ms} + {duration_ms}) / 1000) || ' seconds')",
            (),
        )

    def as_postgresql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any
    ) -> Any:
        start, waited_ms, duration_ms = (
            compiler.compile(part)[0] for part in self.get_source_expressions()
        )
        return f"({start} + ({waited_ms} + {duration_ms}) * interval '1 millisecond')", ()


class Elapsed(Func):
    """Seconds from one moment to another; null where either of them is null."""

    arity = 2
    output_field = FloatField()

    def as_sqlite(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any
    ) -> Any:
        return self.as_sql(
            compiler,
            connection,
            template="((julianday(%(expressions)s)) * 86400.0)",
            arg_joiner=") - julianday(",
        )

    def as_postgresql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any
    ) -> Any:
        return self.as_sql(
            compiler, connection, template="extract(epoch FROM (%(expressions)s))", arg_joiner=" - "
        )


class Finite(Func):
    """The nearest finite number. On PostgreSQL aggregates are finite, or the statement fails."""

    arity = 1
    output_field = FloatField()
    template = "%(expressions)s"

    def as_sqlite(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any
    ) -> Any:
        most = repr(sys.float_info.max)
        return self.as_sql(
            compiler, connection, template=f"MAX(MIN(%(expressions)s, {most}), -{most})"
        )


def close_interrupted(
    now: float,
    details: Mapping[int, str] = EMPTY,
    detail: str = INTERRUPTED,
    but: Collection[int] = (),
    sessions: Collection[str] | None = None,
) -> int:
    """End the running episodes with what their steps say, and return their number. `now`: seconds
    since the epoch.

    `details`: why they ended, by episode; `detail`: why the others did; `but`: those that go on;
    `sessions`: ids of the sessions to which they belong, None: all.
    """
    running = Episode.objects.filter(status="running")
    if sessions is not None:
        running = running.filter(session_id__in=sessions)
    if but:
        running = running.exclude(pk__in=but)
    running.update(detail=detail)
    for number, why in details.items():
        running.filter(pk=number).update(detail=storable(why))
    for survival, why in STAYS.items():
        running.filter(survival=survival).update(detail=Concat("detail", Value(f" {why}")))
    numberless = Exists(_STEPS.filter(reason=NO_NUMBER))
    running.filter(numberless).update(detail=Trim(Concat("detail", Value(f" A {NO_NUMBER}."))))
    numbers = list(running.order_by("pk").values_list("pk", flat=True))
    if not numbers:
        return 0
    try:
        with transaction.atomic():
            _lock_endings()
            count = running.update(
                **_ending(now),
                return_sum=Coalesce(_over_steps(Finite(Sum("reward"))), 0.0),
                return_mean=_over_steps(Finite(Least(Avg("reward"), Max("reward")))),
            )
            _settle(numbers)
    except DataError:  # because of one episode, but the error does not say which
        with transaction.atomic():
            _lock_endings()
            ending = _ending(now)
            count = sum(
                running.filter(pk=number).update(**ending, **_returns(number)) for number in numbers
            )
            _settle(numbers)
    return count


def _lock_endings() -> None:
    """Let no other server number an ending before the transaction has ended."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [LOCKS, ENDINGS])


def _settle(numbers: list[int]) -> None:
    """Count the episodes in the statistics of their tasks, and delete what was kept for their
    sessions: snapshots and secrets."""
    ids = ID_LISTS[connection.vendor]
    count_ended(f"e.id IN ({ids})", [json.dumps(numbers)])
    with connection.cursor() as cursor:
        for model in (SessionSnapshot, SessionSecrets):
            sql = f"DELETE FROM {model._meta.db_table} WHERE id IN ({ids})"  # nosec B608 # only our own names
            cursor.execute(sql, [json.dumps(numbers)])


def _ending(now: float) -> dict[str, Any]:
    """Return column -> value or expression, except for the sum and the mean of the rewards."""
    first_acted, last_acted = _over_steps(Min("started")), _over_steps(Max(Completed()))
    first = Episode.objects.filter(status="running").aggregate(first=Min("pk"))["first"] or 0
    last_reward = _STEPS.filter(reward__isnull=False).order_by("-index").values("reward")[:1]
    return {
        "status": "ended",
        "cause": "interrupted",
        "ended": datetime.fromtimestamp(now, UTC),
        "steps_count": Coalesce(_over_steps(Count("pk", filter=~_REFUSED)), 0),
        "failed_count": Coalesce(_over_steps(Count("pk", filter=Q(status="failed"))), 0),
        "refused_count": Coalesce(_over_steps(Count("pk", filter=_REFUSED)), 0),
        "return_last": Subquery(last_reward),
        "return_max": _over_steps(Max("reward")),
        "first_acted": first_acted,
        "last_acted": last_acted,
        "duration_seconds": Elapsed(last_acted, Coalesce(F("ready"), first_acted)),
        # beyond all numbers of endings that are taken
        "end_number": F("pk") + (last_end() + 1 - int(first)),
    }


def _returns(number: int) -> dict[str, float | None]:
    """Return sum and mean of one episode's rewards, finite like those of an episode that ended by
    itself."""
    rewards = Step.objects.filter(episode=number).order_by("index").values_list("reward", flat=True)
    values = [reward for reward in rewards if reward is not None]
    total = sum(values)  # not math.fsum, which raises where this gives an infinity
    return {
        "return_sum": finite(total) or 0.0,
        "return_mean": finite(min(total / len(values), max(values))) if values else None,
    }


def _over_steps(aggregate: Any) -> Subquery:
    """Return `aggregate` over one episode's steps; null without steps."""
    return Subquery(_STEPS.values("episode").annotate(value=aggregate).values("value"))
