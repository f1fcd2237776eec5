"""Writes what a sync found to conflict with what people did. Part of sync; blocking."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping

from django.db.models import Exists
from django.utils import timezone

from environments.models import Split, SplitEntry, SplitRemoval, SyncConflict, Task, TaskRevision
from environments.tasks.sync_merge import Merge

AUTHOR = "sync"
"""The author of revisions that a sync writes."""


def keep_quarantined(reasons: Mapping[int, str]) -> None:
    """Quarantine tasks, for these reasons, unless they are already."""
    change, now = uuid.uuid4().hex, timezone.now()
    for task, reason in reasons.items():
        if Task.objects.filter(pk=task, state="active").update(state="quarantined", reason=reason):
            before, after = (
                {"state": "active", "reason": ""},
                {"state": "quarantined", "reason": reason},
            )
            TaskRevision.objects.create(
                task_id=task,
                kind="sync",
                change=change,
                author=AUTHOR,
                reason="Its class changed a task that people edited or quarantined.",
                before=json.dumps(before),
                after=json.dumps(after),
                created=now,
            )


def note_conflicts(split: Split, merge: Merge, listed: Collection[str]) -> list[SyncConflict]:
    """Write the conflicts of a merge that are not known yet, in the transaction that makes it
    visible. Returns them.

    `listed`: hashes of what the class lists now. What it lists again is dropped no longer.
    """
    known = SyncConflict.objects.filter(split=split)
    dropped, now = known.filter(listed=None).values_list("pk", "former__content_hash"), set(listed)
    SyncConflict.objects.filter(pk__in=[pk for pk, content in dropped if content in now]).delete()
    SplitRemoval.objects.bulk_create(
        SplitRemoval(split=split, source_hash=content) for content in merge.removals
    )
    there = set(known.values_list("former", "kept", "listed"))
    found = [
        one
        for one in dict.fromkeys(merge.conflicts)
        if (one.former, one.kept, one.listed) not in there
    ]
    for conflict in found:
        # it is superseded by the edit, too
        if conflict.kept is not None and conflict.listed is not None:
            placed = SplitEntry.objects.filter(task=conflict.listed, until=None)
            Task.objects.filter(~Exists(placed), pk=conflict.listed).update(
                replaced_by=conflict.kept
            )
    return SyncConflict.objects.bulk_create(
        SyncConflict(
            split=split,
            decision=conflict.decision,
            former_id=conflict.former,
            kept_id=conflict.kept,
            listed_id=conflict.listed,
        )
        for conflict in found
    )
