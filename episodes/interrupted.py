"""Closes the episodes that a server left open when it died. Called at start by the server that holds the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Avg, Count, DateTimeField, ExpressionWrapper, F, FloatField, Max, Min, OuterRef, Q, Subquery, Sum, Value
from django.db.models.functions import Coalesce

from episodes.models import Episode, Step

_STEPS = Step.objects.filter(episode=OuterRef("pk")).order_by()
_REFUSED = Q(status="refused")
_COMPLETED = ExpressionWrapper(
    F("started") + (F("waited_ms") + F("duration_ms")) * Value(timedelta(milliseconds=1)), output_field=DateTimeField()
)


def close_interrupted(now: float) -> int:
    """Number of running episodes that were ended as interrupted, with what their steps tell. `now`: seconds since the epoch."""
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
        last_acted=_over_steps(Max(_COMPLETED)),
    )


def _over_steps(aggregate: Any) -> Subquery:
    """`aggregate` over one episode's steps; null without steps."""
    return Subquery(_STEPS.values("episode").annotate(value=aggregate).values("value"))
