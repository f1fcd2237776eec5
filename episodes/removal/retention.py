"""Removes the episodes whose retention period is over: that of their run, else of their
environment, else of all.

Periods are rows of Retention, which the admin edits, and ORSWEB_RETENTION_DAYS for all that have
none. They count from the end of an episode. The recorder's upkeep asks for one batch after another;
each takes one short transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.db import connection
from django.db.models import Max, Q, QuerySet
from django.utils import timezone

from environments.models import Environment
from episodes.models import Episode, Removal, Retention
from episodes.removal.batch import new_removal, remove_batch
from episodes.removal.pace import RemovalPace

AUTHOR = "retention"


def remove_expired(default_days: int | None, pace: RemovalPace | None = None) -> int:
    """Remove one batch of episodes whose period is over, and return their number; 0 when there are
    none left.

    `default_days`: period of what has none of its own; None keeps it. `pace`: how large the batch
    is. Raises: django.db.Error.
    """
    now, pace = timezone.now(), pace or RemovalPace(connection.vendor)
    for episodes, days in _periods(default_days):
        moment = now - timedelta(days=days)
        # ids rise with the start: this bound keeps the database from reading all younger episodes
        last = Episode.objects.filter(created__lt=moment).aggregate(last=Max("pk"))["last"] or 0
        older = episodes.filter(pk__lte=last, status="ended", ended__lt=moment).order_by("pk")
        ids = list(older.values_list("pk", flat=True)[: pace.episodes])
        if ids:
            # one row counts what retention removes on a day
            day = now.replace(hour=0, minute=0, second=0, microsecond=0)
            removal = Removal.objects.filter(author=AUTHOR, created__gte=day).first()
            if removal is None:
                removal = new_removal(AUTHOR, "Their retention period was over.", end=now)
            count = remove_batch(removal, ids)
            pace.note(count.seconds)
            return count.episodes
    return 0


def _periods(default_days: int | None) -> Iterator[tuple[QuerySet[Episode], int]]:
    """Yield the episodes of each period with its days."""
    own = {(row.environment_id, row.run_id): row.days for row in Retention.objects.all()}
    runs = [run for _, run in own if run is not None]
    for (_, run), days in own.items():
        if run is not None and days is not None:
            yield Episode.objects.filter(run=run), days
    if default_days is None and all(environment is None for environment, _ in own):
        return
    for environment in Environment.objects.values_list("pk", flat=True):
        days = own.get((environment, None), default_days)
        if days is not None:
            others = Q(run__isnull=True) | ~Q(run__in=runs)
            yield Episode.objects.filter(others, environment=environment), days
