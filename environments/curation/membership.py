"""CopyToSplit, MoveToSplit, RemoveFromSplit and SaveAsSplit: the actions that change which splits
tasks are in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from environments.curation.action import ActionOutcome, ActionRefused, Plan, SplitShare
from environments.curation.edit import with_content
from environments.curation.history_rows import Revisions, split_names
from environments.curation.leaks import leaks_of_tasks, opposite_splits
from environments.curation.selection import Selection
from environments.curation.split_counts import (
    count_of,
    in_order_of,
    left_out,
    some_of,
    superseded_of,
    tasks,
)
from environments.curation.splits import find_split, free_name, making
from environments.curation.task_filter import is_in_split
from environments.curation.work import RecordedAction, carry_out, change_of, recorded
from environments.database.jobs import Progress, silent
from environments.database.json_rows import among
from environments.models import Environment, Split, Task
from environments.tasks.split_change import BATCH, SplitChange
from environments.tasks.split_errors import FrozenSplit
from environments.tasks.task_hash import is_sent_task
from environments.tasks.task_places import FormerPlace


@dataclass(frozen=True, slots=True)
class CopyToSplit:
    """Put tasks at the end of a split; tasks that are in it already keep their places."""

    selection: Selection
    split: int
    reason: str = ""

    def plan(self) -> Plan:
        split = _target(self.split, self.selection.condition())
        total, old = some_of(self.selection), superseded_of(self.selection)
        there = count_of(self.selection.condition() & ~old & is_in_split(split.pk))
        count = total - there - count_of(old)
        title = f"Copy {tasks(count)} to split {split.name!r}"
        share = SplitShare(split.pk, split.name, count)
        adding = self.selection.condition() & ~old & ~is_in_split(split.pk)
        others = list(opposite_splits(split.environment_id, split.type))
        apart = leaks_of_tasks(Task.objects.filter(adding), others, target=split).sentences
        notes = (*apart, *_notes(self.selection.condition(), there), *_order_lost(self.selection))
        return Plan(title, total, count, (share,), sentences=(*notes, *_not_added(self.selection)))

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        split = _target(self.split, self.selection.condition())
        ids = _listable(self.selection)
        with _recorded(split, author, self.reason) as action, change_of(split) as target:
            work = MembershipWork(action.revisions, adds=[target])
            count = carry_out(action, work, ids, [target], progress)
            return action.done(
                f"Copied {tasks(count)} to split {split.name!r}.", count, split=split.pk
            )


@dataclass(frozen=True, slots=True)
class MoveToSplit:
    """Take tasks out of one split and put them at the end of another in the same moment."""

    selection: Selection
    """Tasks of which those in the split `source` are moved."""
    source: int
    split: int
    reason: str = ""

    def plan(self) -> Plan:
        source, split = self._splits()
        moving = self._moving()
        count, total = count_of(moving), some_of(self.selection)
        there = count_of(moving & is_in_split(split.pk))
        shares = (
            SplitShare(source.pk, source.name, count),
            SplitShare(split.pk, split.name, count - there),
        )
        absent = (
            [f"{tasks(total - count, 'is', 'are')} not in {source.name!r}."]
            if count < total
            else []
        )
        title = f"Move {tasks(count)} from split {source.name!r} to {split.name!r}"
        others = list(opposite_splits(split.environment_id, split.type).exclude(pk=source.pk))
        rest = source if source.type != split.type else None
        apart = leaks_of_tasks(
            Task.objects.filter(moving), others, target=split, source=rest
        ).sentences
        sentences = (*apart, *absent, *_notes(moving, there), *left_out(self.selection))
        return Plan(title, total, count, shares, sentences=sentences)

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        source, split = self._splits()
        ids = in_order_of(source.pk, self.selection)
        with (
            _recorded(split, author, self.reason) as action,
            change_of(source) as origin,
            change_of(split) as target,
        ):
            work = MembershipWork(action.revisions, adds=[target], removes=[origin])
            count = carry_out(action, work, ids, [origin, target], progress)
            sentence = f"Moved {tasks(count)} from split {source.name!r} to {split.name!r}."
            return action.done(sentence, count, split=split.pk)

    def _moving(self) -> Q:
        return self.selection.condition() & is_in_split(self.source)

    def _splits(self) -> tuple[Split, Split]:
        if self.source == self.split:
            raise ActionRefused(
                "The two splits are the same. Choose another one to move the tasks to."
            )
        return _unfrozen(self.source), _target(self.split, self._moving())


@dataclass(frozen=True, slots=True)
class RemoveFromSplit:
    """Take tasks out of a split. A sync does not bring back those that its class lists there."""

    selection: Selection
    split: int
    reason: str = ""

    def plan(self) -> Plan:
        split, total = _unfrozen(self.split), some_of(self.selection)
        count = count_of(self.selection.condition() & is_in_split(split.pk))
        share = SplitShare(split.pk, split.name, count)
        title = f"Take {tasks(count)} out of split {split.name!r}"
        return Plan(title, total, count, (share,), sentences=tuple(left_out(self.selection)))

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        split = _unfrozen(self.split)
        ids = in_order_of(split.pk, self.selection)
        with _recorded(split, author, self.reason) as action, change_of(split) as change:
            count = carry_out(
                action, MembershipWork(action.revisions, removes=[change]), ids, [change], progress
            )
            return action.done(
                f"Took {tasks(count)} out of split {split.name!r}.", count, split=split.pk
            )


@dataclass(frozen=True, slots=True)
class SaveAsSplit:
    """Make a curated split of the selected tasks. The selection has to name an environment."""

    selection: Selection
    name: str
    """1 to 200 characters without slashes and control characters, and not the name of another
    split."""
    type: str
    """Type of the split: train, validation or test."""
    reason: str = ""

    def plan(self) -> Plan:
        name, total = free_name(self._environment(), self.name), some_of(self.selection)
        count = total - count_of(superseded_of(self.selection))
        visible = "Agents find it the next time they list the splits."
        adding = self.selection.condition() & ~superseded_of(self.selection)
        others = list(opposite_splits(self._environment(), self.type))
        apart = leaks_of_tasks(Task.objects.filter(adding), others).sentences
        notes = (
            visible,
            *apart,
            *_notes(self.selection.condition(), 0),
            *_order_lost(self.selection),
        )
        sentences = (*notes, *_not_added(self.selection))
        return Plan(f"Save {tasks(count)} as split {name!r}", total, count, sentences=sentences)

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        some_of(self.selection)
        ids = _listable(self.selection)
        environment = self._environment()
        with (
            recorded("splits", author, self.reason, environment=environment) as action,
            making(environment, self.name, self.type) as change,
        ):
            count = carry_out(
                action, MembershipWork(action.revisions, adds=[change]), ids, [change], progress
            )
            split = change.split
            action.settings({}, {"made": split.pk})
            return action.done(
                f"Saved {tasks(count)} as split {split.name!r}.", count, split=split.pk
            )

    def _environment(self) -> int:
        environment = self.selection.environment
        if environment is None or not Environment.objects.filter(pk=environment).exists():
            raise ActionRefused("A split belongs to one environment. Choose the environment first.")
        return environment


class MembershipWork:
    """Puts tasks into some splits and takes them out of others."""

    def __init__(
        self,
        revisions: Revisions,
        *,
        adds: Sequence[SplitChange] = (),
        removes: Sequence[SplitChange] = (),
    ) -> None:
        self._revisions, self._adds, self._removes = revisions, adds, removes

    def stage(self, tasks: Sequence[int]) -> int:
        before = split_names(tasks)
        after = {task: set(before[task]) for task in tasks}
        places = defaultdict[int, dict[str, list[FormerPlace]]](dict)
        for change in self._removes:
            for place in change.places(tasks):
                places[place.task].setdefault(change.split.name, []).append(place)
                after[place.task].discard(change.split.name)
            change.remove(tasks)
        for change in self._adds:
            change.add(tasks)
            for task in tasks:
                after[task].add(change.split.name)
        return self._revisions.write(
            (task, splits_before(before[task], places[task]), {"splits": sorted(after[task])})
            for task in tasks
            if before[task] != after[task]
        )


def splits_before(
    names: Collection[str], places: Mapping[str, Sequence[FormerPlace]]
) -> dict[str, Any]:
    """Return the `before` of a revision: the names of splits, and the places in those that the task
    leaves."""
    positions = {
        name: [[place.position, place.source_hash] for place in some]
        for name, some in places.items()
    }
    return {"splits": sorted(names)} | ({"places": positions} if positions else {})


def splits_after(names: Collection[str], class_splits: Collection[str]) -> dict[str, Any]:
    """Return the `after` of a revision: the names of splits, and those where the task is at a place
    of its class."""
    return {"splits": sorted(names)} | ({"listed": sorted(class_splits)} if class_splits else {})


def former_places(task: int, before: Mapping[str, Any]) -> dict[str, list[FormerPlace]]:
    """Return the places in the `before` of a revision, by the name of the split."""
    places = before.get("places", {})
    return {
        name: [FormerPlace(at, task, content) for at, content in some]
        for name, some in places.items()
    }


@contextmanager
def _recorded(split: Split, author: str, reason: str) -> Iterator[RecordedAction]:
    with recorded(
        "splits", author, reason, environment=split.environment_id, split=split.pk
    ) as action:
        yield action


def _listable(selection: Selection) -> Sequence[int]:
    """Return the ids of the selected tasks without superseded ones, which the plan names.

    Of each task that is marked as sent, the task of the same content comes instead: the other could
    not have results, because sessions of a place in a split are recorded by the content of its
    task.
    """
    old = set(Task.objects.filter(superseded_of(selection)).values_list("pk", flat=True))
    selected_ids = selection.all_ids()
    ids, instead = (
        [pk for pk in selected_ids if pk not in old] if old else selected_ids,
        dict[int, int](),
    )
    for start in range(0, len(ids), BATCH):
        batch = Task.objects.filter(among("pk", ids[start : start + BATCH]), source="played")
        played_tasks = batch.select_related("environment")
        instead |= {
            task.pk: with_content(task, task.spec).pk for task in played_tasks if is_sent_task(task)
        }
    return list(dict.fromkeys(instead.get(pk, pk) for pk in ids)) if instead else ids


def _unfrozen(split: int) -> Split:
    row = find_split(split)
    if row.frozen:
        raise FrozenSplit(row)
    return row


def _target(split: int, condition: Q) -> Split:
    """Return the split, if it can take the chosen tasks. Raises: ActionRefused, FrozenSplit."""
    row = _unfrozen(split)
    if row.is_generated:
        raise ActionRefused(
            f"The class generates the tasks of split {row.name!r}. Save these as a "
            "new split instead."
        )
    if Task.objects.filter(condition).exclude(environment=row.environment).exists():
        raise ActionRefused(
            f"Split {row.name!r} belongs to {row.environment.name!r}, and some of the tasks to "
            "another environment. "
            f"Choose only tasks of {row.environment.name!r}."
        )
    return row


def _notes(condition: Q, there: int) -> tuple[str, ...]:
    """Return sentences about chosen tasks that are in the split already (`there` of them) or are
    quarantined."""
    notes = list[str]()
    if there:
        notes.append(
            f"{tasks(there, 'is in it already and keeps its', 'are in it already and keep their')} place."
        )
    if count := count_of(condition & Q(state="quarantined")):
        which = tasks(count, "is quarantined; release it", "are quarantined; release them")
        notes.append(f"{which} for agents to get {'it' if count == 1 else 'them'}.")
    return tuple(notes)


def _not_added(selection: Selection) -> list[str]:
    """Return sentences about tasks that will not be added, because they are superseded or in
    another state."""
    old = count_of(superseded_of(selection))
    own = (
        [f"{tasks(old, 'of these is', 'of these are')} superseded and will not be added."]
        if old
        else []
    )
    return own + left_out(selection)


def _order_lost(selection: Selection) -> tuple[str, ...]:
    """Return a warning where a class's order is lost: its tasks' ids follow their hashes
    (`tasks/sync.py`)."""
    if selection.split is not None or count_of(selection.condition() & Q(source="code")) < 2:
        return ()
    return (
        "Tasks from a class won't be in its order. To keep the order, choose their split above "
        "the list.",
    )
