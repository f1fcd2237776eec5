"""Unplayed: the first task of a split that somebody has not played yet. Asks the database; pages call it."""

from __future__ import annotations

from environments.curation.indexes import served
from environments.models import Split
from episodes.models import Play
from episodes.playtest.seat import Seat

CHUNK = 500


def next_unplayed(seat: Seat, split: Split) -> int | None:
    """Its index; None where all were played. A split whose tasks are made up as they are asked for never ends.

    What ended without a tool call was not played.
    """
    mine = Play.objects.filter(seat.plays, episode__environment=split.environment_id, episode__is_probe=False)
    if split.is_generated:
        indexes = set(mine.filter(episode__split=split).values_list("episode__task_index", flat=True))
        return next(index for index in range(len(indexes) + 1) if index not in indexes)
    played = set(mine.values_list("episode__task", flat=True))
    tasks = served(split).order_by("position").values_list("task_id", flat=True).iterator(chunk_size=CHUNK)
    return next((index for index, task in enumerate(tasks) if task not in played), None)
