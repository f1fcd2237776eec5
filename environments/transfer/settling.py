"""The end of an import: edits replace the old content, tasks get their labels, and everything becomes visible.

The last batch is written in the transaction that makes everything visible, so an import that changes few existing tasks
is atomic in every respect. A larger one writes revisions, tags and states in batches just before; what agents are
served still changes at once, and an import that is killed in between is completed by repeating it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from django.db import connection, transaction

from environments.curation.edit import mark_replaced
from environments.database.json_rows import execute
from environments.models import Task, TaskTag
from environments.tasks.split_change import SplitChange, commit, splits_of
from environments.transfer.scratch_database import Scratch

BATCH_TASKS = 100
MAX_BATCH_BYTES = 2 * 1024 * 1024
MAX_WAIT_SECONDS = 10.0
"""Maximum wait for a change of another split that also holds an edited task."""

_REVISE = """
    INSERT INTO environments_taskrevision
        (task_id, successor_id, kind, change, author, reason, before, after, created)
    SELECT old.id, new.id, 'edit', %s, %s, %s, old.spec, new.spec, %s
    FROM {rows} AS pair
    JOIN environments_task old ON old.id = CAST(pair.value->>0 AS bigint)
    JOIN environments_task new ON new.id = CAST(pair.value->>1 AS bigint)
"""
_NOTE = """
    INSERT INTO environments_taskrevision (change, author, reason, created, task_id, kind, before, after)
    SELECT %s, %s, %s, %s, CAST(value->>0 AS bigint), value->>1, value->>2, value->>3 FROM {rows} WHERE true
"""
_TAG = """
    INSERT INTO environments_tasktag (task_id, name)
    SELECT CAST(value->>0 AS bigint), value->>1 FROM {rows} WHERE true
"""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The columns that all revisions of one import share."""

    change: str
    author: str
    reason: str
    created: datetime

    @property
    def parameters(self) -> tuple[Any, ...]:
        """The values in the order in which the statements above take them."""
        created = connection.ops.adapt_datetimefield_value(self.created)
        return self.change, self.author, self.reason, created


class Settling:
    """Applies the edits and labels of one import."""

    def __init__(self, target: SplitChange, scratch: Scratch, stamp: Stamp, stack: ExitStack) -> None:
        """Prepare the settling into `target`.

        `target`: the change of the split that the import goes into. Other splits are claimed within `stack`.
        """
        self._target, self._scratch, self._stamp, self._stack = target, scratch, stamp, stack
        self._changes = {target.split.pk: target}

    def settle(self) -> None:
        """Write and commit everything. Raises: SplitBusy; nothing becomes visible then."""
        waiting: tuple[Literal["edits", "labels"], list[Any]] | None = None
        for batch in self._batches():
            self._write(waiting)
            waiting = batch
            self._claim(task for task, *_ in batch[1])
        with transaction.atomic():
            self._write(waiting)
            commit(*self._changes.values())

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

    def _write(self, batch: tuple[Literal["edits", "labels"], list[Any]] | None) -> None:
        if batch is None:
            return
        kind, items = batch
        with transaction.atomic():
            self._edit(items) if kind == "edits" else self._label(items)

    def _edit(self, pairs: list[tuple[int, int]]) -> None:
        for change in self._changes.values():
            change.replace_all(dict(pairs))
        self._target.add(new for _, new in pairs)
        mark_replaced(pairs)
        execute(_REVISE, self._stamp.parameters, pairs)

    def _label(self, items: list[tuple[int, dict[str, Any], dict[str, Any]]]) -> None:
        states: dict[tuple[str, str], list[int]] = {}
        for task, _, after in items:
            if "state" in after:
                states.setdefault((after["state"], after["reason"]), []).append(task)
        for (state, reason), tasks in states.items():
            Task.objects.filter(pk__in=tasks).update(state=state, reason=reason)
        self._tag({task: after["tags"] for task, _, after in items if "tags" in after})
        execute(_NOTE, self._stamp.parameters, [row for item in items for row in _notes(*item)])
        for change in self._changes.values() if states else ():
            change.refresh(task for tasks in states.values() for task in tasks)

    def _tag(self, tags: dict[int, list[str]]) -> None:
        TaskTag.objects.filter(task__in=tags).delete()
        execute(_TAG, [], [(task, name) for task, names in tags.items() for name in names])


def _notes(task: int, before: dict[str, Any], after: dict[str, Any]) -> Iterator[tuple[int, str, str, str]]:
    """Yield the revisions of a task: task, kind, and before and after as JSON."""
    if "tags" in after and after["tags"] != before["tags"]:
        yield task, "tag", json.dumps({"tags": before["tags"]}), json.dumps({"tags": after["tags"]})
    state = {"state": before["state"], "reason": before["reason"]}
    if "state" in after and (wanted := {"state": after["state"], "reason": after["reason"]}) != state:
        kind = "quarantine" if after["state"] == "quarantined" else "release"
        yield task, kind, json.dumps(state), json.dumps(wanted)
