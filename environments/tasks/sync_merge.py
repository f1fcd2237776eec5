"""Merges the tasks that a class lists in a split with the changes that people made to it. Part of
sync; blocking.

A place records the hash of the task that the class lists there. Sync therefore recognizes a place
whose task people edited, leaves out the tasks that they removed, and keeps the tasks that they
added after the class's own.

A decision of people about a task also holds where its class lists it again, and where its class
changes a label or the like, which makes another task of it: the edited task is served in its place,
and it stays removed or quarantined. The latter is a conflict, because the class may have mended
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
from environments.models import Split, SplitEntry, SplitRemoval, SyncConflict, Task
from environments.tasks.revised_tasks import new_versions
from environments.tasks.split_change import BATCH
from environments.tasks.successors import successors
from environments.tasks.task_places import SplitPlace, batched

_SELECT = (
    "SELECT content_hash, {columns} FROM environments_task WHERE environment_id = %s AND "
    "content_hash {{among}}"
)

Decision = Literal["edit", "removal", "quarantine"]


@dataclass(slots=True)
class Merge:
    """The content of a split after a sync."""

    split: Split
    counts: Counter[str] = field(default_factory=Counter)
    """Counts by the names of the fields of `sync_report.SplitSync`."""
    order: list[SplitPlace] = field(default_factory=list)
    conflicts: list[SyncConflict] = field(default_factory=list)
    removals: list[str] = field(default_factory=list)
    """Hashes of tasks that the class lists newly, and that stay out as what they were before."""
    reasons: dict[int, str] = field(default_factory=dict)
    """Task that the class lists newly -> why what it was before is quarantined, and so it is."""

    def place(self, task: int, content: str, *counts: str) -> None:
        """Put a task at the end, where the class lists the content."""
        self.order.append(SplitPlace(task, content))
        self.counts.update(counts)

    def conflict(self, decision: Decision, former: int, edit: int | None, new: int | None) -> None:
        """Note a conflict between tasks, by id."""
        self.conflicts.append(
            SyncConflict(
                split=self.split,
                decision=decision,
                former_id=former,
                kept_id=edit,
                listed_id=new,
            )
        )


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
    merge = Merge(split)
    ids = _ids(split.environment_id, set(hashes))
    people, remaining = ([], {}) if was_empty else _places(split)
    removals = Counter(
        SplitRemoval.objects.filter(split=split).values_list("source_hash", flat=True)
    )
    heirs = successors(
        Task.objects.filter(environment=split.environment_id, replaced_by__isnull=False)
    )
    texts = dict(zip(hashes, lists[split.name], strict=True))
    every_text = chain.from_iterable(lists.values())
    earlier = _earlier_versions(split, texts, every_text, remaining, removals, heirs)
    occupants = set(ids.values())
    occupants.update(
        task for content in ids.keys() & remaining.keys() for task in remaining[content]
    )
    for content in hashes:
        task, former = ids[content], earlier.get(content)
        heir = heirs.get(former.task if former else task, task)
        # not remaining[content], which would make a deque for each new task
        if tasks := remaining.get(content):
            merge.counts["edited"] += tasks[0] != task
            merge.place(tasks.popleft(), content, "unchanged")
        elif removals.get(content):
            removals[content] -= 1
            merge.counts["withheld"] += 1
        elif former and former.is_crowded:
            edit = heirs.get(former.task) or remaining[former.content][0]
            merge.reasons[task] = former.reason or "a copy of a task that people edited"
            merge.place(task, content, "added")
            merge.conflict(former.decision, former.task, edit, task)
        elif former and (
            former.decision != "edit" or remaining.get(former.content) or heir not in occupants
        ):
            _decide_again(merge, former, SplitPlace(task, content), remaining, heirs)
            occupants.add(heir)
        elif heir != task and heir in occupants:
            # as `SplitChange.replace` removes a task whose successor has a place already
            merge.counts["withheld"] += 1
        else:
            occupants.add(heir)
            merge.counts["succeeded"] += heir != task
            merge.place(heir, content, "added")
    _keep_work_of_people(merge, people, remaining)
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
    texts: Mapping[str, str],
    every_text: Iterable[str],
    remaining: Mapping[str, Sequence[int]],
    removals: Mapping[str, int],
    heirs: Mapping[int, int],
) -> dict[str, _Former]:
    """Return, for contents that the class lists newly, what they were when people decided about
    them: first those that the class has listed in this split, then those of the environment.

    `texts`: of the split, by hash; `every_text`: all that the class lists in any split.
    """
    environment = split.environment_id
    new_texts = {
        content: text
        for content, text in texts.items()
        if content not in remaining and content not in removals
    }
    if not new_texts:
        return {}
    formers, dropped_hashes = (
        dict[str, _Former](),
        (remaining.keys() | removals.keys()) - texts.keys(),
    )
    for content, task, state, reason in _rows("id, state, reason", environment, dropped_hashes):
        if content in removals:
            formers[content] = _Former(content, "removal", task)
        elif any(other != task for other in remaining[content]):
            formers[content] = _Former(content, "edit", task)
        elif state == "quarantined":
            formers[content] = _Former(content, "quarantine", task, reason)
    edits = {
        content: remaining[content][0]
        for content, former in formers.items()
        if former.decision == "edit"
    }
    decisions = _decisions(environment, heirs)
    earlier = dict[str, _Former]()
    for content in new_texts.keys() & decisions.keys():  # it is listed again
        del new_texts[content]
        heir = heirs.get(decisions[content].task)
        if origin := next((former for former, edit in edits.items() if edit == heir), None):
            earlier[content] = formers.pop(origin)
            del edits[origin]
    formers |= {content: former for content, former in decisions.items() if content not in formers}
    if not (formers and new_texts):
        return earlier
    dropped_texts = dict(_rows("spec", environment, dropped_hashes | formers.keys()))
    olds = {content: [dropped_texts[content]] for content in formers}
    edit_hashes = set[str]()
    if edits or heirs:
        tasks = Task.objects.filter(among("pk", {*edits.values(), *heirs.values()}))
        edit_hashes.update(tasks.values_list("content_hash", flat=True))
        specs = Task.objects.filter(among("pk", edits.values())) if edits else Task.objects.none()
        by_task = dict(specs.values_list("pk", "spec"))
        for content, edit in edits.items():
            olds[content].append(by_task[edit])

    def beside(hashes: Collection[str]) -> set[str]:
        """Return those that a split serves: people saw them."""
        ids = _ids(environment, set(hashes))
        places = SplitEntry.objects.filter(
            among("task_id", ids.values()), until=None, split__is_served=True
        )
        tasks = set(places.values_list("task_id", flat=True)) if ids else set()
        return {content for content, task in ids.items() if task in tasks}

    versions = new_versions(
        olds,
        dropped_texts,
        new_texts,
        every_text,
        still=texts.keys(),
        edits=edit_hashes,
        beside=beside,
    )
    copies = Counter(versions.values())
    for new, old in versions.items():
        is_alone = copies[old] == 1 and old not in texts
        is_crowded = formers[old].decision == "edit" and not is_alone
        earlier[new] = formers[old]._replace(is_crowded=is_crowded)
    return earlier


def _decisions(environment: int, heirs: Mapping[int, int]) -> dict[str, _Former]:
    """Return the tasks of an environment that are quarantined, and those that edits have replaced,
    by their hashes."""
    tasks = Task.objects.filter(environment=environment, state="quarantined").order_by("pk")
    formers = {
        content: _Former(content, "quarantine", pk, reason)
        for content, pk, reason in tasks.values_list("content_hash", "pk", "reason")
    }
    if heirs:
        tasks = Task.objects.filter(among("pk", heirs)).order_by("pk")
        for content, pk in tasks.values_list("content_hash", "pk"):
            formers[content] = _Former(content, "edit", pk)
    return formers


def _decide_again(
    merge: Merge,
    former: _Former,
    place: SplitPlace,
    remaining: Mapping[str, deque[int]],
    heirs: Mapping[int, int],
) -> None:
    """Let what people decided about a task hold for what its class made of it."""
    edit = None
    match former.decision:
        case "edit" if remaining.get(former.content):
            edit = remaining[former.content].popleft()
            merge.place(edit, place.source_hash, "unchanged", "edited")
        case "edit":
            edit = heirs[former.task]
            merge.place(edit, place.source_hash, "added", "succeeded")
        case "removal":
            merge.counts["withheld"] += 1
            merge.removals.append(place.source_hash)
        case "quarantine":
            merge.reasons[place.task] = former.reason
            merge.place(place.task, place.source_hash, "added")
    if edit is None or heirs.get(place.task) != edit:  # else the edit replaced just that
        merge.conflict(former.decision, former.task, edit, place.task)


def _keep_work_of_people(
    merge: Merge, people: list[int], remaining: Mapping[str, Sequence[int]]
) -> None:
    """Append the tasks that people added, and their edits of tasks that the class no longer
    lists."""
    own = _ids(
        merge.split.environment_id, {content for content, tasks in remaining.items() if tasks}
    )
    edits = dict[int, str]()  # with the hash of what they replaced
    for content, tasks in remaining.items():
        for task in tasks:
            if task == own.get(content):
                merge.counts["removed"] += 1
            else:
                edits[task] = content
    places = {place.task for place in merge.order}
    for task in dict.fromkeys([*edits, *people]):
        if task not in places:
            # an edit remembers what it replaced, in case that the class lists it again
            content = edits.get(task, "")
            merge.place(task, content, "kept")
            if content in own:
                merge.conflict("edit", own[content], task, None)


def hashes_in_split(split: Split) -> set[str]:
    """Return hashes of the tasks that the class listed in the split at the last sync, including
    those that people edited or removed."""
    places = SplitEntry.objects.filter(split=split, until=None).exclude(source_hash="")
    removals = SplitRemoval.objects.filter(split=split)
    return {
        *places.values_list("source_hash", flat=True).iterator(chunk_size=2000),
        *removals.values_list("source_hash", flat=True),
    }


def mark_dropped(environment: int, hashes: Iterable[str]) -> int:
    """Mark tasks that the class no longer lists in any split. Return how many were newly marked."""
    count = 0
    for batch in batched(sorted(hashes), BATCH):
        tasks = Task.objects.filter(environment=environment, content_hash__in=batch, dropped=None)
        count += tasks.update(dropped=timezone.now())
        give_way()
    return count


def unmark_dropped(environment: int, hashes: Sequence[str]) -> None:
    """Remove the mark from tasks that the class lists again."""
    tasks = Task.objects.filter(environment=environment, dropped__isnull=False)
    if tasks.exists():
        for batch in batched(hashes, BATCH):
            tasks.filter(content_hash__in=batch).update(dropped=None)


def _places(split: Split) -> tuple[list[int], dict[str, deque[int]]]:
    """Return, in order, the tasks that people added, and those in the class's places by the hash of
    the listed task."""
    people: list[int] = []
    by_hash: dict[str, deque[int]] = defaultdict(deque)
    entries = SplitEntry.objects.filter(split=split, until=None).order_by("position")
    for task, content in entries.values_list("task_id", "source_hash").iterator(chunk_size=2000):
        if content:
            by_hash[content].append(task)
        else:
            people.append(task)
    return people, by_hash


def _ids(environment: int, hashes: set[str]) -> dict[str, int]:
    return dict(_rows("id", environment, hashes))


def _rows(columns: str, environment: int, hashes: Collection[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the hash and these columns of the tasks with some hashes."""
    select = _SELECT.format(columns=columns)  # nosec B608 # only our own names
    for batch in batched(sorted(hashes), rows_at_once(BATCH)):
        yield from rows_among(select, [environment], batch)
