"""Conflicts between what people did to tasks and what their class changed: which are open, and how
they are settled."""

from __future__ import annotations

from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from environments.curation.action import Action, ActionOutcome, ActionRefused
from environments.curation.actions.membership import CopyToSplit, RemoveFromSplit
from environments.curation.actions.quarantine import Release
from environments.curation.edit import Edit, last_revision
from environments.curation.selection import Selection
from environments.models import UNRESTRICTED, SplitEntry, SplitRemoval, SyncConflict, seen_at


def open_conflicts() -> QuerySet[SyncConflict]:
    """Return the conflicts that nobody settled, and that no later change of the tasks has ended."""
    digest = Coalesce(OuterRef("listed__content_hash"), OuterRef("former__content_hash"))
    places = SplitEntry.objects.filter(seen_at(F("split__version")), split=OuterRef("split"))
    removals = SplitRemoval.objects.filter(
        split=OuterRef("split"), source_hash=OuterRef("listed__content_hash")
    )
    holds = (
        Q(Exists(places.filter(task=OuterRef("kept"), source_hash=digest)), decision="edit")
        | Q(Exists(removals), decision="removal")
        | Q(decision__in=("edit", "quarantine"), listed__state="quarantined")
    )
    is_listed = Q(listed=None) | Q(listed__dropped=None)
    rows = SyncConflict.objects.filter(holds, is_listed, settled=None, split__is_served=True)
    return rows.select_related("split__environment", "former", "kept", "listed")


def take_from_class(conflict: int, author: str) -> ActionOutcome:
    """Settle a conflict by what the class says: what people did to the task is taken back in favour
    of it. Raises: ActionRefused."""
    row = _open(conflict)
    outcome = _change_to_class(row, "what the class lists now").apply(author)
    _settle(row, author)
    return outcome


def _change_to_class(row: SyncConflict, reason: str) -> Action:
    task = row.listed
    if task is not None and task.state == "quarantined":
        return Release(Selection(ids=(task.pk,), viewer=UNRESTRICTED), reason)
    if row.decision == "edit" and row.kept is not None:
        if task is None:
            return RemoveFromSplit(
                Selection(ids=(row.kept.pk,), viewer=UNRESTRICTED), row.split_id, reason
            )
        return Edit(row.kept.pk, task.spec, last_revision(row.kept), reason)
    tasks = Selection(ids=(task.pk if task else 0,), viewer=UNRESTRICTED)
    return CopyToSplit(tasks, row.split_id, reason)


def keep_decision(conflict: int, author: str) -> ActionOutcome:
    """Settle a conflict by what people did, which stays in force. Raises: ActionRefused."""
    _settle(_open(conflict), author)
    return ActionOutcome("Kept what people did.", 0)


def _open(conflict: int) -> SyncConflict:
    row = open_conflicts().filter(pk=conflict).first()
    if row is None:
        raise ActionRefused(
            "This conflict is settled already, or the task was changed since. Look at the list."
        )
    return row


def _settle(row: SyncConflict, author: str) -> None:
    SyncConflict.objects.filter(pk=row.pk).update(settled=timezone.now(), settled_by=author[:150])
