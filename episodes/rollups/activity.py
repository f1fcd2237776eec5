"""The part that makes Activity rows by minute (for three days), by hour (for ninety days) and by
day.

Each batch adds to the rows. Return and success follow the definition that the environment has at
that moment. Returns of expired episodes are counted apart, and the other endings by kind, so that a
reader can apply any convention.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from operator import add
from typing import Any, NamedTuple

from django.db import connection

from environments.database.bulk_writer import BulkWriter, Values
from environments.models import Environment
from environments.scoring.convention import NUMBERLESS_KINDS
from environments.scoring.returns import bar_of
from episodes.attempts.endings import Ending, bounded
from episodes.attempts.rule import EXPIRED_KINDS, OWN_KINDS
from episodes.models import Activity, Episode
from episodes.rollups.rollup_part import NO_LIMIT, delete_some

MAX_AGE_SECONDS = {60: 3 * 86400, 3600: 90 * 86400}
"""Rows of these periods are deleted at this age; those by day are never deleted."""
PERIODS = (60, 3600, 86400)
PRUNE_SECONDS = 600.0
MAX_PRUNED = 500
"""Maximum number of rows deleted in one transaction."""

CAUSES = tuple(cause for cause, _ in Episode.CAUSES)
KEY = ("period", "start", "environment_id")
COUNTS = (
    *("episodes", "scored", "successes", "return_total", "steps", "refused", "failed"),
    *("expired_scored", "expired_successes", "expired_total", *CAUSES, "probes"),
    *("numberless", "expired_numberless"),
)
# continuations have no column: they are the episodes that no other column counts
_PLACES = {kind: COUNTS.index(kind) for kind in CAUSES} | {"probe": COUNTS.index("probes")}
_STEPS = COUNTS.index("steps")
_NUMBERLESS = COUNTS.index("numberless")
_RETURNS = {
    **dict.fromkeys(OWN_KINDS, COUNTS.index("scored")),
    **dict.fromkeys(EXPIRED_KINDS, COUNTS.index("expired_scored")),
}
"""Kind of an ending -> place of the first of three counts of its returns."""
_NOTHING: tuple[float, ...] = tuple(0.0 if name.endswith("_total") else 0 for name in COUNTS)

Counts = list[Any]
"""Values in the order of COUNTS."""


class ActivityKey(NamedTuple):
    period: int
    start: int
    environment: int


class ActivityPart:
    name = "activity"
    most_endings = 1000
    most_steps = NO_LIMIT

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._pruned = float("-inf")  # when nothing was left to delete

    def gather(self, endings: Sequence[Ending]) -> list[Values]:
        now = self._now()
        return [
            (*key, *row)
            for key, row in sorted(_counted(endings).items())
            if key.start > now - MAX_AGE_SECONDS.get(key.period, now)
        ]

    def write(self, rows: list[Values]) -> None:
        BulkWriter(connection).add(Activity, KEY, COUNTS, rows)
        self._prune()

    def forget(self) -> None:
        pass

    def remove(self, endings: Sequence[Ending]) -> None:
        """Subtract the endings. Their returns are subtracted by the definition that is in force
        now."""
        rows = [(*key, *row) for key, row in sorted(_counted(endings).items())]
        BulkWriter(connection).subtract(Activity, KEY, COUNTS, rows)

    def empty(self) -> bool:
        return delete_some(Activity)

    def _prune(self) -> None:
        """Delete some of the rows that are too old, every PRUNE_SECONDS."""
        now = self._now()
        if now - self._pruned < PRUNE_SECONDS:
            return
        for period, seconds in MAX_AGE_SECONDS.items():
            old = Activity.objects.filter(period=period, start__lt=now - seconds).order_by("start")
            ids = list(old.values_list("pk", flat=True)[:MAX_PRUNED])
            Activity.objects.filter(pk__in=ids).delete()
            if len(ids) == MAX_PRUNED:
                return
        self._pruned = now


def _counted(endings: Sequence[Ending]) -> dict[ActivityKey, Counts]:
    """Count endings by minute, hour and day."""
    rows = Environment.objects.values_list("pk", "default_return", "success_threshold")
    definitions = {pk: (f"return_{name}", bar_of(threshold)) for pk, name, threshold in rows}
    minutes = defaultdict[ActivityKey, Counts](lambda: list(_NOTHING))
    for ending in endings:
        row = minutes[ActivityKey(60, int(ending.ended // 60) * 60, ending.environment)]
        row[0] += 1
        row[_STEPS] += ending.steps
        row[_STEPS + 1] += ending.refused
        row[_STEPS + 2] += ending.failed
        if (cause := NUMBERLESS_KINDS.get(ending.kind, ending.kind)) in _PLACES:
            row[_PLACES[cause]] += 1
        if ending.kind in NUMBERLESS_KINDS:
            row[_NUMBERLESS + (cause == "expired")] += 1
        if ending.kind in _RETURNS:
            name, bar = definitions.get(ending.environment, ("return_sum", bar_of(0.9)))
            place, value = _RETURNS[ending.kind], getattr(ending, name)
            if value is not None:
                row[place] += 1
                row[place + 1] += value > bar
                row[place + 2] += bounded(value)
    spans = dict(minutes)
    for minute, counts in minutes.items():
        for period in PERIODS[1:]:
            key = ActivityKey(period, minute.start // period * period, minute.environment)
            spans[key] = list(map(add, spans[key], counts)) if key in spans else counts
    return spans
