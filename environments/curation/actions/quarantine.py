"""Quarantine and Release: actions that stop and resume serving tasks. A quarantined task keeps its
places, hidden."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from django import forms
from django.db.models import Q

from environments.curation.action import ActionOutcome, ActionRefused, Plan
from environments.curation.history_rows import Revisions
from environments.curation.split_counts import (
    count_of,
    in_splits,
    left_out,
    shares_of,
    some_of,
    still_served,
    tasks,
)
from environments.curation.task_action import TaskAction
from environments.curation.work import RecordedAction, change_of
from environments.database.json_rows import among
from environments.models import Task
from environments.tasks.split_change import SplitChange
from environments.tasks.task_places import splits_of


class QuarantineForm(forms.Form):
    reason = forms.CharField(
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 2, "autofocus": True}),
        help_text="Shown with the task and in its history.",
    )


MAX_NAMED = 10


@dataclass(frozen=True)
class _StateChange(TaskAction):
    """Give tasks a state, and hide or show their places."""

    changes_state = True
    state: ClassVar[str]
    past: ClassVar[str]
    effects: ClassVar[tuple[str, ...]]
    """What else to know before, a sentence each."""
    reason: str = ""

    def plan(self) -> Plan:
        total, others = some_of(self.selection), self.selection.condition() & ~Q(state=self.state)
        changing = count_of(others)
        splits, frozen = shares_of(others)
        same = total - changing
        sentences = [f"{tasks(same, 'is', 'are')} already {self.state}."] if same else []
        sentences += [*in_splits(splits), *still_served(frozen), *left_out(self.selection)]
        sentences += self.effects if changing else ()
        title = f"{self.label} {tasks(changing)}"
        examples = (
            Task.objects.filter(others).order_by("pk").values_list("pk", flat=True)[:MAX_NAMED]
        )
        return Plan(title, total, changing, splits, frozen, tuple(sentences), tuple(examples))

    def changes(self, ids: Sequence[int]) -> Iterable[AbstractContextManager[SplitChange]]:
        return map(change_of, splits_of(ids))

    def stage(
        self, tasks: Sequence[int], changes: Sequence[SplitChange], revisions: Revisions
    ) -> int:
        is_quarantine = self.state == "quarantined"
        for change in changes:
            change.set_hidden(tasks, is_hidden=is_quarantine)
        after = {"state": self.state, "reason": self.reason.strip() if is_quarantine else ""}
        others = Task.objects.filter(among("pk", tasks)).exclude(state=self.state)
        before = others.order_by("pk").select_for_update().values_list("pk", "state", "reason")
        return revisions.write(
            (task, {"state": state, "reason": why}, after) for task, state, why in before
        )

    def outcome(
        self, action: RecordedAction, count: int, changes: Sequence[SplitChange]
    ) -> ActionOutcome:
        return action.done(f"{self.past} {tasks(count)}.", count)


@dataclass(frozen=True)
class Quarantine(_StateChange):
    """Stop serving tasks, in every split that is not frozen. The reason is shown wherever the task
    is, so it must not be empty."""

    name, label, order, kind = "quarantine", "Quarantine", 1, "quarantine"
    form = QuarantineForm
    state, past = "quarantined", "Quarantined"
    idle_states = ("quarantined",)
    effects = (
        "Agents are not offered them any more. Later tasks of the same split get lower indexes; "
        "titles and pages of tasks stay.",
        "Recorded episodes stay, and figures count them as before. Suites keep the tasks and say "
        "that they are quarantined.",
        "“Release” in the list of tasks serves them again, at their places. So does Undo in "
        "Activity.",
    )

    def ids(self) -> Sequence[int]:
        if not self.reason.strip():
            raise ActionRefused("Give a reason: it is shown wherever the task is.")
        return super().ids()


@dataclass(frozen=True)
class Release(_StateChange):
    """Serve quarantined tasks again, at the places that they kept."""

    name, label, order, kind = "release", "Release", 2, "release"
    state, past = "active", "Released"
    idle_states = ("served", "removed", "pasted", "active")
    effects = ("Agents are offered them again. Later tasks of the same split get higher indexes.",)
