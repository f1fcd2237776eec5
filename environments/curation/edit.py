"""Edit: a task's new content. Content is identity, so it is another task, which takes the old one's places."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction
from django.db.models import Max, Q

from environments.curation.action import ActionOutcome, ActionRefused, Plan, Replaced, claimed, staged
from environments.curation.checked_text import checked_spec
from environments.curation.revisions import Revisions
from environments.curation.shares import in_splits, shares_of, still_served
from environments.database.jobs import Progress, silent
from environments.models import SplitEntry, Task, TaskRevision, TaskTag
from environments.tasks.split_change import commit
from environments.tasks.sync import content_hash


def last_revision(task: Task) -> int:
    """What an editor who looks at `task` now has seen; a form sends it back as `Edit.seen`."""
    return TaskRevision.objects.filter(task=task).aggregate(last=Max("id"))["last"] or 0


def find_task(task: int) -> Task:
    """Raises: Refused."""
    row = Task.objects.select_related("environment").filter(pk=task).first()
    if row is None:
        raise ActionRefused("This task does not exist; look for it in the list.")
    return row


@dataclass(frozen=True, slots=True)
class Edit:
    """Give a task new content, in every split that is not frozen. Results stay with the old content.

    `plan` and `apply` also raise InvalidSpec, and Replaced when somebody else edited it since `seen`.
    """

    task: int
    spec: str
    """JSON text."""
    seen: int
    """`last_revision` of the task when the editor opened it."""
    reason: str = ""

    def plan(self) -> Plan:
        old = find_task(self.task)
        refuse_replaced(old, self.seen)
        return plan_succession(old, self._checked(old))

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        old = find_task(self.task)
        spec, revisions = self._checked(old), Revisions("edit", author, self.reason)
        new = succeed(old, spec, revisions, seen=self.seen)
        splits, _ = shares_of(Q(pk=new.pk))
        served = "The new content is served from now on"
        if new.state == "quarantined":
            served = "The new content is quarantined and not served until it is released"
        elif not splits:
            served = "It stands in no split, so no agent is served it"
        return ActionOutcome(f"Saved. {served}.", 1, revisions.change, task=new.pk)

    def _checked(self, old: Task) -> str:
        spec = checked_spec(old.environment, self.spec)
        if content_hash(spec) == old.content_hash:
            raise ActionRefused(
                "The content is as it was (blanks and the order of names do not count); change a value."
            )
        return spec


def refuse_replaced(task: Task, seen: int) -> None:
    """Raises: Replaced when the task got a successor since revision `seen`."""
    later = TaskRevision.objects.filter(task=task, successor__isnull=False, id__gt=seen).order_by("id")
    if (revision := later.last()) is not None:
        raise Replaced(revision)


def plan_succession(old: Task, spec: str) -> Plan:
    """What comes of giving `old` the content."""
    splits, frozen = shares_of(Q(pk=old.pk))
    new = Task.objects.filter(environment=old.environment, content_hash=content_hash(spec)).first()
    sentences = [*in_splits(splits), *still_served(frozen)]
    if not splits:
        sentences.append("It stands in no split that can change, so agents will not be served the new content.")
    if new is None and old.state == "quarantined":
        sentences.append("The new content stays quarantined until it is released.")
    if new is not None:
        sentences += _about_known(new)
    return Plan("Save the new content", 1, 1, splits, frozen, tuple(sentences))


def _about_known(new: Task) -> list[str]:
    known = [f"This content is known already, as {new}: that task, with its results, takes the place."]
    if new.state == "quarantined":
        known.append(f"It is quarantined ({new.reason}) and will not be served until it is released.")
    there, _ = shares_of(Q(pk=new.pk))
    return known + [f"In split {share.name!r} it has a place of its own and will stand there once." for share in there]


def succeed(old: Task, spec: str, revisions: Revisions, *, seen: int | None) -> Task:
    """The task with the content, which now stands where `old` stood, except in frozen splits. All or nothing.

    Raises: Replaced when `old` got another successor since revision `seen` (None: does not matter), SplitBusy.
    """
    with claimed([old.pk]) as changes, transaction.atomic():
        Task.objects.select_for_update().get(pk=old.pk)  # the second of two editors waits here, and then sees the first
        if seen is not None:
            refuse_replaced(old, seen)
        new = _with_content(old, spec)
        is_merge = SplitEntry.objects.filter(task=new, until=None, split__frozen=None).exists()
        for change in changes:
            change.replace(old.pk, new.pk)
        revisions.write_edit(old.pk, new.pk, old.spec, new.spec, is_merge=is_merge)
        commit(*staged(changes))
    return new


def _with_content(old: Task, spec: str) -> Task:
    """The task that has it; a new one takes over state, reason and tags of `old`."""
    values = {"spec": spec, "source": "edit", "state": old.state, "reason": old.reason}
    new, is_new = Task.objects.get_or_create(
        environment=old.environment, content_hash=content_hash(spec), defaults=values
    )
    if is_new:
        names = TaskTag.objects.filter(task=old).values_list("name", flat=True)
        TaskTag.objects.bulk_create(TaskTag(task=new, name=name) for name in names)
    return new
