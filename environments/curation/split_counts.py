"""How many of some tasks each split holds, and the sentences that plans make of that. Used by every
action's plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from django.db.models import Count, Q

from environments.curation.action import ActionRefused, SplitShare
from environments.curation.selection import MAX_FEW, Selection
from environments.models import Split, Task
from environments.tasks.successors import is_superseded
from environments.tasks.task_places import places, places_of_tasks

Shares = tuple[SplitShare, ...]


def shares_of(condition: Q) -> tuple[Shares, Shares]:
    """Return the shares of changeable and of frozen splits, in order, of tasks that satisfy the
    condition."""
    tasks = Task.objects.filter(condition)
    few = list(tasks.values_list("pk", flat=True)[: MAX_FEW + 1])
    if len(few) <= MAX_FEW:
        counts = Counter(
            split for _, split in {(place.task, place.split.pk) for place in places_of_tasks(few)}
        )
    else:
        splits = Split.objects.filter(environment__in=tasks.values("environment").distinct())
        counts = Counter()
        for split in splits.values_list("pk", flat=True):
            entries = places(split).filter(task__in=tasks)
            counts[split] = entries.aggregate(tasks=Count("task", distinct=True))["tasks"]
    rows = Split.objects.filter(pk__in=+counts).order_by("environment", "position", "name")
    shares = [(SplitShare(split.pk, split.name, counts[split.pk]), split.frozen) for split in rows]
    return tuple(share for share, frozen in shares if not frozen), tuple(
        share for share, frozen in shares if frozen
    )


def count_of(condition: Q) -> int:
    """Return the number of tasks that satisfy the condition."""
    return Task.objects.filter(condition).count()


def some_of(selection: Selection) -> int:
    """Return the number of tasks in the selection. Raises: ActionRefused when there are none."""
    if not (count := count_of(selection.condition())):
        others = left_out(selection)
        raise ActionRefused(
            f"No task that is served matches. {others[0]}"
            if others
            else "No task is chosen, or the chosen ones are gone. Choose some first."
        )
    return count


def left_out(selection: Selection) -> list[str]:
    """Return a sentence if tasks match the other filters of a selection of served tasks, and are
    not served."""
    if not selection.is_of_served:
        return []
    others = count_of(replace(selection, state="").condition()) - count_of(selection.condition())
    which = tasks(others, "that matches is not served", "that match are not served")
    return [f"{which} and will be left alone."] if others else []


def superseded_of(selection: Selection) -> Q:
    """Return the condition for chosen tasks that must not be put into splits: unless asked for,
    superseded ones."""
    return (
        Q(pk__in=()) if selection.state == "superseded" else selection.condition() & is_superseded()
    )


def in_order_of(split: int, selection: Selection) -> list[int]:
    """Return the ids of the selected tasks in the split, in its order, each once."""
    tasks = Task.objects.filter(selection.condition())
    rows = places(split).filter(task__in=tasks).order_by("position")
    return list(dict.fromkeys(rows.values_list("task_id", flat=True).iterator(2000)))


def in_splits(shares: Sequence[SplitShare]) -> list[str]:
    """Return a sentence for each split that will change."""
    return [f"{tasks(share.tasks, 'is', 'are')} in split {share.name!r}." for share in shares]


def still_served(shares: Sequence[SplitShare]) -> list[str]:
    """Return a sentence for each frozen split."""
    return [
        f"Split {share.name!r} is frozen and continues to serve "
        f"{tasks(share.tasks, 'of them', 'of them')}."
        for share in shares
    ]


def tasks(count: int, singular: str = "", plural: str = "") -> str:
    """Return "1 task" followed by `singular`, or "2 tasks" followed by `plural`."""
    return f"{count:,} {'task' if count == 1 else 'tasks'} {singular if count == 1 else plural}".strip()
