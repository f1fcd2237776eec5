"""Which run an uploaded conversation belongs to, of the runs that have the title its client says.

It is the run with the id that the client gives, or the one that recorded its session, or the only
one
that is open: the newest unless it has ended, and others while they play. If that leaves several or
none, the conversation has no run and says so; the follower gives it that of its episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from episodes.models import Episode, Run
from episodes.runs.known_runs import KnownRun, runs_named
from episodes.uploads.start_fields import (
    OWN_ID,
    UNDECIDED,
    model_named,
    own_id_in,
    session_in,
    title_in,
)


def run_of_conversation(
    fields: Mapping[str, Any], key_label: str, now: float
) -> tuple[int | None, str]:
    """Return the id of the run, which is created if none has the title, or None and the reason.

    `fields`: the event that announces the conversation. `key_label`: of the key that uploads it.
    """
    title, own_id, model = title_in(fields), own_id_in(fields), model_named(fields)
    if not title:
        return None, ""
    runs = runs_named(title, own_id)
    if not runs:
        moment = datetime.fromtimestamp(now, UTC)
        return Run.objects.begin(
            title, None if own_id else 1, created=moment, model=model, own_id=own_id
        )[0].pk, ""
    fitting = runs
    if len(runs) > 1:
        fitting = _recorded(runs, fields, key_label) or _open(runs, model, now)
    if len(fitting) != 1:
        names = ", ".join(run.name for run in runs)
        return None, (
            f"{UNDECIDED}, as {len(runs)} are named {title}: give one of {names} as runName, or "
            f"its {OWN_ID}"
        )
    if model and not fitting[0].model:
        Run.objects.filter(pk=fitting[0].id, model="").update(model=model)
    return fitting[0].id, ""


def _recorded(runs: list[KnownRun], fields: Mapping[str, Any], key_label: str) -> list[KnownRun]:
    """Return the run that recorded the session which the client names, as a list; empty without
    it."""
    sessions = [session_in(fields.get(name)) for name in ("metadata", "rollout_info")]
    session = next(filter(None, sessions), "") or session_in(fields)
    if not session:
        return []
    own = Episode.objects.filter(key_label=key_label, session_id=session).order_by("-pk")
    run_id = own.values_list("run", flat=True).first()
    return [run for run in runs if run.id == run_id]


def _open(runs: list[KnownRun], model: str, now: float) -> list[KnownRun]:
    """Return the runs that are open, of several those with this model if there are any."""
    open_runs = [
        run for run in runs if not run.is_quiet(now) or (run is runs[0] and not run.is_over)
    ]
    return [run for run in open_runs if model and run.model == model] or open_runs
