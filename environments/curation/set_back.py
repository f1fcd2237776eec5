"""SetBackSplit: the action that makes a split of a class what the class lists, without what people
did to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db.models import F

from environments.curation.action import ActionOutcome, ActionRefused, Plan, SplitShare
from environments.curation.history_rows import Revisions, object_of, split_names
from environments.curation.membership import former_places, splits_after, splits_before
from environments.curation.split_counts import tasks
from environments.curation.splits import find_split
from environments.curation.work import carry_out, change_of, recorded
from environments.database.jobs import Progress, silent
from environments.models import Split, SplitRemoval, Task, TaskRevision
from environments.tasks.split_change import SplitChange
from environments.tasks.split_errors import FrozenSplit
from environments.tasks.task_places import FormerPlace, batched, places_of

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
    found = PeoplesChanges()
    rows = (
        places_of(split)
        .exclude(source_hash=F("task__content_hash"))
        .values_list("task_id", "source_hash")
    )
    others = list(rows.iterator(2000))
    removals = list(SplitRemoval.objects.filter(split=split).values_list("source_hash", flat=True))
    ids = _listed(split, [content for _, content in others if content] + removals)
    for task, content in others:
        if content in ids:
            found.edited[task] = ids[content]
        else:
            found.added.add(task)
    found.removed = {ids[content]: content for content in removals if content in ids}
    return found


@dataclass(frozen=True, slots=True)
class SetBackSplit:
    """Put back what people took out of a split and edited in it, and take out what they added."""

    split: int
    reason: str = ""

    def plan(self) -> Plan:
        split = self._changeable()
        found = self._changes(split)
        moved = found.added & found.removed.keys()
        said = {
            "that people added will be taken out": len(found.added - moved),
            "that people edited will have the class's content": len(found.edited),
            "that people took out will be put back": len(found.removed.keys() - moved),
            "that people moved will be at the places from before": len(moved),
        }
        sentences = [f"{tasks(count)} {what}." for what, count in said.items() if count]
        share = SplitShare(split.pk, split.name, len(found))
        title = f"Set split {split.name!r} back to the class's list"
        return Plan(title, len(found), len(found), (share,), sentences=tuple(sentences))

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        split = self._changeable()
        with (
            recorded(
                "splits", author, self.reason, environment=split.environment_id, split=split.pk
            ) as action,
            change_of(split) as change,
        ):
            found = self._changes(split)
            ids = sorted(found.added | found.edited.keys() | found.removed.keys())
            changed = carry_out(
                action, _SetBackWork(action.revisions, change, found), ids, [change], progress
            )
            return action.done(
                f"Set split {split.name!r} back to the class's list.", changed, split=split.pk
            )

    def _changeable(self) -> Split:
        split = find_split(self.split)
        if split.frozen:
            raise FrozenSplit(split)
        if split.is_curated or not split.source_hash:
            raise ActionRefused(f"Split {split.name!r} has no list of a class to be set back to.")
        return split

    def _changes(self, split: Split) -> PeoplesChanges:
        found = peoples_changes(split)
        if not len(found):
            raise ActionRefused(f"Split {split.name!r} has exactly the tasks that the class lists.")
        return found


class _SetBackWork:
    def __init__(self, revisions: Revisions, change: SplitChange, found: PeoplesChanges) -> None:
        self._revisions, self._change, self._found = revisions, change, found

    def stage(self, tasks: Sequence[int]) -> int:
        name, names = self._change.split.name, split_names(tasks)
        leaving = [task for task in tasks if task in self._found.added]
        back = [task for task in tasks if task in self._found.removed]
        edits = {task: self._found.edited[task] for task in tasks if task in self._found.edited}
        lost = {
            task: {name: [at for at in self._change.places(leaving) if at.task == task]}
            for task in leaving
        }
        self._change.remove(leaving)
        self._change.put_back(self._former(back))
        self._change.replace_all(edits)
        self._revisions.write_edits(list(edits.items()))
        left = set(leaving) - set(back)
        rows = [(task, names[task] - {name}) for task in left]
        rows += [(task, names[task] | {name}) for task in back]
        return len(edits) + self._revisions.write(
            (
                task,
                splits_before(names[task], lost[task] if task in left else {}),
                splits_after(now, {name} & now),
            )
            for task, now in rows
        )

    def _former(self, tasks: Sequence[int]) -> list[FormerPlace]:
        """Return the last place of each task in the split; the end of the split where no revision
        knows it."""
        name, places = self._change.split.name, dict[int, FormerPlace]()
        told = TaskRevision.objects.filter(task__in=tasks, before__contains='"places"').order_by(
            "pk"
        )
        for task, before in told.values_list("task_id", "before"):
            for place in former_places(task, object_of(before)).get(name, ()):
                if place.source_hash == self._found.removed[task]:
                    places[task] = place
        return [
            places.get(task, FormerPlace(-1, task, self._found.removed[task])) for task in tasks
        ]


def _listed(split: Split, hashes: Sequence[str]) -> dict[str, int]:
    """Return the ids of the tasks with these hashes that the class lists now, by hash."""
    found = dict[str, int]()
    for batch in batched(hashes, BATCH_HASHES):
        rows = Task.objects.filter(
            environment=split.environment_id, content_hash__in=batch, dropped=None
        )
        found.update(rows.values_list("content_hash", "pk"))
    return found
