"""What an undo stages for some revisions: each is taken back, unless the same has changed again
since."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from django.db.models import QuerySet

from environments.curation.history_rows import (
    Revisions,
    former_places,
    object_of,
    split_names,
    splits_after,
    splits_before,
)
from environments.curation.revision_writer import changes_in
from environments.curation.split_counts import tasks as counted
from environments.database.json_rows import among
from environments.models import SplitEntry, Task, TaskRevision, TaskTag
from environments.tasks.split_change import SplitChange
from environments.tasks.successors import successors_of
from environments.tasks.task_places import FormerPlace

Labels = tuple[int, dict[str, Any], dict[str, Any]]
"""A task, and what it had before and after a change."""


class UndoWork:
    """Takes back changes of tasks."""

    def __init__(self, revisions: Revisions, changes: Collection[SplitChange]) -> None:
        """Create the work. `changes`: of the splits that can change."""
        self._revisions, self._changes = revisions, changes
        self._left_alone = self._at_end = 0

    def sentence(self) -> str:
        """Return what became of tasks that are not as before; empty if all are."""
        sentences = list[str]()
        if count := self._left_alone:
            them = "it" if count == 1 else "them"
            change = counted(count, "has changed", "have changed")
            sentences.append(f"{change} again since, so the undo left {them} alone.")
        if count := self._at_end:
            at_end = counted(count, "is at the end, because its", "are at the end, because their")
            sentences.append(f"{at_end} place{' is' if count == 1 else 's are'} taken.")
        return " ".join(sentences)

    def stage(self, tasks: Sequence[int]) -> int:
        """Stage what takes back revisions, whose ids these are. Returns how many are taken back."""
        edits, labels = list[tuple[int, int]](), list[Labels]()
        revisions = TaskRevision.objects.filter(among("pk", tasks))
        for _, task, successor, before, after in changes_in(revisions):
            if successor is None:
                labels.append((task, object_of(before), object_of(after)))
            else:
                edits.append((task, successor))
        undone = self._edits(edits, revisions)
        undone += self._states([label for label in labels if "state" in label[2]])
        undone += self._tags([label for label in labels if "tags" in label[2]])
        moves = [label for label in labels if "splits" in label[2]]
        heirs = successors_of([task for task, *_ in moves])
        undone += self._splits([(heirs.get(task, task), old, new) for task, old, new in moves])
        self._left_alone += len(edits) + len(labels) - undone
        return undone

    def _edits(self, edits: Sequence[tuple[int, int]], revisions: QuerySet[TaskRevision]) -> int:
        """Take back edits, (old, new) contents, whose new content has its places and was not edited
        again."""
        if not edits:
            return 0
        olds = [old for old, _ in edits]
        still = Task.objects.filter(among("pk", olds), replaced_by__replaced_by=None)
        there = set(still.exclude(replaced_by=None).values_list("pk", "replaced_by"))
        places = SplitEntry.objects.filter(
            among("task_id", olds), until=None, split__frozen=None, split__is_served=True
        )
        # a merge: the new content had places of its own, which are now the same as those of the old
        merges = revisions.filter(kind="merge").values_list("task_id", flat=True)
        inseparable = {*places.values_list("task_id", flat=True), *merges}
        pairs = {new: old for old, new in edits if (old, new) in there and old not in inseparable}
        for change in self._changes if pairs else ():
            change.replace(pairs)
        self._revisions.write_edits(list(pairs.items()))
        return len(pairs)

    def _states(self, labels: Sequence[Labels]) -> int:
        """Take back states of tasks that still have the one that they were given."""
        rows = Task.objects.order_by("pk").select_for_update()
        now = {
            task: {"state": state, "reason": reason}
            for task, state, reason in rows.filter(
                among("pk", (task for task, *_ in labels))
            ).values_list("pk", "state", "reason")
        }
        states = [
            (task, now[task], old)
            for task, old, new in labels
            if now[task] == {"reason": "", **new}
        ]
        for change in self._changes if states else ():
            change.set_hidden(
                (task for task, _, old in states if old["state"] == "quarantined"), is_hidden=True
            )
            change.set_hidden(
                (task for task, _, old in states if old["state"] != "quarantined"), is_hidden=False
            )
        return self._revisions.write(states)

    def _tags(self, labels: Sequence[Labels]) -> int:
        """Take off the tags that were added, and put back those that were taken off."""
        now = defaultdict[int, set[str]](set)
        tags = TaskTag.objects.filter(among("task_id", (task for task, *_ in labels)))
        for task, name in tags.values_list("task_id", "name"):
            now[task].add(name)
        after = {
            task: (now[task] - (set(new["tags"]) - set(old["tags"])))
            | (set(old["tags"]) - set(new["tags"]))
            for task, old, new in labels
        }
        return self._revisions.write(
            (task, {"tags": sorted(now[task])}, {"tags": sorted(names)})
            for task, names in after.items()
            if names != now[task]
        )

    def _splits(self, labels: Sequence[Labels]) -> int:
        """Take tasks out of the splits that they came into, and put them back into those that they
        left.

        A task stays where a class lists it, unless the change put it at that place.
        """
        if not labels:
            return 0
        ids = list(dict.fromkeys(task for task, *_ in labels))
        before, places = split_names(ids), defaultdict[tuple[str, int], list[FormerPlace]](list)
        for change in self._changes:
            for place in change.places(ids):
                places[change.split.name, place.task].append(place)
        now = {task: set(before[task]) for task in ids}
        leaves, joins = (
            defaultdict[str, list[int]](list),
            defaultdict[str, list[FormerPlace]](list),
        )
        last_places = defaultdict[int, dict[str, list[FormerPlace]]](dict)
        class_splits = defaultdict[int, set[str]](set)
        names = {change.split.name for change in self._changes}
        for task, old, new in labels:
            for name in (set(new["splits"]) - set(old["splits"])) & now[task]:
                own = places.get((name, task), ())
                if own and (
                    name in new.get("listed", ()) or not any(place.source_hash for place in own)
                ):
                    leaves[name].append(task)
                    last_places[task][name] = own
                    now[task].discard(name)
            former = former_places(task, old)
            for name in (set(old["splits"]) - set(new["splits"]) - now[task]) & names:
                joins[name] += former.get(name) or [FormerPlace(-1, task)]
                if any(place.source_hash for place in former.get(name, ())):
                    class_splits[task].add(name)
                now[task].add(name)
        for change in self._changes:
            change.remove(leaves.get(change.split.name, ()))
            self._at_end += change.put_back(joins.get(change.split.name, ()))
        movers = {task for tasks in leaves.values() for task in tasks}
        movers |= {place.task for places in joins.values() for place in places}
        return self._revisions.write(
            (
                task,
                splits_before(before[task], last_places[task]),
                splits_after(now[task], class_splits[task]),
            )
            for task in ids
            if task in movers
        )
