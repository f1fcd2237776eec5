"""What is said first about runs: one line each, of those about which a feature has something to say.
The list of runs, the page of a run and the overview show it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from django.utils.module_loading import import_string

from environments.features import features
from environments.models import Viewer
from environments.scoring.definition import DefinitionOverrides
from episodes.attempts.endings import Epoch, rows_of
from episodes.models import Episode, Run

RECENT_DAYS = 3
MAX_RECENT = 20
"""Runs that are examined for the overview, those with the newest episodes."""
MAX_EPISODES = 1_000
"""Newest episodes among which they are looked for."""


class RunVerdict(NamedTuple):
    sentence: str
    """Without a full stop, such as "Success fell from 60% to 20% at step 41"."""
    address: str
    """Page with the evidence."""
    step: int | None
    """Training step at which it began; None if that is not known."""


def run_verdicts(
    runs: Sequence[Run], overrides: DefinitionOverrides, viewer: Viewer
) -> dict[int, RunVerdict]:
    """Return the verdict about each of the runs that has one, by its id."""
    verdicts = dict[int, RunVerdict]()
    for feature in features():
        if feature.run_verdicts and runs:
            verdicts |= import_string(feature.run_verdicts)(runs, overrides, viewer)
    return verdicts


def recent_verdicts(overrides: DefinitionOverrides, viewer: Viewer) -> list[tuple[Run, RunVerdict]]:
    """Return the verdicts about the runs that played in the last RECENT_DAYS, newest first."""
    newest = Episode.objects.order_by("-pk").values_list("run", Epoch("created"))[:MAX_EPISODES]
    since = time.time() - RECENT_DAYS * 86400
    ids = dict.fromkeys(run for run, created in rows_of(newest) if run and created >= since)
    recent = Run.objects.seen_by(viewer).in_bulk(list(ids)[:MAX_RECENT])
    runs = [recent[pk] for pk in ids if pk in recent]
    verdicts = run_verdicts(runs, overrides, viewer)
    return [(run, verdicts[run.pk]) for run in runs if run.pk in verdicts]
