"""Undo: takes back an action, or what it did to one task. What has changed again since is left
alone."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from environments.curation.action import ActionOutcome, ActionRefused, Plan
from environments.curation.edit import find_task, plan_succession, succeed
from environments.curation.history_rows import object_of
from environments.curation.revision_writer import Change, changes_of
from environments.curation.split_counts import shares_of, still_served, tasks
from environments.curation.undo_of_settings import inverse_of
from environments.curation.undo_of_tasks import UndoWork
from environments.curation.work import carry_out, change_of, recorded
from environments.database.background_jobs import Progress, silent
from environments.models import CurationAction, Split, TaskRevision
from environments.tasks.split_change import SplitChange
from environments.tasks.successors import successors_of
from environments.tasks.task_places import splits_of

MAX_COUNTED = 1000
"""Tasks that were changed since are counted up to this."""


NOTHING_UNDONE = (
    "Nothing was undone: what this changed has changed again since, or its split is frozen or gone."
)


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
        sentences = [f"{tasks(row.changed, 'will be', 'will be')} as before, at the same places."]
        if since := _changed_since(row)[: MAX_COUNTED + 1].count():
            count = f"Over {MAX_COUNTED:,}" if since > MAX_COUNTED else f"{since:,}"
            has = "has" if since == 1 else "have"
            sentences.append(f"{count} of them {has} changed since; the undo keeps these changes.")
        # the newest some thousand revisions name the splits of almost every action
        newest = _Revised.read(next(changes_of(row.token, newest_first=True), ()))
        sentences += _frozen(row.environment_id, newest.splits)
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
        subject = _Revised.read(
            change for batch in changes_of(row.token, newest_first=True) for change in batch
        )
        places = {"environment": row.environment_id, "split": row.split_id}
        with recorded("undo", author, self.reason, **places) as action:
            _refuse_second_undo(action.row, row)
            with _claimed(row.environment_id, subject) as changes:
                new_split = (
                    changes.get(row.split_id or 0) if object_of(row.after).get("made") else None
                )

                def delete_empty() -> None:
                    if new_split is not None and new_split.is_empty:
                        Split.objects.filter(pk=new_split.split.pk).update(is_served=False)

                work = UndoWork(action.revisions, changes.values())
                splits = list(changes.values())
                count = carry_out(
                    action, work.stage, subject.revisions, splits, progress, also=delete_empty
                )
            sentence = f"Undone: {row.title} {work.sentence()}".strip()
            outcome = action.done(sentence, count)
        if not count:
            raise ActionRefused(NOTHING_UNDONE)
        return outcome


@dataclass(frozen=True, slots=True)
class UndoInTask:
    """Take back what an action did to one task, from the task's history.

    An earlier content comes back however often the task was edited since.
    """

    revision: int
    reason: str = ""

    def plan(self) -> Plan:
        revision = self._revision()
        if revision.successor_id is not None:
            content = plan_succession(find_task(_latest(revision)), revision.before)
            return replace(content, title="Bring back the earlier content")
        splits, frozen = shares_of(Q(pk=revision.task_id))
        subject = _Revised.read([_change_of(revision)])
        sentences = _frozen(revision.task.environment_id, subject.splits)
        if subject.tasks:
            sentences += still_served(frozen)
        return Plan("Undo this change", 1, 1, splits, frozen, tuple(sentences))

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        revision = self._revision()
        environment = revision.task.environment_id
        with recorded("undo", author, self.reason, environment=environment) as action:
            if revision.successor_id is not None:
                task = succeed(
                    find_task(_latest(revision)), revision.before, action, revision=None
                ).pk
            else:
                task = successors_of([revision.task_id]).get(revision.task_id, revision.task_id)
                with _claimed(environment, _Revised.read([_change_of(revision)])) as changes:
                    work = UndoWork(action.revisions, changes.values())
                    if not carry_out(action, work.stage, [revision.pk], list(changes.values())):
                        raise ActionRefused(NOTHING_UNDONE)
            return action.done("Undone.", 1, task=task, title="Undid a change of a task.")

    def _revision(self) -> TaskRevision:
        revisions = TaskRevision.objects.select_related("task")
        revision = revisions.filter(pk=self.revision).first()
        if revision is None:
            raise ActionRefused("This change does not exist. Look at the task's history.")
        if revision.kind == "sync":
            raise ActionRefused("The class made this change. Edit the task instead.")
        return revision


def _latest(revision: TaskRevision) -> int:
    """Return the task that is now in the place of an edited one. Raises: ActionRefused."""
    place = revision
    while place.successor_id is not None:
        if place.kind == "merge":
            raise ActionRefused(
                "The edit gave the task the content of another task that had places of its own, "
                "so the two can't be distinguished. Put the old task into splits from its page."
            )
        later = TaskRevision.objects.filter(
            task=place.successor_id, successor__isnull=False, id__gt=place.pk
        )
        following = later.order_by("id").first()
        if following is None:
            if place.successor_id == revision.task_id:
                raise ActionRefused("The task has that content already.")
            return place.successor_id
        place = following
    raise ActionRefused("The task that took this one's place is gone. Edit the task instead.")


@dataclass(slots=True)
class _Revised:
    """What some revisions are about."""

    revisions: array[int] = field(default_factory=lambda: array("q"))
    """In the order in which they are taken back."""
    tasks: set[int] = field(default_factory=set)
    """Tasks whose states or contents were changed, in whatever splits they are."""
    splits: set[str] = field(default_factory=set)
    """Names of the splits into which tasks were put, or out of which they were taken."""

    @classmethod
    def read(cls, changes: Iterable[Change]) -> _Revised:
        subject = cls()
        for pk, task, successor, before, after in changes:
            subject.revisions.append(pk)
            new = object_of(after) if successor is None else {}
            if successor is not None or "state" in new:
                subject.tasks.add(successor or task)
            if "splits" in new:
                subject.splits |= set(object_of(before).get("splits", ())) ^ set(new["splits"])
        return subject


def _change_of(revision: TaskRevision) -> Change:
    return revision.pk, revision.task_id, None, revision.before, revision.after


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


def _changed_since(row: CurationAction) -> QuerySet[TaskRevision]:
    """Return the revisions of an action whose tasks have later ones, of other actions."""
    later = TaskRevision.objects.filter(task=OuterRef("task"), pk__gt=OuterRef("pk")).exclude(
        change=row.token
    )
    edits = TaskRevision.objects.filter(task=OuterRef("successor")).exclude(change=row.token)
    return TaskRevision.objects.filter(Exists(later) | Exists(edits), change=row.token)


def left_alone(row: CurationAction, undo: CurationAction) -> QuerySet[TaskRevision]:
    """Return the revisions of an undone action that `undo` left as they are, because of changes
    since."""
    own = TaskRevision.objects.filter(change=undo.token)
    is_undone = Exists(own.filter(task=OuterRef("task"))) | Exists(
        own.filter(successor=OuterRef("task"))
    )
    return TaskRevision.objects.filter(change=row.token).exclude(is_undone).order_by("pk")


def _refuse_second_undo(undo: CurationAction, row: CurationAction) -> None:
    """Record what the undo takes back, which only one can. Raises: ActionRefused."""
    try:
        with transaction.atomic():
            CurationAction.objects.filter(pk=undo.pk).update(undoes=row)
    except IntegrityError as error:
        raise ActionRefused("Somebody else is undoing this action.") from error
    undo.undoes = row


@contextmanager
def _claimed(environment: int | None, subject: _Revised) -> Iterator[dict[int, SplitChange]]:
    """Enter a change of each split that can change, by id. Raises: SplitBusy."""
    splits = {split.pk: split for split in splits_of(subject.tasks)}
    named_splits = _named(environment, subject.splits)
    splits |= {split.pk: split for split in named_splits if not split.frozen}
    with ExitStack() as stack:
        yield {pk: stack.enter_context(change_of(split)) for pk, split in sorted(splits.items())}


def _named(environment: int | None, names: Collection[str]) -> Iterable[Split]:
    return Split.objects.existing().filter(environment=environment, name__in=names) if names else ()


def _frozen(environment: int | None, names: Collection[str]) -> list[str]:
    splits = [split for split in _named(environment, names) if split.frozen]
    return [f"Split {split.name!r} is frozen and stays as it is." for split in splits]
