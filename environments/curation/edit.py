"""Edit: give a task new content. Content is identity, so that is another task, which takes the old
one's places."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Max, Q

from environments.curation.action import ActionOutcome, ActionRefused, Plan, Replaced
from environments.curation.edited_spec import checked_spec
from environments.curation.revision_writer import mark_replaced
from environments.curation.split_counts import in_splits, shares_of, still_served
from environments.curation.work import RecordedAction, change_of, recorded, staged
from environments.database.background_jobs import Progress, silent
from environments.models import SplitEntry, Task, TaskFlag, TaskRevision, TaskTag
from environments.models.task_hash import content_hash
from environments.tasks.split_change import commit
from environments.tasks.task_places import splits_of


def last_revision(task: Task) -> int:
    """Return the id of the task's latest revision, 0 without any; the editor's form sends it back
    as `Edit.seen`."""
    return TaskRevision.objects.filter(task=task).aggregate(last=Max("id"))["last"] or 0


def find_task(task: int) -> Task:
    """Return the task with its environment. Raises: ActionRefused."""
    row = Task.objects.select_related("environment").filter(pk=task).first()
    if row is None:
        raise ActionRefused("This task does not exist. Look for it in the list of tasks.")
    return row


@dataclass(frozen=True, slots=True)
class Edit:
    """Give a task new content in every split that is not frozen. Its results stay with the old
    content.

    `plan` and `apply` also raise InvalidSpec, and Replaced when another person edited it since
    `seen`.
    """

    task: int
    spec: str
    """New content of the task, as JSON text."""
    seen: int
    """`last_revision` of the task when the editor opened it."""
    reason: str = ""

    def plan(self) -> Plan:
        old = find_task(self.task)
        refuse_replaced(old, self.seen)
        return plan_succession(old, self._checked(old))

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        old = find_task(self.task)
        spec = self._checked(old)
        with recorded("edit", author, self.reason, environment=old.environment_id) as action:
            new = succeed(old, spec, action, revision=self.seen)
            splits, _ = shares_of(Q(pk=new.pk))
            sentence = "Agents get the new content from now on"
            if new.state == "quarantined":
                sentence = (
                    "The new content is quarantined, so agents don't get it until you release it"
                )
            elif not splits:
                sentence = "The task is in no split, so agents don't get it"
            sentence = f"Saved. {sentence}."
            if flags := TaskFlag.objects.filter(task=new, settled=None).count():
                plural = "" if flags == 1 else "s"
                sentence += f" {flags} open flag{plural}: resolve what the edit mends."
            return action.done(sentence, 1, task=new.pk, title="Edited a task.")

    def _checked(self, old: Task) -> str:
        spec = checked_spec(old.environment, self.spec)
        if content_hash(spec) == old.content_hash:
            raise ActionRefused(
                "The content hasn't changed (spaces and the order of names don't count). Change a "
                "value."
            )
        return spec


def refuse_replaced(task: Task, revision_id: int) -> None:
    """Refuse a task that got a successor since revision `revision_id`. Raises: Replaced."""
    later = TaskRevision.objects.filter(
        task=task, successor__isnull=False, id__gt=revision_id
    ).order_by("id")
    if (revision := later.last()) is not None:
        raise Replaced(revision)


def plan_succession(old: Task, spec: str) -> Plan:
    """Return the plan of replacing the content of `old` by `spec`."""
    splits, frozen = shares_of(Q(pk=old.pk))
    new = Task.objects.filter(environment=old.environment, content_hash=content_hash(spec)).first()
    sentences = [*in_splits(splits), *still_served(frozen)]
    if not splits:
        sentences.append(
            "The task is in no split that can change, so agents won't get the new content."
        )
    if new is None and old.state == "quarantined":
        sentences.append("The new content stays quarantined until you release it.")
    if new is not None:
        sentences.append(
            f"There is a task with this content already, {new}: that task, with its results, "
            "takes the place."
        )
        if new.state == "quarantined":
            sentences.append(
                f"It is quarantined ({new.reason}), so agents won't get it until you release it."
            )
        there, _ = shares_of(Q(pk=new.pk))
        sentences += [
            f"Split {share.name!r} has it already and will have it once." for share in there
        ]
    return Plan("Save the new content", 1, 1, splits, frozen, tuple(sentences))


def succeed(old: Task, spec: str, action: RecordedAction, *, revision: int | None) -> Task:
    """Put the task with the content in the place of `old`, in all splits that are not frozen or in
    none. Returns it.

    Raises: Replaced when `old` got another successor since revision `revision` (None: that does not
    matter), SplitBusy.
    """
    with ExitStack() as stack:
        changes = [stack.enter_context(change_of(split)) for split in splits_of([old.pk])]
        stack.enter_context(transaction.atomic())
        # the second of two editors waits here, and then sees the first
        Task.objects.select_for_update().get(pk=old.pk)
        if revision is not None:
            refuse_replaced(old, revision)
        new = with_content(old, spec)
        is_merge = SplitEntry.objects.filter(task=new, until=None, split__frozen=None).exists()
        for change in changes:
            change.replace({old.pk: new.pk})
        action.revisions.write_edits([(old.pk, new.pk)], {new.pk} if is_merge else ())
        mark_replaced([(old.pk, new.pk)])
        commit(*staged(changes), also=lambda: action.decide(1))
    return new


def with_content(old: Task, spec: str) -> Task:
    """Return the task with the content; a new one takes over the state, reason and tags of
    `old`."""
    values = {"spec": spec, "source": "edit", "state": old.state, "reason": old.reason}
    new, is_new = Task.objects.get_or_create(
        environment=old.environment, content_hash=content_hash(spec), defaults=values
    )
    if is_new:
        names = TaskTag.objects.filter(task=old).values_list("name", flat=True)
        TaskTag.objects.bulk_create(TaskTag(task=new, name=name) for name in names)
    return new
