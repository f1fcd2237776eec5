"""Restore: the action that returns a task to how it was before one of its revisions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from django.db.models import Q

from environments.curation.action import ActionOutcome, ActionRefused, Plan
from environments.curation.edit import find_task, plan_succession, succeed
from environments.curation.history_rows import object_of, split_names
from environments.curation.membership import MembershipWork, former_places
from environments.curation.quarantine import StateWork
from environments.curation.split_counts import shares_of, still_served
from environments.curation.splits import existing_splits
from environments.curation.tags import TagWork
from environments.curation.work import RecordedAction, carry_out, change_of, claimed, recorded
from environments.database.jobs import Progress, silent
from environments.models import Split, Task, TaskRevision, TaskTag
from environments.tasks.successors import successors_of
from environments.tasks.sync import content_hash
from environments.tasks.task_places import FormerPlace, places_of


@dataclass(frozen=True, slots=True)
class Restore:
    """Restore the `before` of a revision: content, state, tags or splits, whichever it changed.

    After an edit, the old content takes the places of the task that is there now, however often
    that was edited since.
    """

    revision: int
    reason: str = ""

    def plan(self) -> Plan:
        return self._restoration().plan()

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        restoration = self._restoration()
        with recorded(
            "restore", author, self.reason, environment=restoration.task.environment_id
        ) as action:
            return action.done(
                "Restored.", 1, task=restoration.apply(action), title="Restored a task."
            )

    def _restoration(self) -> _Content | _State | _Tags | _Splits:
        revision = TaskRevision.objects.filter(pk=self.revision).first()
        if revision is None:
            raise ActionRefused("This revision does not exist. Look at the task's history.")
        if revision.successor_id is not None:
            return _Content(find_task(_latest(revision)), revision.before)
        task, before, after = (
            find_task(revision.task_id),
            object_of(revision.before),
            object_of(revision.after),
        )
        if "state" in before:
            return _State(task, before["state"], before.get("reason", ""))
        if "tags" in before:
            return _Tags(task, before["tags"])
        if "splits" in before:
            task = find_task(successors_of([task.pk]).get(task.pk, task.pk))
            former = former_places(task.pk, before)
            return _Splits(task, set(before["splits"]), set(after.get("splits", ())), former)
        raise ActionRefused(
            "This revision records what the class did, so it cannot be restored here. Edit the "
            "task instead."
        )


@dataclass(frozen=True, slots=True)
class _Content:
    task: Task
    """The task that is now in the place of the revision's."""
    spec: str

    def plan(self) -> Plan:
        self._refuse_same()
        plan = plan_succession(self.task, self.spec)
        return Plan("Restore the earlier content", 1, 1, plan.splits, plan.frozen, plan.sentences)

    def apply(self, action: RecordedAction) -> int:
        self._refuse_same()
        return succeed(self.task, self.spec, action, seen=None).pk

    def _refuse_same(self) -> None:
        if content_hash(self.spec) == self.task.content_hash:
            raise ActionRefused("The task has that content already; there is nothing to restore.")


@dataclass(frozen=True, slots=True)
class _State:
    task: Task
    state: str
    reason: str

    def plan(self) -> Plan:
        self._refuse_same()
        if self.task.state == self.state:
            return Plan(
                "Restore the earlier reason",
                1,
                1,
                sentences=(f"Its reason will be: “{self.reason}”.",),
            )
        splits, frozen = shares_of(Q(pk=self.task.pk))
        title = "Quarantine the task again" if self.state == "quarantined" else "Release the task"
        return Plan(title, 1, 1, splits, frozen, tuple(still_served(frozen)))

    def apply(self, action: RecordedAction) -> int:
        self._refuse_same()
        with claimed([self.task.pk]) as changes:
            work = StateWork(
                self.state, self.reason, changes, action.revisions, replaces_reasons=True
            )
            carry_out(action, work, [self.task.pk], changes)
        return self.task.pk

    def _refuse_same(self) -> None:
        if (self.task.state, self.task.reason) == (self.state, self.reason):
            why = f" for that reason ({self.reason})" if self.reason else ""
            raise ActionRefused(
                f"The task is {self.state}{why} already; there is nothing to restore."
            )


@dataclass(frozen=True, slots=True)
class _Tags:
    task: Task
    names: list[str]

    def plan(self) -> Plan:
        self._refuse_same()
        listed = ", ".join(f"“{name}”" for name in self.names) or "none"
        return Plan("Restore the earlier tags", 1, 1, sentences=(f"Its tags will be: {listed}.",))

    def apply(self, action: RecordedAction) -> int:
        self._refuse_same()
        carry_out(action, TagWork(lambda _: set(self.names), action.revisions), [self.task.pk], ())
        return self.task.pk

    def _refuse_same(self) -> None:
        if set(TaskTag.objects.filter(task=self.task).values_list("name", flat=True)) == set(
            self.names
        ):
            raise ActionRefused("The task has those tags already; there is nothing to restore.")


@dataclass(frozen=True, slots=True)
class _Splits:
    task: Task
    before: Collection[str]
    after: Collection[str]
    former: Mapping[str, Sequence[FormerPlace]]
    """By the name of a split, the places that the task had there."""

    def plan(self) -> Plan:
        joined, left = self._differences()
        sentences = [
            f"It will be put {self._where(split)} of split {split.name!r} again."
            for split in joined
        ]
        sentences += [f"It will be taken out of split {split.name!r}." for split in left]
        return Plan("Restore the earlier splits", 1, 1, sentences=tuple(sentences))

    def apply(self, action: RecordedAction) -> int:
        joined, left = self._differences()
        with ExitStack() as stack:
            adds = [stack.enter_context(change_of(split)) for split in joined]
            removes = [stack.enter_context(change_of(split)) for split in left]
            work = MembershipWork(
                action.revisions, adds=adds, removes=removes, former={self.task.pk: self.former}
            )
            carry_out(action, work, [self.task.pk], [*adds, *removes])
        return self.task.pk

    def _where(self, split: Split) -> str:
        positions = [place.position for place in self.former.get(split.name, ())]
        taken = places_of(split).filter(position__in=positions).exists()
        return "at its place" if positions and not taken else "at the end"

    def _differences(self) -> tuple[list[Split], list[Split]]:
        """Return (splits to join again, splits to leave), without those that are gone. Raises:
        ActionRefused."""
        now = split_names([self.task.pk])[self.task.pk]
        lost, gained = set(self.before) - set(self.after), set(self.after) - set(self.before)
        splits = existing_splits().filter(environment=self.task.environment)
        joined, left = (
            list(splits.filter(name__in=lost - now)),
            list(splits.filter(name__in=gained & now)),
        )
        if not joined and not left:
            raise ActionRefused(
                "The task is in those splits already, or they are gone; there is "
                "nothing to restore."
            )
        return joined, left


def _latest(revision: TaskRevision) -> int:
    """Return the task that is now in the place of the revision's: its last successor. Raises:
    ActionRefused."""
    while revision.successor_id is not None:
        if revision.kind == "merge":
            raise ActionRefused(
                "This edit gave the task the content of another task that had places of its own, "
                "so the two can't "
                "be distinguished. To bring the old content back, put the old task into splits "
                "from its page."
            )
        later = TaskRevision.objects.filter(
            task=revision.successor_id, successor__isnull=False, id__gt=revision.pk
        )
        following = later.order_by("id").first()
        if following is None:
            return revision.successor_id
        revision = following
    raise ActionRefused("The task that took this one's place is gone. Edit the task instead.")
