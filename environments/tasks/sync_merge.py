"""Merges the tasks that a class lists in a split with the changes that people made to it. Part of
sync; blocking.

A place records the hash of the task that the class lists there. Sync therefore recognizes a place
whose task people edited, leaves out the tasks that they removed, and keeps the tasks that they
added after the class's own.

What people decided about a task holds also where its class lists it anew, and where its class
changes a label or the like, which makes another task of it: the edited task is served in its place,
and it stays taken out or quarantined. The latter is a conflict, because the class may have mended
what people did; so is an edit of what the class drops. Edits and quarantines hold in all splits of
the environment. Where a split lists several copies of what people edited, nobody can say which of
them the edit replaces, so all are quarantined, and each is a conflict.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, NamedTuple

from django.utils import timezone

from environments.database.json_rows import among, rows_among
from environments.database.write_pauses import give_way, rows_at_once
from environments.models import Split, SplitEntry, SplitRemoval, Task
from environments.tasks.new_versions import new_versions
from environments.tasks.split_change import BATCH
from environments.tasks.successors import successors
from environments.tasks.task_places import SplitPlace

_SELECT = (
    "SELECT content_hash, {columns} FROM environments_task WHERE environment_id = %s AND "
    "content_hash {{among}}"
)

Decision = Literal["edit", "removal", "quarantine"]


class Conflict(NamedTuple):
    """The columns of a SyncConflict, with ids of tasks."""

    decision: Decision
    former: int
    kept: int | None
    listed: int | None


@dataclass(slots=True)
class Merge:
    """The content of a split after a sync. The counts have the meaning of the fields of
    `sync_report.SplitSync`."""

    order: list[SplitPlace] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    removals: list[str] = field(default_factory=list)
    """Hashes of tasks that the class lists newly, and that stay out as what they were before."""
    reasons: dict[int, str] = field(default_factory=dict)
    """Task that the class lists newly -> why what it was before is quarantined, and so it is."""
    added: int = 0
    succeeded: int = 0
    unchanged: int = 0
    kept: int = 0
    withheld: int = 0
    edited: int = 0
    removed: int = 0


def merge_places(
    split: Split,
    hashes: Sequence[str],
    lists: Mapping[str, Sequence[str]],
    *,
    was_empty: bool = False,
) -> Merge:
    """Merge the class's list, given as content hashes in order, and as the texts of all splits.

    `was_empty`: the split has no places. Raises: KeyError for a hash that has no row.
    """
    merge = Merge()
    ids = _ids(split.environment_id, set(hashes))
    people, left = ([], {}) if was_empty else _places(split)
    removals = Counter(
        SplitRemoval.objects.filter(split=split).values_list("source_hash", flat=True)
    )
    heirs = successors(
        Task.objects.filter(environment=split.environment_id, replaced_by__isnull=False)
    )
    listed = dict(zip(hashes, lists[split.name], strict=True))
    earlier = _earlier_versions(
        split, listed, chain.from_iterable(lists.values()), left, removals, heirs
    )
    served = set(ids.values()) | {
        task for content in ids.keys() & left.keys() for task in left[content]
    }
    for content in hashes:
        task, former = ids[content], earlier.get(content)
        heir = heirs.get(former.task if former else task, task)
        if there := left.get(content):  # not [content], which would make a deque for each new task
            merge.unchanged += 1
            merge.edited += there[0] != task
            merge.order.append(SplitPlace(there.popleft(), content))
        elif removals.get(content):
            removals[content] -= 1
            merge.withheld += 1
        elif former and former.is_crowded:
            kept = heirs.get(former.task) or left[former.content][0]
            merge.added += 1
            merge.reasons[task] = former.reason or "a copy of a task that people edited"
            merge.order.append(SplitPlace(task, content))
            merge.conflicts.append(Conflict(former.decision, former.task, kept, task))
        elif former and (
            former.decision != "edit" or left.get(former.content) or heir not in served
        ):
            _decide_again(merge, former, SplitPlace(task, content), left, heirs)
            served.add(heir)
        elif heir != task and heir in served:
            # as `SplitChange.replace` removes a task whose successor has a place already
            merge.withheld += 1
        else:
            served.add(heir)
            merge.added += 1
            merge.succeeded += heir != task
            merge.order.append(SplitPlace(heir, content))
    _keep_work_of_people(split.environment_id, merge, people, left)
    return merge


class _Former(NamedTuple):
    """A task that the class does not list in the split, about which people had decided
    something."""

    content: str
    decision: Decision
    task: int
    reason: str = ""
    is_crowded: bool = False
    """Whether the split lists several copies of a task that people edited."""


def _earlier_versions(
    split: Split,
    listed: Mapping[str, str],
    every: Iterable[str],
    left: Mapping[str, Sequence[int]],
    removals: Mapping[str, int],
    heirs: Mapping[int, int],
) -> dict[str, _Former]:
    """Return, for contents that the class lists newly, what they were when people decided about
    them.

    First come those that the class has listed in this split, and then those of the environment.
    `every`: texts of all that the class lists in any split.
    """
    added = {
        content: text
        for content, text in listed.items()
        if content not in left and content not in removals
    }
    if not added:
        return {}
    formers, gone = dict[str, _Former](), (left.keys() | removals.keys()) - listed.keys()
    for content, task, state, reason in _rows("id, state, reason", split.environment_id, gone):
        if content in removals:
            formers[content] = _Former(content, "removal", task)
        elif any(other != task for other in left[content]):
            formers[content] = _Former(content, "edit", task)
        elif state == "quarantined":
            formers[content] = _Former(content, "quarantine", task, reason)
    edits = {
        content: left[content][0]
        for content, former in formers.items()
        if former.decision == "edit"
    }
    decided = _decided(split.environment_id, heirs)
    found = dict[str, _Former]()
    for content in added.keys() & decided.keys():  # it is listed again
        del added[content]
        heir = heirs.get(decided[content].task)
        if again := next((former for former, kept in edits.items() if kept == heir), None):
            found[content] = formers.pop(again)
            del edits[again]
    formers |= {content: former for content, former in decided.items() if content not in formers}
    if formers and added:
        texts = dict(_rows("spec", split.environment_id, gone | formers.keys()))
        people = Task.objects.filter(among("pk", {*edits.values(), *heirs.values()}))
        kept = (
            dict(people.filter(among("pk", edits.values())).values_list("pk", "spec"))
            if edits
            else {}
        )
        wanted = {
            one: [texts[one], *([kept[edits[one]]] if one in edits else [])] for one in formers
        }

        def beside(hashes: Collection[str]) -> set[str]:
            """Return those that a split serves: people saw them."""
            ids = _ids(split.environment_id, set(hashes))
            places = SplitEntry.objects.filter(
                among("task_id", ids.values()), until=None, split__is_served=True
            )
            there = set(places.values_list("task_id", flat=True)) if ids else set()
            return {content for content, task in ids.items() if task in there}

        made = set(people.values_list("content_hash", flat=True)) if edits or heirs else set()
        versions = new_versions(
            wanted, texts, added, every, still=listed.keys(), edits=made, beside=beside
        )
        copies = Counter(versions.values())
        for new, old in versions.items():
            former, is_alone = formers[old], copies[old] == 1 and old not in listed
            found[new] = former._replace(is_crowded=former.decision == "edit" and not is_alone)
    return found


def _decided(environment: int, heirs: Mapping[int, int]) -> dict[str, _Former]:
    """Return the tasks of an environment that are quarantined, and those that edits have replaced,
    by their hashes."""
    quarantined = Task.objects.filter(environment=environment, state="quarantined").order_by("pk")
    rows = quarantined.values_list("content_hash", "pk", "reason")
    found = {content: _Former(content, "quarantine", pk, reason) for content, pk, reason in rows}
    edited = (
        Task.objects.filter(among("pk", heirs)).order_by("pk").values_list("content_hash", "pk")
    )
    return found | {
        content: _Former(content, "edit", pk) for content, pk in (edited if heirs else ())
    }


def _decide_again(
    merge: Merge,
    former: _Former,
    place: SplitPlace,
    left: Mapping[str, deque[int]],
    heirs: Mapping[int, int],
) -> None:
    """Let what people decided about a task hold for what its class made of it."""
    kept = None
    match former.decision:
        case "edit" if left.get(former.content):
            kept = left[former.content].popleft()
            merge.unchanged += 1
            merge.edited += 1
            merge.order.append(SplitPlace(kept, place.source_hash))
        case "edit":
            kept = heirs[former.task]
            merge.added += 1
            merge.succeeded += 1
            merge.order.append(SplitPlace(kept, place.source_hash))
        case "removal":
            merge.withheld += 1
            merge.removals.append(place.source_hash)
        case "quarantine":
            merge.added += 1
            merge.reasons[place.task] = former.reason
            merge.order.append(place)
    if kept is None or heirs.get(place.task) != kept:  # else the edit replaced just that
        merge.conflicts.append(Conflict(former.decision, former.task, kept, place.task))


def listed_before(split: Split) -> set[str]:
    """Return hashes of the tasks that the class listed in the split, including those that people
    edited or removed."""
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


def _keep_work_of_people(
    environment: int, merge: Merge, people: list[int], theirs: dict[str, deque[int]]
) -> None:
    """Append the tasks that people added, and their edits of tasks that the class no longer
    lists."""
    left = {content: tasks for content, tasks in theirs.items() if tasks}
    own = _ids(environment, set(left))
    edited = {
        task: content
        for content, tasks in left.items()
        for task in tasks
        if task != own.get(content)
    }
    merge.removed = sum(
        task == own.get(content) for content, tasks in left.items() for task in tasks
    )
    there = {place.task for place in merge.order}
    kept = [task for task in dict.fromkeys([*edited, *people]) if task not in there]
    # an edit remembers what it replaced, so that the class does not bring that back if it lists it
    # again
    merge.order += [SplitPlace(task, edited.get(task, "")) for task in kept]
    merge.kept = len(kept)
    dropped = [
        (own[content], task) for task, content in edited.items() if content in own and task in kept
    ]
    merge.conflicts += [Conflict("edit", former, task, None) for former, task in dropped]


def _places(split: Split) -> tuple[list[int], dict[str, deque[int]]]:
    """Return, in order, the tasks that people added, and those in the class's places by the hash of
    the listed task."""
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
    return dict(_rows("id", environment, hashes))


def _rows(columns: str, environment: int, hashes: Collection[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the hash and these columns of the tasks with some hashes."""
    select = _SELECT.format(columns=columns)  # nosec B608 # only our own names
    for batch in _batches(sorted(hashes), rows_at_once(BATCH)):
        yield from rows_among(select, [environment], batch)


def _batches(items: Sequence[str], size: int = BATCH) -> Iterator[Sequence[str]]:
    return (items[start : start + size] for start in range(0, len(items), size))
