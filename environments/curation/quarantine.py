"""Quarantine and Release: actions that stop and resume serving tasks. A quarantined task keeps its
places, hidden."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q

from environments.curation.action import ActionOutcome, ActionRefused, Plan
from environments.curation.history_rows import Revisions
from environments.curation.selection import Selection
from environments.curation.split_counts import (
    count_of,
    in_splits,
    left_out,
    shares_of,
    some_of,
    still_served,
    tasks,
)
from environments.curation.work import carry_out, claimed, recorded
from environments.database.jobs import Progress, silent
from environments.database.json_rows import among
from environments.models import Task
from environments.tasks.split_change import SplitChange


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Stop serving tasks, in every split that is not frozen."""

    selection: Selection
    reason: str
    """Shown wherever the task is, so it must not be empty."""

    def plan(self) -> Plan:
        """Return what `apply` will change; the reason may still be empty."""
        return _plan(self.selection, "Quarantine", "quarantined")

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        if not self.reason.strip():
            raise ActionRefused("Give a reason: it is shown wherever the task is.")
        return _apply("quarantined", self.selection, author, self.reason.strip(), progress)


@dataclass(frozen=True, slots=True)
class Release:
    """Serve quarantined tasks again, at the places that they kept."""

    selection: Selection
    reason: str = ""

    def plan(self) -> Plan:
        return _plan(self.selection, "Release", "active")

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        return _apply("active", self.selection, author, self.reason.strip(), progress)


class StateWork:
    """Gives tasks a state, and hides or shows their places."""

    def __init__(
        self,
        state: str,
        reason: str,
        changes: Sequence[SplitChange],
        revisions: Revisions,
    ) -> None:
        self._changes, self._revisions = changes, revisions
        self._labels = {"state": state, "reason": reason}

    def stage(self, tasks: Sequence[int]) -> int:
        for change in self._changes:
            change.set_hidden(tasks, is_hidden=self._labels["state"] == "quarantined")
        others = Task.objects.filter(among("pk", tasks)).exclude(state=self._labels["state"])
        before = others.order_by("pk").select_for_update().values_list("pk", "state", "reason")
        return self._revisions.write(
            (task, {"state": state, "reason": why}, self._labels) for task, state, why in before
        )


def _plan(selection: Selection, verb: str, state: str) -> Plan:
    total, others = some_of(selection), selection.condition() & ~Q(state=state)
    changing = count_of(others)
    splits, frozen = shares_of(others)
    same = [f"{tasks(total - changing, 'is', 'are')} already {state}."] if changing < total else []
    sentences = (*same, *in_splits(splits), *still_served(frozen), *left_out(selection))
    return Plan(f"{verb} {tasks(changing)}", total, changing, splits, frozen, sentences)


def _apply(
    state: str, selection: Selection, author: str, reason: str, progress: Progress
) -> ActionOutcome:
    ids = selection.all_ids()
    kind, verb = (
        ("quarantine", "Quarantined") if state == "quarantined" else ("release", "Released")
    )
    with (
        recorded(kind, author, reason, environment=selection.environment) as action,
        claimed(ids) as changes,
    ):
        work = StateWork(state, reason if state == "quarantined" else "", changes, action.revisions)
        count = carry_out(action, work, ids, changes, progress)
        return action.done(f"{verb} {tasks(count)}.", count)
