"""When something last came of a run, and whether one that is said to be running has become silent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from django.utils import timezone

from environments.database.json_rows import among
from environments.scoring.definition import Definition
from episodes.attempts.endings import Epoch, rows_of
from episodes.figures.runs.stored_totals import StoredTotal, stored_totals
from episodes.models import Run

SILENT_SECONDS = 2 * 3600
"""Without an ended episode and a report of the trainer, after which a run is not called running."""


def last_activity(
    created_seconds: float, updated_seconds: float | None, totals: Sequence[StoredTotal]
) -> float:
    """Return when an episode of a run ended or its trainer described it, or else it began, in
    seconds since the epoch."""
    return max([created_seconds, updated_seconds or 0.0, *(total.ended for total in totals)])


def last_activity_of(run: Run, totals: Sequence[StoredTotal]) -> datetime:
    """Return the same as `last_activity` as a time."""
    updated_seconds = run.updated.timestamp() if run.updated else None
    return datetime.fromtimestamp(
        last_activity(run.created.timestamp(), updated_seconds, totals), UTC
    )


def silence_of(state: str, last: float) -> str:
    """Return for how long nothing has come of a run that is said to be running, such as "5 h"; an
    empty text up to SILENT_SECONDS, and for another state.

    `last`: its last activity.
    """
    seconds = timezone.now().timestamp() - last
    if state != "running" or seconds <= SILENT_SECONDS:
        return ""
    hours = int(seconds // 3600)
    return f"{hours} h" if hours < 48 else f"{hours // 24} d"


def states_of(runs: Collection[int]) -> dict[int, str]:
    """Return the state of each run whose trainer has described it, `silent` for one that is said to
    be running and has become silent. Two queries."""
    runs_with_state = Run.objects.filter(among("pk", runs)).exclude(state="").order_by()
    columns = ("pk", "state", Epoch("created"), Epoch("updated"))
    rows = rows_of(runs_with_state.values_list(*columns))
    running = [pk for pk, state, *_ in rows if state == "running"]
    totals = stored_totals(running, Definition(), needs_content=False) if running else {}
    states = dict[int, str]()
    for pk, state, created_seconds, updated_seconds in rows:
        last = last_activity(created_seconds, updated_seconds, totals.get(pk, ()))
        states[pk] = "silent" if silence_of(state, last) else state
    return states
