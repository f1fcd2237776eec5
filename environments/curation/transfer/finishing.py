"""The end of an import: edits replace the old content, tasks get their labels, and everything
becomes visible.

Places and revisions are staged in batches. One transaction makes the places visible and decides the
import; the labels of tasks follow from the revisions (`curation/labels.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any, Literal

from django.db import connection, transaction

from environments.curation.action import MAX_TOGETHER
from environments.curation.labels import apply_labels
from environments.curation.transfer.scratch_database import Scratch
from environments.curation.work import RecordedAction
from environments.database.json_rows import execute
from environments.database.write_pauses import give_way
from environments.models import SplitEntry
from environments.tasks.split_change import SplitChange, commit
from environments.tasks.task_places import splits_of

BATCH_TASKS = 100
MAX_BATCH_BYTES = 2 * 1024 * 1024
MAX_WAIT_SECONDS = 10.0
"""Maximum wait for a change of another split that also holds an edited task."""

_NOTE = """
    INSERT INTO environments_taskrevision (change, author, reason, created, task_id, kind, before, after)
    SELECT %s, %s, %s, %s, CAST(value->>0 AS bigint), value->>1, value->>2, value->>3 FROM {rows} WHERE true
"""


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
        for kind, items in self._batches():
            self._claim(task for task, *_ in items)
            with transaction.atomic():
                self._edit(items) if kind == "edits" else self._label(items)
            give_way()
        with transaction.atomic():
            commit(*self._changes.values(), also=lambda: self._action.decide(count))
            if count <= MAX_TOGETHER:
                apply_labels(self._action.row.token)
        if count > MAX_TOGETHER:
            apply_labels(self._action.row.token)

    def _batches(self) -> Iterator[tuple[Literal["edits", "labels"], list[Any]]]:
        for edits in self._scratch.batches("edits", BATCH_TASKS, MAX_BATCH_BYTES):
            yield "edits", edits
        for labels in self._scratch.batches("labels", BATCH_TASKS, MAX_BATCH_BYTES):
            yield "labels", labels

    def _claim(self, tasks: Iterable[int]) -> None:
        """Claim every split that holds one of the tasks."""
        for split in splits_of(tasks):
            if split.pk not in self._changes:
                change = SplitChange(split, wait_seconds=MAX_WAIT_SECONDS)
                self._changes[split.pk] = self._stack.enter_context(change)
        for change in self._changes.values():
            change.hold()

    def _edit(self, pairs: list[tuple[int, int]]) -> None:
        news = [new for _, new in pairs]
        merges = set(
            SplitEntry.objects.filter(task__in=news, until=None, split__frozen=None).values_list(
                "task_id", flat=True
            )
        )
        for change in self._changes.values():
            change.replace(dict(pairs))
        self._target.add(news)
        self._action.revisions.write_edits(pairs, merges)

    def _label(self, items: list[tuple[int, dict[str, Any], dict[str, Any]]]) -> None:
        row = self._action.row
        stamp = [
            row.token,
            row.author,
            row.reason,
            connection.ops.adapt_datetimefield_value(row.created),
        ]
        execute(_NOTE, stamp, [note for item in items for note in _notes(*item)])
        states = {task: after["state"] for task, _, after in items if "state" in after}
        for change in self._changes.values() if states else ():
            change.set_hidden(
                (task for task, state in states.items() if state == "quarantined"), is_hidden=True
            )
            change.set_hidden(
                (task for task, state in states.items() if state != "quarantined"), is_hidden=False
            )


def _notes(
    task: int, before: dict[str, Any], after: dict[str, Any]
) -> Iterator[tuple[int, str, str, str]]:
    """Yield the revisions of a task: task, kind, and before and after as JSON."""
    if "tags" in after and after["tags"] != before["tags"]:
        yield task, "tag", json.dumps({"tags": before["tags"]}), json.dumps({"tags": after["tags"]})
    state = {"state": before["state"], "reason": before["reason"]}
    if (
        "state" in after
        and (labels := {"state": after["state"], "reason": after["reason"]}) != state
    ):
        kind = "quarantine" if after["state"] == "quarantined" else "release"
        yield task, kind, json.dumps(state), json.dumps(labels)
