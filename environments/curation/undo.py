"""Undo: the action that takes back another one as a whole. What was changed since is left alone."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, QuerySet

from environments.curation.action import ActionOutcome, ActionRefused, Plan
from environments.curation.history_rows import object_of
from environments.curation.labels import changes_of
from environments.curation.split_counts import tasks
from environments.curation.splits import existing_splits
from environments.curation.undo_of_rows import UndoWork, left_as_they_are
from environments.curation.undo_of_settings import inverse_of
from environments.curation.work import RecordedAction, carry_out, change_of, recorded
from environments.database.jobs import Progress, silent
from environments.database.json_rows import among
from environments.models import CurationAction, Split, TaskRevision
from environments.tasks.split_change import SplitChange
from environments.tasks.task_places import splits_of

MAX_COUNTED = 1000
"""Tasks that were changed since are counted up to this."""


@dataclass(frozen=True, slots=True)
class ChangedSince:
    """A task of an action that was changed since."""

    revision: TaskRevision
    """What the action did to it."""
    later: TaskRevision
    """The latest change since."""
    action: CurationAction | None
    """The action that `later` belongs to."""
    is_left_alone: bool
    """Whether the undo leaves the task as it is, because the same was changed."""


@dataclass(slots=True)
class _Touched:
    """What the revisions of an action are about."""

    revisions: array[int] = field(default_factory=lambda: array("q"))
    """Newest first."""
    tasks: set[int] = field(default_factory=set)
    """Tasks whose states or contents it changed, in whatever splits they are."""
    splits: set[str] = field(default_factory=set)
    """Names of the splits into which it put tasks, or out of which it took some."""


@dataclass(frozen=True, slots=True)
class Undo:
    """Take back an action: states, tags, contents, splits with the places in them, and settings."""

    action: int
    reason: str = ""

    def plan(self) -> Plan:
        row = find_undoable(self.action)
        title = f"Undo: {row.title}"
        if (inverse := inverse_of(row)) is not None:
            return replace(inverse.plan(), title=title)
        since = changed_since(row)[: MAX_COUNTED + 1].count()
        but = ", except in what was changed since" if since else ""
        sentences = [
            f"{tasks(row.changed, 'will be', 'will be')} as before, at the same places{but}."
        ]
        if since:
            many = f"Over {MAX_COUNTED:,}" if since > MAX_COUNTED else f"{since:,}"
            sentences.append(f"{many} of them had other changes since, which are left alone.")
        frozen = _splits(row, self._touched(row, is_brief=True).splits)
        sentences += [
            f"Split {split.name!r} is frozen and stays as it is."
            for split in frozen
            if split.frozen
        ]
        if object_of(row.after).get("made"):
            sentences.append("The split that it made is deleted, unless other tasks are in it.")
        return Plan(title, row.changed, row.changed, sentences=tuple(sentences))

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        row = find_undoable(self.action)
        if (inverse := inverse_of(row)) is not None:
            outcome = inverse.apply(author, progress)
            CurationAction.objects.filter(token=outcome.change).update(
                undoes=row, reason=self.reason
            )
            return outcome
        touched = self._touched(row)
        since = list(changed_since(row).values_list("pk", flat=True))
        with _recorded(row, author, self.reason) as action, _claimed(row, touched) as changes:
            work = UndoWork(action.revisions, changes)
            made = changes.get(row.split_id or 0) if object_of(row.after).get("made") else None
            also = _deleting(made) if made is not None else lambda: None
            changed = carry_out(
                action, work, touched.revisions, list(changes.values()), progress, also
            )
            left = left_alone(row, action.row).filter(among("pk", since)).count()
            sentence = f"Undone: {row.title} {work.sentence(changed, len(since) - left)}"
            outcome = action.done(sentence, changed, split=row.split_id)
        if not changed:
            raise ActionRefused("Nothing was undone: all that this action did was changed since.")
        return outcome

    def _touched(self, row: CurationAction, *, is_brief: bool = False) -> _Touched:
        """Read the revisions; `is_brief`: only the newest some thousand."""
        found = _Touched()
        for batch in changes_of(row.token, newest_first=True):
            for pk, task, successor, before, after in batch:
                found.revisions.append(pk)
                new = object_of(after) if successor is None else {}
                if successor is not None or "state" in new:
                    found.tasks.add(successor or task)
                if "splits" in new:
                    found.splits |= set(object_of(before).get("splits", ())) ^ set(new["splits"])
            if is_brief:
                break
        return found


def find_undoable(action: int) -> CurationAction:
    """Return the action. Raises: ActionRefused."""
    row = CurationAction.objects.select_related("environment", "split").filter(pk=action).first()
    if row is None:
        raise ActionRefused("This action does not exist. Look at the activity.")
    if row.stage != "done":
        raise ActionRefused("This action has not finished. Try again when it has.")
    if hasattr(row, "undone_by"):
        raise ActionRefused(
            f"{row.undone_by.author} has undone this already. Undo that to do it again."
        )
    return row


def changed_since(row: CurationAction) -> QuerySet[TaskRevision]:
    """Return the revisions of an action whose tasks have later ones, of other actions."""
    later = TaskRevision.objects.filter(task=OuterRef("task"), pk__gt=OuterRef("pk")).exclude(
        change=row.token
    )
    followed = TaskRevision.objects.filter(task=OuterRef("successor")).exclude(change=row.token)
    return TaskRevision.objects.filter(Exists(later) | Exists(followed), change=row.token).order_by(
        "pk"
    )


def first_changed_since(row: CurationAction, most: int) -> list[ChangedSince]:
    """Return the first tasks of an action that were changed since, a few hundred at most."""
    revisions = list(changed_since(row)[:most])
    tasks_now = [one.successor_id or one.task_id for one in revisions] + [
        one.task_id for one in revisions
    ]
    own = (
        TaskRevision.objects.filter(task__in=tasks_now)
        .exclude(change=row.token)
        .defer("before", "after")
    )
    later: dict[int, TaskRevision] = {}
    for one in own.filter(pk__gt=min((one.pk for one in revisions), default=0)).order_by("pk"):
        later[one.task_id] = one
    actions = {
        one.token: one
        for one in CurationAction.objects.filter(token__in={one.change for one in later.values()})
    }
    left = left_as_they_are(revisions)
    found = [
        (one, later.get(one.successor_id or one.task_id) or later.get(one.task_id))
        for one in revisions
    ]
    return [
        ChangedSince(one, last, actions.get(last.change), one.pk in left)
        for one, last in found
        if last
    ]


def left_alone(row: CurationAction, undo: CurationAction) -> QuerySet[TaskRevision]:
    """Return the revisions of an undone action that `undo` left as they are, because of changes
    since."""
    own = TaskRevision.objects.filter(change=undo.token)
    is_undone = Exists(own.filter(task=OuterRef("task"))) | Exists(
        own.filter(successor=OuterRef("task"))
    )
    return TaskRevision.objects.filter(change=row.token).exclude(is_undone).order_by("pk")


@contextmanager
def _recorded(row: CurationAction, author: str, reason: str) -> Iterator[RecordedAction]:
    places = {"environment": row.environment_id, "split": row.split_id}
    with recorded("undo", author, reason, **places) as action:
        try:
            with transaction.atomic():
                CurationAction.objects.filter(pk=action.row.pk).update(undoes=row)
        except IntegrityError as error:
            raise ActionRefused("Somebody else is undoing this action.") from error
        action.row.undoes = row
        yield action


@contextmanager
def _claimed(row: CurationAction, touched: _Touched) -> Iterator[dict[int, SplitChange]]:
    """Enter a change of each split that can change, by id. Raises: SplitBusy."""
    splits = {split.pk: split for split in splits_of(touched.tasks)}
    splits |= {split.pk: split for split in _splits(row, touched.splits) if not split.frozen}
    with ExitStack() as stack:
        yield {pk: stack.enter_context(change_of(split)) for pk, split in sorted(splits.items())}


def _splits(row: CurationAction, names: Collection[str]) -> Iterable[Split]:
    return existing_splits().filter(environment=row.environment_id, name__in=names) if names else ()


def _deleting(change: SplitChange) -> Any:
    """Return what deletes the split in the commit of the change, if it has no tasks left."""

    def delete() -> None:
        if change.is_empty:
            Split.objects.filter(pk=change.split.pk).update(is_served=False)

    return delete
