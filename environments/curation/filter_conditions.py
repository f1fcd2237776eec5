"""Conditions on Task, one for each filter of a selection. Used by `filter_parameters` and by the
actions."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q, QuerySet

from environments.database.storable import is_storable
from environments.models import Split, SplitEntry, TaskTag
from environments.tasks.task_places import places, places_of


def is_in_split(split: int, *, is_served: bool = False) -> Q:
    """Return the condition for tasks in the split, as one subquery of all of them: for queries over
    whole sets.

    `is_served`: only those that it serves.
    """
    return Q(pk__in=(_served(places(split)) if is_served else places(split)).values("task"))


def is_at_a_place_of(split: Split | None, *, is_served: bool = False) -> Q:
    """Return the condition for tasks in the split, looked up task by task: for walks along the
    tasks."""
    found = places_of(split).filter(task=OuterRef("pk"))
    return Q(Exists(_served(found) if is_served else found))


def is_tagged(tag: str) -> Q:
    return (
        nothing()
        if not is_storable(tag)
        else Q(Exists(TaskTag.objects.filter(name=tag, task=OuterRef("pk"))))
    )


def _served(found: QuerySet[SplitEntry]) -> QuerySet[SplitEntry]:
    return found.filter(is_hidden=False)


def nothing() -> Q:
    return Q(pk__in=())
