"""Closes the episodes that a server left open when it died. Called at start by the server that holds the database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Avg, Count, DateTimeField, Func, Max, Min, OuterRef, Q, Subquery, Sum
from django.db.models.functions import Coalesce
from django.db.models.sql.compiler import SQLCompiler

from episodes.models import Episode, Step

_STEPS = Step.objects.filter(episode=OuterRef("pk")).order_by()
_REFUSED = Q(status="refused")


class Completed(Func):
    """When a step had its answer; to the millisecond on SQLite."""

    arity = 3
    output_field = DateTimeField()

    def __init__(self) -> None:
        super().__init__("started", "waited_ms", "duration_ms")

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        started, waited, took = (compiler.compile(part)[0] for part in self.get_source_expressions())
        return f"strftime('%%Y-%%m-%%d %%H:%%M:%%f', {started}, (({waited} + {took}) / 1000) || ' seconds')", ()

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        started, waited, took = (compiler.compile(part)[0] for part in self.get_source_expressions())
        return f"({started} + ({waited} + {took}) * interval '1 millisecond')", ()


def close_interrupted(now: float) -> int:
    """Number of running episodes, which are now ended with what their steps tell. `now`: seconds since the epoch."""
    last_reward = _STEPS.filter(reward__isnull=False).order_by("-index").values("reward")[:1]
    return Episode.objects.filter(status="running").update(
        status="ended",
        cause="interrupted",
        ended=datetime.fromtimestamp(now, UTC),
        steps_count=Coalesce(_over_steps(Count("pk", filter=~_REFUSED)), 0),
        refused_count=Coalesce(_over_steps(Count("pk", filter=_REFUSED)), 0),
        return_sum=Coalesce(_over_steps(Sum("reward")), 0.0),
        return_last=Subquery(last_reward),
        return_max=_over_steps(Max("reward")),
        return_mean=_over_steps(Avg("reward")),
        first_acted=_over_steps(Min("started")),
        last_acted=_over_steps(Max(Completed())),
    )


def _over_steps(aggregate: Any) -> Subquery:
    """`aggregate` over one episode's steps; null without steps."""
    return Subquery(_STEPS.values("episode").annotate(value=aggregate).values("value"))
