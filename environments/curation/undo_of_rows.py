"""The work of an undo: what it stages for some revisions of an action, by what they changed."""

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
"""A task, and what it had before and after the action that is undone."""


class UndoWork:
    """Takes back revisions, each unless the task was changed since in the same respect."""

    def __init__(self, revisions: Revisions, changes: Mapping[int, SplitChange]) -> None:
        """Create the work. `changes`: of the splits that can change, by id."""
        self._revisions, self._changes = revisions, list(changes.values())
        self._by_name = {change.split.name: change for change in self._changes}
        self._left = self._moved = 0

    def sentence(self, changed: int, mixed: int) -> str:
        """Return what became of the tasks. `mixed`: how many of the changed ones keep other changes
        made since."""
        said = [f"{counted(changed - mixed, 'is', 'are')} as before."] if changed > mixed else []
        if mixed:
            said.append(
                f"{counted(mixed, 'keeps', 'keep')} other changes made since; only this "
                "action was taken back."
            )
        if self._left:
            said.append(f"{counted(self._left, 'was', 'were')} changed since and left alone.")
        if self._moved:
            said.append(
                f"{counted(self._moved, 'came', 'came')} to the end, where other tasks "
                "have the places."
            )
        return " ".join(said)

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
        merged = self._merged(tasks) if edits else set[int]()
        self._left += len(edits) + len(labels)
        done = self._edits([pair for pair in edits if pair[0] not in merged])
        done += self._states([label for label in labels if "state" in label[2]])
        done += self._tags([label for label in labels if "tags" in label[2]])
        done += self._splits([label for label in labels if "splits" in label[2]])
        self._left -= done
        return done

    def _merged(self, revisions: Sequence[int]) -> set[int]:
        """Return tasks whose new content had places of its own, from which theirs cannot be told
        apart any more."""
        rows = TaskRevision.objects.filter(among("pk", revisions), kind="merge")
        return set(rows.values_list("task_id", flat=True))

    def _edits(self, edits: Sequence[tuple[int, int]]) -> int:
        """Put old contents in the places of those that replaced them, unless that was edited
        since."""
        pairs = _replaceable(edits)
        if pairs:
            for change in self._changes:
                change.replace_all(pairs)
            self._revisions.write_edits(list(pairs.items()))
        return len(pairs)

    def _states(self, labels: Sequence[Labels]) -> int:
        good = _unchanged_states(labels, Task.objects.order_by("pk").select_for_update())
        for change in self._changes if good else ():
            change.hide(task for task, _, old in good if old["state"] == "quarantined")
            change.show(task for task, _, old in good if old["state"] != "quarantined")
        return self._revisions.write(good)

    def _tags(self, labels: Sequence[Labels]) -> int:
        return self._revisions.write(
            (task, {"tags": sorted(has)}, {"tags": sorted(names)})
            for task, has, names in _changing_tags(labels)
        )

    def _splits(self, labels: Sequence[Labels]) -> int:
        if not labels:
            return 0
        heirs = successors_of([task for task, *_ in labels])
        labels = [(heirs.get(task, task), old, new) for task, old, new in labels]
        ids = [task for task, *_ in labels]
        names, places = split_names(ids), self._own_places(ids)
        before = {task: set(names[task]) for task in ids}
        lost = defaultdict[int, dict[str, list[FormerPlace]]](dict)
        leaves, joins, after = (
            defaultdict[str, list[int]](list),
            defaultdict[str, list[FormerPlace]](list),
            {},
        )
        ends, listed = defaultdict[str, list[int]](list), defaultdict[int, set[str]](set)
        for task, old, new in labels:
            mine = set(before[task])
            for name in (set(new["splits"]) - set(old["splits"])) & mine:
                own = places.get((name, task), ())
                if own and (
                    name in new.get("listed", ()) or not any(place.source_hash for place in own)
                ):
                    leaves[name].append(task)
                    lost[task][name] = own
                    mine.discard(name)
            former = former_places(task, old)
            for name in (set(old["splits"]) - set(new["splits"]) - mine) & self._by_name.keys():
                joins[name] += former.get(name, ())
                ends[name] += [] if former.get(name) else [task]
                listed[task] |= (
                    {name} if any(place.source_hash for place in former.get(name, ())) else set()
                )
                mine.add(name)
            after[task] = mine
        self._move(leaves, joins, ends)
        rows = [
            (task, splits_before(before[task], lost[task]), splits_after(after[task], listed[task]))
            for task in ids
        ]
        return self._revisions.write(row for row in rows if before[row[0]] != after[row[0]])

    def _move(
        self,
        leaves: Mapping[str, Sequence[int]],
        joins: Mapping[str, Sequence[FormerPlace]],
        ends: Mapping[str, Sequence[int]],
    ) -> None:
        for name, change in self._by_name.items():
            change.remove(leaves.get(name, ()))
            self._moved += change.put_back(joins.get(name, ()))
            self._moved += change.add(ends.get(name, ()))

    def _own_places(self, ids: Collection[int]) -> dict[tuple[str, int], list[FormerPlace]]:
        """Return the places of tasks in splits that can change."""
        found = defaultdict[tuple[str, int], list[FormerPlace]](list)
        for name, change in self._by_name.items():
            for place in change.places(ids):
                found[name, place.task].append(place)
        return found


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
    merged = {
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
        for new, old in _replaceable([pair for pair in edits if pair not in merged]).items()
    }
    states = _unchanged_states(
        [label for label in labels if "state" in label[2]], Task.objects.all()
    )
    tags = _changing_tags([label for label in labels if "tags" in label[2]])
    taken_back |= {rows[task] for task, *_ in (*states, *tags)}
    names = split_names([task for task, *_ in labels])
    for task, old, new in labels:
        before, after, now = (
            set(old.get("splits", ())),
            set(new.get("splits", ())),
            set(names[task]),
        )
        if (after - before) & now or before - after - now:
            taken_back.add(rows[task])
    return {revision.pk for revision in revisions} - taken_back


def _replaceable(edits: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return new -> old content of edits that can be taken back: the new one has its places and was
    not edited."""
    wanted = list(edits)
    olds = [old for old, _ in wanted]
    still = Task.objects.filter(among("pk", olds), replaced_by__replaced_by=None).exclude(
        replaced_by=None
    )
    there = set(still.values_list("pk", "replaced_by"))
    placed = set(_placed(olds))
    return {new: old for old, new in wanted if (old, new) in there and old not in placed}


def _unchanged_states(labels: Sequence[Labels], rows: QuerySet[Task]) -> list[Labels]:
    """Return (task, state now, state before the action) of tasks that have the state that the
    action gave them."""
    found = rows.filter(among("pk", (task for task, *_ in labels))).values_list(
        "pk", "state", "reason"
    )
    now = {task: {"state": state, "reason": why} for task, state, why in found}
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
    wanted = [
        (task, now[task], _without(now[task], old["tags"], new["tags"]))
        for task, old, new in labels
    ]
    return [one for one in wanted if one[1] != one[2]]


def _without(now: set[str], old: Collection[str], new: Collection[str]) -> set[str]:
    """Return the tags without those that a change added, and with those that it removed."""
    return (now - (set(new) - set(old))) | (set(old) - set(new))


def _placed(tasks: Collection[int]) -> list[int]:
    """Return those of the tasks that are in a split that can change."""
    found = SplitEntry.objects.filter(
        among("task_id", tasks), until=None, split__frozen=None, split__is_served=True
    )
    return list(found.values_list("task_id", flat=True))
