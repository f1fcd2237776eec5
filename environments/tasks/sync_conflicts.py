"""Writes how a sync conflicts with what people did. Part of sync; blocking."""

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


def quarantine_tasks(reasons: Mapping[int, str]) -> None:
    """Quarantine active tasks, by task for a reason."""
    change, now = uuid.uuid4().hex, timezone.now()
    for task, reason in reasons.items():
        state = {"state": "quarantined", "reason": reason}
        if Task.objects.filter(pk=task, state="active").update(**state):
            TaskRevision.objects.create(
                task_id=task,
                kind="sync",
                change=change,
                author=AUTHOR,
                reason="Its class changed a task that people edited or quarantined.",
                before=json.dumps({"state": "active", "reason": ""}),
                after=json.dumps(state),
                created=now,
            )


def note_conflicts(split: Split, merge: Merge, hashes: Collection[str]) -> list[SyncConflict]:
    """Write the new conflicts of a merge, in the transaction that makes it visible, and return
    them.

    `hashes`: of what the class lists now. What it lists again is dropped no longer.
    """
    rows, now = SyncConflict.objects.filter(split=split), set(hashes)
    drops = rows.filter(listed=None).values_list("pk", "former__content_hash")
    SyncConflict.objects.filter(pk__in=[pk for pk, content in drops if content in now]).delete()
    SplitRemoval.objects.bulk_create(
        SplitRemoval(split=split, source_hash=content) for content in merge.removals
    )
    by_tasks = {(row.former_id, row.kept_id, row.listed_id): row for row in merge.conflicts}
    for tasks in rows.values_list("former", "kept", "listed"):
        by_tasks.pop(tasks, None)
    for _, edit, new in by_tasks:
        if edit is not None and new is not None:  # the new task is superseded by the edit, too
            places = SplitEntry.objects.filter(task=new, until=None)
            Task.objects.filter(~Exists(places), pk=new).update(replaced_by=edit)
    return SyncConflict.objects.bulk_create(by_tasks.values())
