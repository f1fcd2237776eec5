"""The action that takes back a change of settings: of an environment, or of a split as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from environments.curation.action import Action, ActionOutcome, ActionRefused, Plan, SplitShare
from environments.curation.environment_settings import SETTINGS
from environments.curation.history_rows import object_of
from environments.curation.splits import (
    DeleteSplit,
    FreezeSplit,
    UnfreezeSplit,
    content_digest,
    edited_meanwhile,
    find_split,
    follow_edits,
    seal_of,
    to_seal,
)
from environments.curation.work import MAX_WAIT_SECONDS, recorded
from environments.database.background_jobs import Progress, silent
from environments.models import CurationAction, Environment, Split, SplitEntry
from environments.tasks.split_change import SplitChange, commit


def inverse_of(row: CurationAction) -> Action | None:
    """Return the action that takes back `row`; None if it changed tasks, which have revisions.

    Raises: ActionRefused, if the settings were changed since.
    """
    before, after = object_of(row.before), object_of(row.after)
    match row.kind:
        case "freeze" | "unfreeze" | "seal" | "unseal":
            return _of_split(row, before, after)
        case "delete":
            return BringBackSplit(row.split_id or 0, after["version"])
        case "undo" if "brought_back" in after:
            return DeleteSplit(after["brought_back"])
        case kind if setting := SETTINGS.get(kind):
            environment = Environment.objects.get(pk=row.environment_id or 0)
            if setting.values_of(environment) != after:
                raise ActionRefused(
                    f"This setting of {environment.name!r} was changed since. Look at its page."
                )
            return setting(environment.pk, **before)
    return None


def _of_split(row: CurationAction, before: Mapping[str, Any], after: Mapping[str, Any]) -> Action:
    split = find_split(row.split_id or 0)
    match row.kind:
        case "freeze" if split.frozen_hash == after["frozen_hash"]:
            return UnfreezeSplit(split.pk)
        case "unfreeze" if not split.frozen and content_digest(split) == before["frozen_hash"]:
            return FreezeSplit(split.pk)
        case "unfreeze" if not split.frozen:
            raise ActionRefused(
                f"Split {split.name!r} has other tasks or another order than when it was frozen. "
                "Undo what changed it "
                "first, or freeze it as it is now."
            )
        case "seal" | "unseal" if seal_of(split) == seal_of(Split(**after)):
            return to_seal(split, seal_of(Split(**before)))
    raise ActionRefused(f"Split {split.name!r} was changed since. Look at its page.")


@dataclass(frozen=True, slots=True)
class BringBackSplit:
    """Serve a deleted split again, with the tasks and the order that it had."""

    split: int
    version: int
    """Version of the split that was left when it was deleted."""

    def plan(self) -> Plan:
        split = self._deleted()
        count = SplitEntry.objects.filter(split=split, until=split.version).count()
        share = SplitShare(split.pk, split.name, count)
        sentences = [
            "Agents get it again, with the same tasks in the same order.",
            *edited_meanwhile(SplitEntry.objects.filter(split=split, until=split.version)),
        ]
        return Plan(
            f"Bring back split {split.name!r}", count, count, (share,), sentences=tuple(sentences)
        )

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        split = self._deleted()
        with (
            recorded("undo", author, environment=split.environment_id, split=split.pk) as action,
            SplitChange(split, wait_seconds=MAX_WAIT_SECONDS) as change,
        ):
            tasks = change.revive()
            follow_edits(change)
            commit(change, also=lambda: action.decide(tasks))
            action.settings({}, {"brought_back": split.pk})
            return action.done(f"Brought back split {split.name!r}.", tasks, split=split.pk)

    def _deleted(self) -> Split:
        split = Split.objects.select_related("environment").filter(pk=self.split).first()
        if split is None or split.is_served or split.version != self.version:
            raise ActionRefused("Its name was given to another split since, or it is back already.")
        if Split.objects.existing().filter(environment=split.environment, name=split.name).exists():
            raise ActionRefused(f"There is another split {split.name!r}.")
        return split
