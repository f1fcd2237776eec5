"""CopyToSplit, MoveToSplit, RemoveFromSplit and SaveAsSplit: the actions that change which splits tasks are in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q

from environments.curation.action import ActionOutcome, ActionRefused, Plan, SplitShare, carry_out, change_of
from environments.curation.edit import with_content
from environments.curation.filter_conditions import is_in_split
from environments.curation.revisions import Revisions, split_names
from environments.curation.selection import Selection
from environments.curation.split_counts import count_of, in_order_of, left_out, some_of, superseded_of, tasks
from environments.curation.splits import find_split, free_name, making
from environments.database.jobs import Progress, silent
from environments.models import Environment, Split, Task
from environments.tasks.split_change import BATCH, FrozenSplit, SplitChange
from environments.tasks.task_hash import is_sent_task


@dataclass(frozen=True, slots=True)
class CopyToSplit:
    """Put tasks at the end of a split; tasks that are in it already keep their places."""

    selection: Selection
    split: int
    reason: str = ""

    def plan(self) -> Plan:
        split = _target(self.split, self.selection.condition())
        selected, old = some_of(self.selection), superseded_of(self.selection)
        there = count_of(self.selection.condition() & ~old & is_in_split(split.pk))
        added = selected - there - count_of(old)
        title = f"Copy {tasks(added)} to split {split.name!r}"
        share = SplitShare(split.pk, split.name, added)
        notes = (*_notes(self.selection.condition(), there), *_order_lost(self.selection))
        return Plan(title, selected, added, (share,), sentences=(*notes, *_not_added(self.selection)))

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        split = _target(self.split, self.selection.condition())
        revisions = Revisions("splits", author, self.reason)
        with change_of(split) as target:
            work = MembershipWork(revisions, adds=[target])
            changed = carry_out(work, _listable(self.selection), [target], progress)
        return ActionOutcome(f"Copied {tasks(changed)} to split {split.name!r}.", changed, revisions.change, split.pk)


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
        count, selected = count_of(moving), some_of(self.selection)
        there = count_of(moving & is_in_split(split.pk))
        shares = (SplitShare(source.pk, source.name, count), SplitShare(split.pk, split.name, count - there))
        absent = [f"{tasks(selected - count, 'is', 'are')} not in {source.name!r}."] if count < selected else []
        title = f"Move {tasks(count)} from split {source.name!r} to {split.name!r}"
        sentences = (*absent, *_notes(moving, there), *left_out(self.selection))
        return Plan(title, selected, count, shares, sentences=sentences)

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        source, split = self._splits()
        revisions = Revisions("splits", author, self.reason)
        chosen = in_order_of(source.pk, self.selection)
        with change_of(source) as left, change_of(split) as target:
            work = MembershipWork(revisions, adds=[target], removes=[left])
            changed = carry_out(work, chosen, [left, target], progress)
        sentence = f"Moved {tasks(changed)} from split {source.name!r} to {split.name!r}."
        return ActionOutcome(sentence, changed, revisions.change, split.pk)

    def _moving(self) -> Q:
        return self.selection.condition() & is_in_split(self.source)

    def _splits(self) -> tuple[Split, Split]:
        if self.source == self.split:
            raise ActionRefused("The two splits are the same. Choose another one to move the tasks to.")
        return _unfrozen(self.source), _target(self.split, self._moving())


@dataclass(frozen=True, slots=True)
class RemoveFromSplit:
    """Take tasks out of a split. A sync does not bring back those that its class lists there."""

    selection: Selection
    split: int
    reason: str = ""

    def plan(self) -> Plan:
        split, selected = _unfrozen(self.split), some_of(self.selection)
        count = count_of(self.selection.condition() & is_in_split(split.pk))
        share = SplitShare(split.pk, split.name, count)
        title = f"Take {tasks(count)} out of split {split.name!r}"
        return Plan(title, selected, count, (share,), sentences=tuple(left_out(self.selection)))

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        split = _unfrozen(self.split)
        revisions = Revisions("splits", author, self.reason)
        chosen = in_order_of(split.pk, self.selection)
        with change_of(split) as left:
            changed = carry_out(MembershipWork(revisions, removes=[left]), chosen, [left], progress)
        return ActionOutcome(f"Took {tasks(changed)} out of split {split.name!r}.", changed, revisions.change, split.pk)


@dataclass(frozen=True, slots=True)
class SaveAsSplit:
    """Make a curated split of the selected tasks. The selection has to name an environment."""

    selection: Selection
    name: str
    """1 to 200 characters without slashes and control characters, and not the name of another split."""
    type: str
    """Type of the split: train, validation or test."""
    reason: str = ""

    def plan(self) -> Plan:
        name, selected = free_name(self._environment(), self.name), some_of(self.selection)
        added = selected - count_of(superseded_of(self.selection))
        visible = "Agents find it the next time they list the splits."
        notes = (visible, *_notes(self.selection.condition(), 0), *_order_lost(self.selection))
        sentences = (*notes, *_not_added(self.selection))
        return Plan(f"Save {tasks(added)} as split {name!r}", selected, added, sentences=sentences)

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        some_of(self.selection)
        chosen = _listable(self.selection)
        revisions = Revisions("splits", author, self.reason)
        with making(self._environment(), self.name, self.type) as change:
            changed = carry_out(MembershipWork(revisions, adds=[change]), chosen, [change], progress)
        split = change.split
        return ActionOutcome(f"Saved {tasks(changed)} as split {split.name!r}.", changed, revisions.change, split.pk)

    def _environment(self) -> int:
        environment = self.selection.environment
        if environment is None or not Environment.objects.filter(pk=environment).exists():
            raise ActionRefused("A split belongs to one environment. Choose the environment first.")
        return environment


class MembershipWork:
    """Puts tasks into some splits and takes them out of others."""

    def __init__(
        self, revisions: Revisions, *, adds: Sequence[SplitChange] = (), removes: Sequence[SplitChange] = ()
    ) -> None:
        self._revisions, self._adds, self._removes = revisions, adds, removes
        self._added = {change.split.name: set[int]() for change in adds}
        """Name of a split -> tasks that were not in it before."""

    def stage(self, tasks: Sequence[int]) -> None:
        names = split_names(tasks)
        for change in self._removes:
            change.remove(tasks)
        for change in self._adds:
            self._added[change.split.name] |= {task for task in tasks if change.split.name not in names[task]}
            change.add(tasks)

    def settle(self, tasks: Sequence[int]) -> int:
        names = split_names(tasks)
        rows = [(task, self._before(task, names[task]), names[task]) for task in tasks]
        return self._revisions.write(
            (task, {"splits": sorted(before)}, {"splits": sorted(after)})
            for task, before, after in rows
            if before != after
        )

    def _before(self, task: int, names: set[str]) -> set[str]:
        added = {name for name, tasks in self._added.items() if task in tasks}
        return (names - added) | {change.split.name for change in self._removes}


def _listable(selection: Selection) -> Sequence[int]:
    """Return the ids of the selected tasks without superseded ones, which the plan names.

    Of each task that is marked as sent, the task of the same content comes instead: the other could not have results,
    because sessions of a place in a split are recorded by the content of its task.
    """
    old = set(Task.objects.filter(superseded_of(selection)).values_list("pk", flat=True))
    chosen = selection.all_ids()
    ids, instead = [pk for pk in chosen if pk not in old] if old else chosen, dict[int, int]()
    for start in range(0, len(ids), BATCH):
        played = Task.objects.filter(pk__in=ids[start : start + BATCH], source="played").select_related("environment")
        instead |= {task.pk: with_content(task, task.spec).pk for task in played if is_sent_task(task)}
    return list(dict.fromkeys(instead.get(pk, pk) for pk in ids)) if instead else ids


def _unfrozen(split: int) -> Split:
    row = find_split(split)
    if row.frozen:
        raise FrozenSplit(row)
    return row


def _target(split: int, chosen: Q) -> Split:
    """Return the split, if it can take the chosen tasks. Raises: ActionRefused, FrozenSplit."""
    row = _unfrozen(split)
    if row.is_generated:
        raise ActionRefused(f"The class generates the tasks of split {row.name!r}. Save these as a new split instead.")
    if Task.objects.filter(chosen).exclude(environment=row.environment).exists():
        raise ActionRefused(
            f"Split {row.name!r} belongs to {row.environment.name!r}, and some of the tasks to another environment. "
            f"Choose only tasks of {row.environment.name!r}."
        )
    return row


def _notes(chosen: Q, there: int) -> tuple[str, ...]:
    """Return sentences about chosen tasks that are in the split already (`there` of them) or are quarantined."""
    notes = list[str]()
    if there:
        notes.append(f"{tasks(there, 'is in it already and keeps its', 'are in it already and keep their')} place.")
    if quarantined := count_of(chosen & Q(state="quarantined")):
        which = tasks(quarantined, "is quarantined; release it", "are quarantined; release them")
        notes.append(f"{which} for agents to get {'it' if quarantined == 1 else 'them'}.")
    return tuple(notes)


def _not_added(selection: Selection) -> list[str]:
    """Return sentences about tasks that will not be added, because they are superseded or in another state."""
    old = count_of(superseded_of(selection))
    own = [f"{tasks(old, 'of these is', 'of these are')} superseded and will not be added."] if old else []
    return own + left_out(selection)


def _order_lost(selection: Selection) -> tuple[str, ...]:
    """Return a warning where a class's order is lost: its tasks' ids follow their hashes (`tasks/sync.py`)."""
    if selection.split is not None or count_of(selection.condition() & Q(source="code")) < 2:
        return ()
    return ("Tasks from a class won't be in its order. To keep the order, choose their split above the list.",)
