"""The base class of actions on selected tasks, which the list of tasks offers and `actions` holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from django import forms

from environments.curation.action import ActionOutcome, Plan
from environments.curation.history_rows import Revisions
from environments.curation.selection import Selection
from environments.curation.work import RecordedAction, carry_out, recorded
from environments.database.background_jobs import Progress, silent
from environments.tasks.split_change import SplitChange

TASK_ACTIONS: dict[str, type[TaskAction]] = {}
"""The actions that the list offers, by name."""


class ReasonForm(forms.Form):
    """The form for the reason of a change of tasks."""

    reason = forms.CharField(
        required=False,
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Shown in the history of each task.",
    )


@dataclass(frozen=True)
class TaskAction:
    """An action on selected tasks. Its other fields have the names of those of its form."""

    name: ClassVar[str] = ""
    """Name in the address; empty: the list does not offer it."""
    label: ClassVar[str]
    """Text of its button and title of its page."""
    order: ClassVar[int]
    """Place among the buttons, from left to right."""
    form: ClassVar[type[forms.Form]] = ReasonForm
    """No field has the name of a field of `Selection`, because both are sent in one form."""
    permission: ClassVar[str] = "environments.change_task"
    needs_split: ClassVar[bool] = False
    """Whether it is offered only where a split is listed."""
    one_environment: ClassVar[bool] = False
    """Whether all tasks have to belong to one environment."""
    changes_state: ClassVar[bool] = False
    """Whether tasks leave lists of what is served, or come back to them."""
    idle_states: ClassVar[tuple[str, ...]] = ()
    """States whose tasks it does not change, so that lists of them do not offer it."""
    kind: ClassVar[str]
    """Kind of the record: one of CurationAction.KINDS and TaskRevision.KINDS."""

    do_not_call_in_templates: ClassVar[bool] = True

    selection: Selection

    def __init_subclass__(cls) -> None:
        if cls.name:
            TASK_ACTIONS[cls.name] = cls

    @classmethod
    def of(cls, selection: Selection, values: Mapping[str, Any]) -> Self:
        """Return the action for the selection and the form's cleaned values."""
        return cls(selection, **values)

    def plan(self) -> Plan:
        """Return what `apply` will change; the reason may still be empty. Raises: ActionRefused."""
        raise NotImplementedError

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        ids = self.ids()
        reason, (environment, split) = getattr(self, "reason", "").strip(), self.place
        with ExitStack() as stack:
            action = stack.enter_context(
                recorded(self.kind, author, reason, environment=environment, split=split)
            )
            changes = [stack.enter_context(change) for change in self.changes(ids)]
            count = carry_out(
                action,
                lambda tasks: self.stage(tasks, changes, action.revisions),
                ids,
                changes,
                progress,
            )
            return self.outcome(action, count, changes)

    @property
    def place(self) -> tuple[int | None, int | None]:
        """The environment and the split that the action is recorded of."""
        return self.selection.environment, None

    def ids(self) -> Sequence[int]:
        """Return the tasks to change. Raises: ActionRefused."""
        return self.selection.all_ids()

    def changes(self, ids: Sequence[int]) -> Iterable[AbstractContextManager[SplitChange]]:
        """Return the changes of splits to enter."""
        return ()

    def stage(
        self, tasks: Sequence[int], changes: Sequence[SplitChange], revisions: Revisions
    ) -> int:
        """Stage the changes of splits and write the revisions of at most BATCH tasks, in a
        transaction. Returns how many tasks change."""
        raise NotImplementedError

    def outcome(
        self, action: RecordedAction, count: int, changes: Sequence[SplitChange]
    ) -> ActionOutcome:
        raise NotImplementedError
