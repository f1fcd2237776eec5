"""Places: where tasks stand, as the splits are at this moment, hidden places included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import F, Q, QuerySet

from environments.models import Split, SplitEntry, seen_at


@dataclass(frozen=True, slots=True)
class TaskAtPlace:
    """A task at one of its places."""

    task: int
    split: Split
    position: int


def places(split: int, environment: int | None = None) -> QuerySet[SplitEntry]:
    """All places of a split; none if it is not of the environment."""
    return places_of(listed(split, environment))


def listed(split: int, environment: int | None = None) -> Split | None:
    """The split, if it is of the environment; with what its places are found by."""
    splits = Split.objects.filter(Q() if environment is None else Q(environment=environment), pk=split)
    return splits.only("pk", "version", "size").order_by().first()


def places_of(split: Split | None, tasks: Sequence[int] | None = None) -> QuerySet[SplitEntry]:
    """All places, or those of some hundred tasks."""
    if split is None:
        return SplitEntry.objects.none()
    # a number, because compared with a column of another table it would keep the places from being found by index
    seen = SplitEntry.objects.filter(seen_at(split.version))
    if tasks is None:
        return seen.filter(split=split.pk)
    # SQLite has no statistics: asked for the split by its column, it goes through all of it to find a few tasks
    return seen.alias(of=F("split") + 0).filter(of=split.pk, task__in=tasks)


def standings(tasks: Sequence[int]) -> list[TaskAtPlace]:
    """All places of some hundred tasks.

    Nothing but the tasks is asked for, so that they are found by the index of tasks.
    """
    entries = list(SplitEntry.objects.filter(task__in=tasks).order_by())
    splits = Split.objects.in_bulk({entry.split_id for entry in entries})
    return [
        TaskAtPlace(entry.task_id, splits[entry.split_id], entry.position)
        for entry in entries
        if entry.split_id in splits and _is_seen(entry, splits[entry.split_id].version)
    ]


def _is_seen(entry: SplitEntry, version: int) -> bool:
    return entry.since <= version and (entry.until is None or entry.until > version)
