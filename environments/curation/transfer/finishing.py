"""The end of an import: edits replace the old content, tasks get their labels, and everything
becomes visible.

Places and revisions are staged in batches. One transaction makes the places visible and decides the
import; the labels of tasks follow from the revisions (`curation/revision_writer.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from django.db import transaction

from environments.curation.action import MAX_TOGETHER
from environments.curation.revision_writer import apply_labels
from environments.curation.transfer.scratch_database import Scratch
from environments.curation.work import RecordedAction
from environments.database.write_pauses import give_way
from environments.models import SplitEntry
from environments.tasks.split_change import SplitChange, commit
from environments.tasks.task_places import splits_of

BATCH_TASKS = 100
MAX_BATCH_BYTES = 2 * 1024 * 1024
MAX_WAIT_SECONDS = 10.0
"""Maximum wait for a change of another split that also holds an edited task."""


class Finishing:
    """Applies the edits and labels of one import."""

    def __init__(
        self, target: SplitChange, scratch: Scratch, action: RecordedAction, stack: ExitStack
    ) -> None:
        """Prepare the end of an import into `target`.

        `target`: the change of the split that the import goes into. Other splits are claimed within
        `stack`.
        """
        self._target, self._scratch, self._action, self._stack = target, scratch, action, stack
        self._changes = {target.split.pk: target}

    def settle(self, count: int) -> None:
        """Write and commit everything. Raises: SplitBusy; nothing has changed then."""
        for kind, write in (("edits", self._edit), ("labels", self._label)):
            for items in self._scratch.batches(kind, BATCH_TASKS, MAX_BATCH_BYTES):
                self._claim(task for task, *_ in items)
                with transaction.atomic():
                    write(items)
                give_way()
        with transaction.atomic():
            commit(*self._changes.values(), also=lambda: self._action.decide(count))
            if count <= MAX_TOGETHER:
                apply_labels(self._action.row.token)
        if count > MAX_TOGETHER:
            apply_labels(self._action.row.token)

    def _claim(self, tasks: Iterable[int]) -> None:
        """Claim every split that holds one of the tasks."""
        for split in splits_of(tasks):
            if split.pk not in self._changes:
                change = SplitChange(split, wait_seconds=MAX_WAIT_SECONDS)
                self._changes[split.pk] = self._stack.enter_context(change)
        for change in self._changes.values():
            change.hold()

    def _edit(self, pairs: list[Any]) -> None:
        """Put the new content of each pair (old task, new task) in the place of the old."""
        news = [new for _, new in pairs]
        merges = SplitEntry.objects.filter(task__in=news, until=None, split__frozen=None)
        merged_tasks = set(merges.values_list("task_id", flat=True))
        for change in self._changes.values():
            change.replace(dict(pairs))
        self._target.add(news)
        self._action.revisions.write_edits(pairs, merged_tasks)

    def _label(self, items: list[Any]) -> None:
        """Write the revisions of the labels of tasks (task, before, after), and hide or show their
        places."""
        rows = defaultdict[str, list[Any]](list)
        quarantines, visible = list[int](), list[int]()
        for task, before, after in items:
            if "tags" in after and after["tags"] != before["tags"]:
                rows["tag"].append((task, {"tags": before["tags"]}, {"tags": after["tags"]}))
            if "state" in after:
                is_quarantine = after["state"] == "quarantined"
                (quarantines if is_quarantine else visible).append(task)
                old, new = (
                    {"state": labels["state"], "reason": labels["reason"]}
                    for labels in (before, after)
                )
                if old != new:
                    kind = "quarantine" if is_quarantine else "release"
                    rows[kind].append((task, old, new))
        for kind, revisions in rows.items():
            replace(self._action.revisions, kind=kind).write(revisions)
        for change in self._changes.values():
            change.set_hidden(quarantines, is_hidden=True)
            change.set_hidden(visible, is_hidden=False)
