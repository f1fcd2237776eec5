"""Merges the tasks that a class lists in a split with the changes that people made to it. Part of sync; blocking.

A place records the hash of the task that the class lists there. Sync therefore recognizes a place whose task people
edited, leaves out the tasks that they removed, and keeps the tasks that they added after the class's own.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from django.utils import timezone

from environments.database.json_rows import rows_among
from environments.database.write_pauses import give_way, rows_at_once
from environments.models import Split, SplitEntry, SplitRemoval, Task
from environments.tasks.split_change import BATCH
from environments.tasks.task_places import SplitPlace

_IDS = "SELECT content_hash, id FROM environments_task WHERE environment_id = %s AND content_hash {among}"


@dataclass(slots=True)
class Merge:
    """The content of a split after a sync. The counts have the meaning of the fields of `sync_report.SplitSync`."""

    order: list[SplitPlace] = field(default_factory=list)
    added: int = 0
    unchanged: int = 0
    kept: int = 0
    withheld: int = 0
    edited: int = 0
    removed: int = 0


def merge_places(split: Split, hashes: Sequence[str], *, was_empty: bool = False) -> Merge:
    """Merge the class's list, given as content hashes in order. `was_empty`: the split has no places.

    Raises: KeyError for a hash that has no row.
    """
    merge = Merge()
    ids = _ids(split.environment_id, set(hashes))
    added, listed = ([], {}) if was_empty else _places(split)
    removals = Counter(SplitRemoval.objects.filter(split=split).values_list("source_hash", flat=True))
    for content in hashes:
        if there := listed.get(content):  # not [content], which would make a deque for each new task
            task = there.popleft()
            merge.unchanged += 1
            merge.edited += task != ids[content]
            merge.order.append(SplitPlace(task, content))
        elif removals.get(content):
            removals[content] -= 1
            merge.withheld += 1
        else:
            merge.added += 1
            merge.order.append(SplitPlace(ids[content], content))
    _keep_work_of_people(split.environment_id, merge, added, listed)
    return merge


def listed_before(split: Split) -> set[str]:
    """Return hashes of the tasks that the class listed in the split, including those that people edited or removed."""
    places = SplitEntry.objects.filter(split=split, until=None).exclude(source_hash="")
    removals = SplitRemoval.objects.filter(split=split)
    return {
        *places.values_list("source_hash", flat=True).iterator(chunk_size=2000),
        *removals.values_list("source_hash", flat=True),
    }


def mark_dropped(environment: int, hashes: Iterable[str]) -> int:
    """Mark tasks that the class no longer lists in any split. Return how many were newly marked."""
    marked = 0
    for batch in _batches(sorted(hashes)):
        tasks = Task.objects.filter(environment=environment, content_hash__in=batch, dropped=None)
        marked += tasks.update(dropped=timezone.now())
        give_way()
    return marked


def unmark_dropped(environment: int, hashes: Sequence[str]) -> None:
    """Remove the mark from tasks that the class lists again."""
    dropped = Task.objects.filter(environment=environment, dropped__isnull=False)
    if dropped.exists():
        for batch in _batches(hashes):
            dropped.filter(content_hash__in=batch).update(dropped=None)


def _keep_work_of_people(environment: int, merge: Merge, people: list[int], theirs: dict[str, deque[int]]) -> None:
    """Append the tasks that people added, and their edits of tasks that the class no longer lists."""
    left = {content: tasks for content, tasks in theirs.items() if tasks}
    own = _ids(environment, set(left))
    edited = {task: content for content, tasks in left.items() for task in tasks if task != own.get(content)}
    merge.removed = sum(task == own.get(content) for content, tasks in left.items() for task in tasks)
    there = {place.task for place in merge.order}
    kept = [task for task in dict.fromkeys([*edited, *people]) if task not in there]
    # an edit remembers what it replaced, so that the class does not bring that back if it lists it again
    merge.order += [SplitPlace(task, edited.get(task, "")) for task in kept]
    merge.kept = len(kept)


def _places(split: Split) -> tuple[list[int], dict[str, deque[int]]]:
    """Return, in order, the tasks that people added, and those in the class's places by the hash of the listed task."""
    people: list[int] = []
    theirs: dict[str, deque[int]] = defaultdict(deque)
    entries = SplitEntry.objects.filter(split=split, until=None).order_by("position")
    for task, content in entries.values_list("task_id", "source_hash").iterator(chunk_size=2000):
        if content:
            theirs[content].append(task)
        else:
            people.append(task)
    return people, theirs


def _ids(environment: int, hashes: set[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for batch in _batches(sorted(hashes), rows_at_once(BATCH)):
        found.update(rows_among(_IDS, [environment], batch))
    return found


def _batches(items: Sequence[str], size: int = BATCH) -> Iterator[Sequence[str]]:
    return (items[start : start + size] for start in range(0, len(items), size))
