"""CopyToSplit, MoveToSplit, RemoveFromSplit and SaveAsSplit: the actions that change which splits
tasks are in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from django import forms
from django.db.models import Q

from environments.curation.action import ActionOutcome, ActionRefused, Plan, SplitShare
from environments.curation.edit import with_content
from environments.curation.history_rows import Revisions, split_names, splits_before
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
from environments.curation.splits import find_split, free_name, making, splits_to_fill
from environments.curation.task_action import ReasonForm, TaskAction
from environments.curation.task_filter import is_in_split
from environments.curation.work import RecordedAction, change_of
from environments.database.json_rows import among
from environments.models import Environment, Split, Task, Viewer
from environments.models.task_hash import is_sent_task
from environments.tasks.split_change import BATCH, SplitChange
from environments.tasks.split_errors import FrozenSplit
from environments.tasks.task_places import FormerPlace


class SplitChoice(forms.ModelChoiceField):  # type: ignore[type-arg]  # not generic when it runs
    def label_from_instance(self, obj: Split) -> str:
        return f"{obj} ({obj.size:,})"

    def clean(self, value: Any) -> Any:
        return super().clean(value).pk


class SplitForm(ReasonForm):
    """Choice of a split. Frozen and generated splits are not offered.

    `environment`: only its splits are offered; without it those of every environment that exists
    for the viewer.
    """

    into = SplitChoice(
        queryset=Split.objects.none(), empty_label="choose a split", label="Into split"
    )
    field_order = ("out_of", "into", "reason")

    def __init__(
        self, *args: Any, viewer: Viewer, environment: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        splits = splits_to_fill().seen_by(viewer)
        choices = splits.filter(environment=environment) if environment else splits
        for field in self.fields.values():
            if isinstance(field, SplitChoice):
                field.queryset = choices


class MoveForm(SplitForm):
    out_of = SplitChoice(
        queryset=Split.objects.none(), empty_label="choose a split", label="Out of split"
    )


class NewSplitForm(ReasonForm):
    name = forms.CharField(
        max_length=200,
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off"}),
        help_text="The name that agents use, for example hard-train.",
    )
    type = forms.ChoiceField(choices=Split.TYPES, help_text="Clients see what the split is for.")
    field_order = ("name", "type", "reason")


@dataclass(frozen=True)
class _Membership(TaskAction):
    """Put tasks into the last of some splits, and take them out of the first."""

    kind = "splits"
    permission = "environments.change_split"
    past: ClassVar[str]
    adds: ClassVar[bool] = True
    removes: ClassVar[bool] = False

    @property
    def splits(self) -> Sequence[int]:
        """The splits that exist before."""
        return ()

    @property
    def place(self) -> tuple[int | None, int | None]:
        split = find_split(self.splits[-1])
        return split.environment_id, split.pk

    def changes(self, ids: Sequence[int]) -> Iterable[AbstractContextManager[SplitChange]]:
        return [change_of(find_split(split)) for split in self.splits]

    def stage(
        self, tasks: Sequence[int], changes: Sequence[SplitChange], revisions: Revisions
    ) -> int:
        before = split_names(tasks)
        after = {task: set(before[task]) for task in tasks}
        places = defaultdict[int, dict[str, list[FormerPlace]]](dict)
        if self.removes:
            change = changes[0]
            for place in change.places(tasks):
                places[place.task].setdefault(change.split.name, []).append(place)
                after[place.task].discard(change.split.name)
            change.remove(tasks)
        if self.adds:
            changes[-1].add(tasks)
            for names in after.values():
                names.add(changes[-1].split.name)
        return revisions.write(
            (task, splits_before(before[task], places[task]), {"splits": sorted(after[task])})
            for task in tasks
            if before[task] != after[task]
        )

    def outcome(
        self, action: RecordedAction, count: int, changes: Sequence[SplitChange]
    ) -> ActionOutcome:
        split, source = changes[-1].split, changes[0].split
        sentence = self.past.format(tasks(count), source=repr(source.name), split=repr(split.name))
        return action.done(sentence, count, split=split.pk)


@dataclass(frozen=True)
class CopyToSplit(_Membership):
    """Put tasks at the end of a split; tasks that are in it already keep their places."""

    name, label, order = "copy", "Copy to split", 5
    form = SplitForm
    one_environment = True
    past = "Copied {} to split {split}."

    into: int
    """The split."""
    reason: str = ""

    def plan(self) -> Plan:
        split = _target(self.into, self.selection.condition())
        title = f"Copy {{}} to split {split.name!r}"
        return _plan_of_adding(self.selection, title, split.environment_id, split.type, split)

    def ids(self) -> Sequence[int]:
        _target(self.into, self.selection.condition())
        return _listable(self.selection)

    @property
    def splits(self) -> Sequence[int]:
        return (self.into,)


@dataclass(frozen=True)
class MoveToSplit(_Membership):
    """Take tasks out of one split and put them at the end of another in the same moment.

    Of the selected tasks those in the split `out_of` are moved.
    """

    name, label, order = "move", "Move to split", 6
    form = MoveForm
    one_environment = True
    past = "Moved {} from split {source} to {split}."
    removes = True

    out_of: int
    into: int
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
        absent = total - count
        title = f"Move {tasks(count)} from split {source.name!r} to {split.name!r}"
        others = list(opposite_splits(split.environment_id, split.type).exclude(pk=source.pk))
        rest = source if source.type != split.type else None
        leaks = leaks_of_tasks(Task.objects.filter(moving), others, target=split, source=rest)
        sentences = [
            *leaks.sentences,
            *([f"{tasks(absent, 'is', 'are')} not in {source.name!r}."] if absent else []),
            *_notes(moving, there),
            *left_out(self.selection),
        ]
        return Plan(title, total, count, shares, sentences=tuple(sentences))

    def ids(self) -> Sequence[int]:
        self._splits()
        return in_order_of(self.out_of, self.selection)

    @property
    def splits(self) -> Sequence[int]:
        return self.out_of, self.into

    def _moving(self) -> Q:
        return self.selection.condition() & is_in_split(self.out_of)

    def _splits(self) -> tuple[Split, Split]:
        if self.out_of == self.into:
            raise ActionRefused(
                "The two splits are the same. Choose another one to move the tasks to."
            )
        return _unfrozen(self.out_of), _target(self.into, self._moving())


@dataclass(frozen=True)
class RemoveFromSplit(_Membership):
    """Take tasks out of a split. A sync does not bring back those that its class lists there."""

    name, label, order = "remove", "Remove from this split", 7
    needs_split = True
    past = "Took {} out of split {split}."
    adds, removes = False, True

    split: int
    reason: str = ""

    @classmethod
    def of(cls, selection: Selection, values: Mapping[str, Any]) -> Self:
        return cls(selection, selection.split or 0, **values)

    def plan(self) -> Plan:
        split, total = _unfrozen(self.split), some_of(self.selection)
        count = count_of(self.selection.condition() & is_in_split(split.pk))
        share = SplitShare(split.pk, split.name, count)
        title = f"Take {tasks(count)} out of split {split.name!r}"
        return Plan(title, total, count, (share,), sentences=tuple(left_out(self.selection)))

    def ids(self) -> Sequence[int]:
        _unfrozen(self.split)
        return in_order_of(self.split, self.selection)

    @property
    def splits(self) -> Sequence[int]:
        return (self.split,)


@dataclass(frozen=True)
class SaveAsSplit(_Membership):
    """Make a curated split of the selected tasks. The selection has to name an environment."""

    name, label, order = "save", "Save as new split", 8
    form = NewSplitForm
    permission = "environments.add_split"
    one_environment = True
    past = "Saved {} as split {split}."

    split_name: str
    """1 to 200 characters without slashes and control characters, and not the name of another
    split."""
    type: str
    """Type of the split: train, validation or test."""
    reason: str = ""

    @classmethod
    def of(cls, selection: Selection, values: Mapping[str, Any]) -> Self:
        return cls(selection, values["name"], values["type"], values["reason"])

    def plan(self) -> Plan:
        environment = self._environment()
        title = f"Save {{}} as split {free_name(environment, self.split_name)!r}"
        return _plan_of_adding(self.selection, title, environment, self.type)

    @property
    def place(self) -> tuple[int | None, int | None]:
        return self._environment(), None

    def ids(self) -> Sequence[int]:
        some_of(self.selection)
        return _listable(self.selection)

    def changes(self, ids: Sequence[int]) -> Iterable[AbstractContextManager[SplitChange]]:
        return [making(self._environment(), self.split_name, self.type)]

    def outcome(
        self, action: RecordedAction, count: int, changes: Sequence[SplitChange]
    ) -> ActionOutcome:
        action.settings({}, {"made": changes[0].split.pk})
        return super().outcome(action, count, changes)

    def _environment(self) -> int:
        environment = self.selection.environment
        if environment is None or not Environment.objects.filter(pk=environment).exists():
            raise ActionRefused("A split belongs to one environment. Choose the environment first.")
        return environment


def _plan_of_adding(
    selection: Selection, title: str, environment: int, type: str, split: Split | None = None
) -> Plan:
    """Return the plan of putting the tasks into a split of that type, a new one if it is None."""
    condition, old = selection.condition(), superseded_of(selection)
    total, superseded_count = some_of(selection), count_of(old)
    adding, there = condition & ~old, 0
    sentences = list[str]()
    if split is None:
        sentences.append("Agents find it the next time they list the splits.")
    else:
        there = count_of(adding & is_in_split(split.pk))
        adding &= ~is_in_split(split.pk)
    others = list(opposite_splits(environment, type))
    sentences += leaks_of_tasks(Task.objects.filter(adding), others, target=split).sentences
    sentences += _notes(condition, there)
    if selection.split is None and count_of(condition & Q(source="code")) > 1:
        # the ids of a class's tasks follow their hashes (`tasks/sync.py`)
        sentences.append(
            "Tasks from a class won't be in its order. To keep the order, choose their split above "
            "the list."
        )
    if superseded_count:
        are = tasks(superseded_count, "of these is", "of these are")
        sentences.append(f"{are} superseded and will not be added.")
    count = total - there - superseded_count
    shares = (SplitShare(split.pk, split.name, count),) if split else ()
    sentences += left_out(selection)
    return Plan(title.format(tasks(count)), total, count, shares, sentences=tuple(sentences))


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


def _notes(condition: Q, there: int) -> list[str]:
    """Return sentences about chosen tasks that are in the split already (`there` of them) or are
    quarantined."""
    notes = list[str]()
    if there:
        which = tasks(there, "is in it already and keeps its", "are in it already and keep their")
        notes.append(f"{which} place.")
    if count := count_of(condition & Q(state="quarantined")):
        which = tasks(count, "is quarantined; release it", "are quarantined; release them")
        notes.append(f"{which} for agents to get {'it' if count == 1 else 'them'}.")
    return notes
