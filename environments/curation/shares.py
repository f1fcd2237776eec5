"""Shares: how many of some tasks stand in which split. What plans are made of."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Count, Q

from environments.curation.conditions import seen_entries
from environments.curation.errors import Refused
from environments.curation.plan import SplitShare
from environments.curation.selection import Selection
from environments.models import Task

Shares = tuple[SplitShare, ...]


def shares_of(condition: Q) -> tuple[Shares, Shares]:
    """(of splits that can change, of frozen ones) for the tasks that satisfy the condition, in the splits' order."""
    places = seen_entries().filter(task__in=Task.objects.filter(condition)).order_by("split")
    counted = places.values_list("split_id", "split__name", "split__frozen").annotate(Count("task", distinct=True))
    rows = [(SplitShare(split, name, count), frozen) for split, name, frozen, count in counted]
    return tuple(share for share, frozen in rows if not frozen), tuple(share for share, frozen in rows if frozen)


def count_of(condition: Q) -> int:
    return Task.objects.filter(condition).count()


def some_of(selection: Selection) -> int:
    """How many tasks were chosen. Raises: Refused when there are none."""
    if not (count := count_of(selection.condition())):
        raise Refused("No task is chosen, or those that were are gone; choose some first.")
    return count


def in_order_of(split: int, selection: Selection) -> list[int]:
    """Ids of the selected tasks that stand in the split, in its order, each once."""
    chosen = Task.objects.filter(selection.condition())
    places = seen_entries().filter(split=split, task__in=chosen).order_by("position")
    return list(dict.fromkeys(places.values_list("task_id", flat=True).iterator(2000)))


def in_splits(shares: Sequence[SplitShare]) -> list[str]:
    """A sentence for each split that will change."""
    return [f"{tasks(share.tasks, 'stands', 'stand')} in split {share.name!r}." for share in shares]


def still_served(shares: Sequence[SplitShare]) -> list[str]:
    """A sentence for each frozen split."""
    return [
        f"Split {share.name!r} is frozen and goes on serving {tasks(share.tasks, 'of them', 'of them')}."
        for share in shares
    ]


def tasks(count: int, one: str = "", many: str = "") -> str:
    """ "1 task" or "2 tasks", with what follows."""
    return f"{count:,} {'task' if count == 1 else 'tasks'} {one if count == 1 else many}".strip()
