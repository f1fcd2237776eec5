"""Settling: the end of an import. New content takes the old one's places, tasks get their labels, all becomes visible.

The last batch is in the transaction that makes everything visible, so an import that changes few existing tasks is one
moment in every respect. With more, their revisions, tags and states are written in batches just before; what agents
are served still changes in one moment, and an import that is killed meanwhile is finished by doing it again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from django.db import connection, transaction

from environments.changes import SplitChange, commit, splits_of
from environments.models import Task, TaskRevision, TaskTag
from environments.transfer.scratch import Scratch

BATCH_TASKS = 250
BATCH_BYTES = 2 * 1024 * 1024
WAIT_SECONDS = 10.0
"""For a change of another split, in which a task gets its new content too."""

_ROWS = {"sqlite": "json_each(%s)", "postgresql": "json_array_elements(%s::json)"}
_REVISE = """
    INSERT INTO environments_taskrevision
        (task_id, successor_id, kind, change, author, reason, before, after, created)
    SELECT old.id, new.id, 'edit', %s, %s, %s, old.spec, new.spec, %s
    FROM {rows} AS pair
    JOIN environments_task old ON old.id = CAST(pair.value->>0 AS bigint)
    JOIN environments_task new ON new.id = CAST(pair.value->>1 AS bigint)
"""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What all revisions of one import have in common."""

    change: str
    author: str
    reason: str
    created: datetime


class Settling:
    """`target`: the change of the split that the import goes into; other splits are claimed within `stack`."""

    def __init__(self, target: SplitChange, scratch: Scratch, stamp: Stamp, stack: ExitStack) -> None:
        self._target, self._scratch, self._stamp, self._stack = target, scratch, stamp, stack
        self._changes = {target.split.pk: target}

    def settle(self) -> None:
        """Raises: SplitBusy; then nothing is visible."""
        waiting: tuple[Literal["edits", "labels"], list[Any]] | None = None
        for batch in self._batches():
            self._write(waiting)
            waiting = batch
            self._claim(task for task, *_ in batch[1])
        with transaction.atomic():
            self._write(waiting)
            commit(*self._changes.values())

    def _batches(self) -> Iterator[tuple[Literal["edits", "labels"], list[Any]]]:
        for edits in self._scratch.batches("edits", BATCH_TASKS, BATCH_BYTES):
            yield "edits", edits
        for labels in self._scratch.batches("labels", BATCH_TASKS, BATCH_BYTES):
            yield "labels", labels

    def _claim(self, tasks: Iterable[int]) -> None:
        """Every split in which one of the tasks stands."""
        for split in splits_of(tasks):
            if split.pk not in self._changes:
                change = SplitChange(split, wait_seconds=WAIT_SECONDS)
                self._changes[split.pk] = self._stack.enter_context(change)
        for change in self._changes.values():
            change.hold()

    def _write(self, batch: tuple[Literal["edits", "labels"], list[Any]] | None) -> None:
        if batch is None:
            return
        kind, items = batch
        with transaction.atomic():
            self._edit(items) if kind == "edits" else self._label(items)

    # --- new content --------------------------------------------------------------------------------------------------

    def _edit(self, pairs: list[tuple[int, int]]) -> None:
        for change in self._changes.values():
            change.replace_all(dict(pairs))
        self._target.add(new for _, new in pairs)
        stamp: list[Any] = [self._stamp.change, self._stamp.author, self._stamp.reason, self._stamp.created]
        with connection.cursor() as cursor:
            cursor.execute(_REVISE.format(rows=_ROWS[connection.vendor]), [*stamp, json.dumps(pairs)])

    # --- labels -------------------------------------------------------------------------------------------------------

    def _label(self, items: list[tuple[int, dict[str, Any], dict[str, Any]]]) -> None:
        states: dict[tuple[str, str], list[int]] = {}
        for task, _, after in items:
            if "state" in after:
                states.setdefault((after["state"], after["reason"]), []).append(task)
        for (state, reason), tasks in states.items():
            Task.objects.filter(pk__in=tasks).update(state=state, reason=reason)
        self._tag({task: after["tags"] for task, _, after in items if "tags" in after})
        TaskRevision.objects.bulk_create([row for item in items for row in self._revisions(*item)])
        for change in self._changes.values() if states else ():
            change.refresh(task for tasks in states.values() for task in tasks)

    def _tag(self, tags: dict[int, list[str]]) -> None:
        TaskTag.objects.filter(task__in=tags).delete()
        TaskTag.objects.bulk_create(TaskTag(task_id=task, name=name) for task, names in tags.items() for name in names)

    def _revisions(self, task: int, before: dict[str, Any], after: dict[str, Any]) -> Iterator[TaskRevision]:
        if "tags" in after and after["tags"] != before["tags"]:
            yield self._revision(task, "tag", {"tags": before["tags"]}, {"tags": after["tags"]})
        state = {"state": before["state"], "reason": before["reason"]}
        if "state" in after and (wanted := {"state": after["state"], "reason": after["reason"]}) != state:
            yield self._revision(task, "quarantine" if after["state"] == "quarantined" else "release", state, wanted)

    def _revision(self, task: int, kind: str, before: dict[str, Any], after: dict[str, Any]) -> TaskRevision:
        return TaskRevision(
            task_id=task,
            kind=kind,
            change=self._stamp.change,
            author=self._stamp.author,
            reason=self._stamp.reason,
            before=json.dumps(before),
            after=json.dumps(after),
            created=self._stamp.created,
        )
