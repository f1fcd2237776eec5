"""What an undo stages for some revisions: each is taken back, unless the same has changed again
since."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from django.db.models import QuerySet

from environments.curation.history_rows import Revisions, object_of, split_names
from environments.curation.labels import changes_in
from environments.curation.membership import former_places, splits_after, splits_before
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
        for _, task, successor, before, after in changes_in(
            TaskRevision.objects.filter(among("pk", tasks))
        ):
            if successor is None:
                labels.append((task, object_of(before), object_of(after)))
            else:
                edits.append((task, successor))
        # the new content had places of its own, which are now the same as those of the old one
        merges = TaskRevision.objects.filter(among("pk", tasks), kind="merge")
        inseparable = set(merges.values_list("task_id", flat=True)) if edits else set[int]()
        undone = self.contents(_replaceable([pair for pair in edits if pair[0] not in inseparable]))
        undone += self._states([label for label in labels if "state" in label[2]])
        undone += self._tags([label for label in labels if "tags" in label[2]])
        undone += self.splits(_of_successors([label for label in labels if "splits" in label[2]]))
        self._left_alone += len(edits) + len(labels) - undone
        return undone

    def contents(self, pairs: Mapping[int, int]) -> int:
        """Put each old content in the places of the new one, which is its key."""
        for change in self._changes if pairs else ():
            change.replace(pairs)
        self._revisions.write_edits(list(pairs.items()))
        return len(pairs)

    def _states(self, labels: Sequence[Labels]) -> int:
        states = _unchanged_states(labels, Task.objects.order_by("pk").select_for_update())
        for change in self._changes if states else ():
            change.set_hidden(
                (task for task, _, old in states if old["state"] == "quarantined"), is_hidden=True
            )
            change.set_hidden(
                (task for task, _, old in states if old["state"] != "quarantined"), is_hidden=False
            )
        return self._revisions.write(states)

    def _tags(self, labels: Sequence[Labels]) -> int:
        return self._revisions.write(
            (task, {"tags": sorted(now)}, {"tags": sorted(names)})
            for task, now, names in _changing_tags(labels)
        )

    def splits(self, labels: Sequence[Labels]) -> int:
        """Take tasks out of the splits that they came into, and put them back into those that they
        left.

        A task stays where a class lists it, unless the change put it at that place.
        """
        if not labels:
            return 0
        ids = list(dict.fromkeys(task for task, *_ in labels))
        before, places = split_names(ids), self._places(ids)
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

    def _places(self, ids: Collection[int]) -> dict[tuple[str, int], list[FormerPlace]]:
        """Return the places of tasks in splits that can change, by the split's name and the
        task."""
        places = defaultdict[tuple[str, int], list[FormerPlace]](list)
        for change in self._changes:
            for place in change.places(ids):
                places[change.split.name, place.task].append(place)
        return places


def _of_successors(labels: Sequence[Labels]) -> list[Labels]:
    """Return what is the same of the tasks that edits put in the places of these."""
    heirs = successors_of([task for task, *_ in labels])
    return [(heirs.get(task, task), old, new) for task, old, new in labels]


def left_as_they_are(revisions: Sequence[TaskRevision]) -> set[int]:
    """Return the ids of those revisions of an action that its undo would leave alone, by what their
    tasks are now.

    A few hundred at most. Where a task is in a split for several reasons, the undo itself decides.
    """
    edits = {
        (revision.task_id, revision.successor_id): revision.pk
        for revision in revisions
        if revision.successor_id is not None
    }
    merges = {
        (revision.task_id, revision.successor_id)
        for revision in revisions
        if revision.kind == "merge"
    }
    rows = {
        revision.task_id: revision.pk for revision in revisions if revision.successor_id is None
    }
    labels = [
        (revision.task_id, object_of(revision.before), object_of(revision.after))
        for revision in revisions
        if revision.successor_id is None
    ]
    taken_back = {
        edits[old, new]
        for new, old in _replaceable([pair for pair in edits if pair not in merges]).items()
    }
    states = _unchanged_states(
        [label for label in labels if "state" in label[2]], Task.objects.all()
    )
    tags = _changing_tags([label for label in labels if "tags" in label[2]])
    taken_back |= {rows[task] for task, *_ in (*states, *tags)}
    moves = [label for label in labels if "splits" in label[2]]
    names = split_names([task for task, *_ in _of_successors(moves)])
    for (task, old, new), (heir, *_) in zip(moves, _of_successors(moves), strict=True):
        before, after = set(old["splits"]), set(new["splits"])
        if (after - before) & names[heir] or before - after - names[heir]:
            taken_back.add(rows[task])
    return {revision.pk for revision in revisions} - taken_back


def _replaceable(edits: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return new -> old content of edits that can be taken back: the new one has its places and was
    not edited."""
    pairs = list(edits)
    olds = [old for old, _ in pairs]
    still = Task.objects.filter(among("pk", olds), replaced_by__replaced_by=None).exclude(
        replaced_by=None
    )
    there = set(still.values_list("pk", "replaced_by"))
    in_splits = set(_placed(olds))
    return {new: old for old, new in pairs if (old, new) in there and old not in in_splits}


def _unchanged_states(labels: Sequence[Labels], rows: QuerySet[Task]) -> list[Labels]:
    """Return (task, state now, state before the action) of tasks that have the state that the
    action gave them."""
    states = rows.filter(among("pk", (task for task, *_ in labels))).values_list(
        "pk", "state", "reason"
    )
    now = {task: {"state": state, "reason": why} for task, state, why in states}
    return [
        (task, now[task], old) for task, old, new in labels if now[task] == {"reason": "", **new}
    ]


def _changing_tags(labels: Sequence[Labels]) -> list[tuple[int, set[str], set[str]]]:
    """Return (task, its tags, its tags once the action is taken back) of tasks that would
    change."""
    now = defaultdict[int, set[str]](set)
    tags = TaskTag.objects.filter(among("task_id", (label[0] for label in labels)))
    for task, name in tags.values_list("task_id", "name"):
        now[task].add(name)
    changes = [
        (task, now[task], _without(now[task], old["tags"], new["tags"]))
        for task, old, new in labels
    ]
    return [change for change in changes if change[1] != change[2]]


def _without(now: set[str], old: Collection[str], new: Collection[str]) -> set[str]:
    """Return the tags without those that a change added, and with those that it removed."""
    return (now - (set(new) - set(old))) | (set(old) - set(new))


def _placed(tasks: Collection[int]) -> list[int]:
    """Return those of the tasks that are in a split that can change."""
    entries = SplitEntry.objects.filter(
        among("task_id", tasks), until=None, split__frozen=None, split__is_served=True
    )
    return list(entries.values_list("task_id", flat=True))
