"""What people did to a split of a class, and UndoPeoplesChanges, which makes it what the class lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db.models import F

from environments.curation.action import ActionOutcome, ActionRefused, Plan, SplitShare
from environments.curation.history_rows import former_places, object_of, split_names
from environments.curation.split_counts import tasks
from environments.curation.splits import find_split
from environments.curation.undo_of_tasks import Labels, UndoWork
from environments.curation.work import carry_out, change_of, recorded
from environments.database.jobs import Progress, silent
from environments.models import Split, SplitRemoval, Task, TaskRevision
from environments.tasks.split_errors import FrozenSplit
from environments.tasks.task_places import batched, places_of

BATCH_HASHES = 900


@dataclass(slots=True)
class PeoplesChanges:
    """What people did to a split of a class."""

    added: set[int] = field(default_factory=set)
    """Tasks that the class does not list there."""
    edited: dict[int, int] = field(default_factory=dict)
    """Task -> the listed task whose place it has."""
    removed: dict[int, str] = field(default_factory=dict)
    """Listed task that was taken out -> its hash. Of one that was put in again elsewhere, that is
    in `added`, too."""

    def __len__(self) -> int:
        return len(self.added | self.edited.keys() | self.removed.keys())


def peoples_changes(split: Split) -> PeoplesChanges:
    """Return what people did to the split. Reads all its places."""
    changes = PeoplesChanges()
    places = places_of(split).exclude(source_hash=F("task__content_hash"))
    others = list(places.values_list("task_id", "source_hash").iterator(2000))
    removals = list(SplitRemoval.objects.filter(split=split).values_list("source_hash", flat=True))
    hashes = [content for _, content in others if content] + removals
    ids = dict[str, int]()  # of the tasks with these hashes that the class lists now
    for batch in batched(hashes, BATCH_HASHES):
        rows = Task.objects.filter(
            environment=split.environment_id, content_hash__in=batch, dropped=None
        )
        ids.update(rows.values_list("content_hash", "pk"))
    for task, content in others:
        if content in ids:
            changes.edited[task] = ids[content]
        else:
            changes.added.add(task)
    changes.removed = {ids[content]: content for content in removals if content in ids}
    return changes


@dataclass(frozen=True, slots=True)
class UndoPeoplesChanges:
    """Put back what people took out of a split and edited in it, and take out what they added."""

    split: int
    reason: str = ""

    def plan(self) -> Plan:
        split = self._changeable()
        changes = self._changes(split)
        moves = changes.added & changes.removed.keys()
        counts = {
            "that people added will be taken out": len(changes.added - moves),
            "that people edited will have the class's content": len(changes.edited),
            "that people took out will be put back": len(changes.removed.keys() - moves),
            "that people moved will be at the places from before": len(moves),
        }
        sentences = [f"{tasks(count)} {what}." for what, count in counts.items() if count]
        share = SplitShare(split.pk, split.name, len(changes))
        title = f"Undo people's changes to split {split.name!r}"
        return Plan(title, len(changes), len(changes), (share,), sentences=tuple(sentences))

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        split = self._changeable()
        with (
            recorded(
                "splits", author, self.reason, environment=split.environment_id, split=split.pk
            ) as action,
            change_of(split) as change,
        ):
            changes = self._changes(split)
            undo = UndoWork(action.revisions, [change])
            ids = sorted(changes.added | changes.edited.keys() | changes.removed.keys())
            count = carry_out(
                action, lambda tasks: _stage(undo, split, changes, tasks), ids, [change], progress
            )
            return action.done(f"Undid people's changes to split {split.name!r}.", count)

    def _changeable(self) -> Split:
        split = find_split(self.split)
        if split.frozen:
            raise FrozenSplit(split)
        if split.is_curated or not split.source_hash:
            raise ActionRefused(
                f"No class lists the tasks of split {split.name!r}, so there is nothing to undo."
            )
        return split

    def _changes(self, split: Split) -> PeoplesChanges:
        changes = peoples_changes(split)
        if not len(changes):
            raise ActionRefused(f"Split {split.name!r} has exactly the tasks that the class lists.")
        return changes


def _stage(undo: UndoWork, split: Split, changes: PeoplesChanges, tasks: Sequence[int]) -> int:
    """Take back what people did to the tasks, as an undo does."""
    name, names = split.name, split_names(tasks)
    # the last position of each task in the split; -1 for the end where no revision knows it
    places = {task: (-1, changes.removed[task]) for task in tasks if task in changes.removed}
    rows = TaskRevision.objects.filter(task__in=list(places), before__contains='"places"')
    for task, before in rows.order_by("pk").values_list("task_id", "before"):
        for place in former_places(task, object_of(before)).get(name, ()):
            if place.source_hash == changes.removed[task]:
                places[task] = (place.position, place.source_hash)
    labels = list[Labels]()
    for task in tasks:
        inside, outside = sorted(names[task] | {name}), sorted(names[task] - {name})
        if task in changes.added:
            labels.append((task, {"splits": outside}, {"splits": inside, "listed": [name]}))
        if task in changes.removed:
            back = {"splits": inside, "places": {name: [places[task]]}}
            labels.append((task, back, {"splits": outside}))
    edits = {task: changes.edited[task] for task in tasks if task in changes.edited}
    return undo.splits(labels) + undo.contents(edits)
