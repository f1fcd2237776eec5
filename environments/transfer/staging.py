"""Staging: writes what a review decided, in batches that nobody sees until the import is settled.

New tasks become rows without a place: agents cannot meet them. They go when the import comes to nothing; what a
killed process leaves is found by its repetition. What is better done at the end (new content for old, labels of
existing tasks) is noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Max, ProtectedError, QuerySet

from environments.database.bulk import adding_tasks, execute
from environments.database.write_turns import give_way
from environments.models import Task
from environments.tasks.split_change import SplitChange
from environments.transfer.review import Decision, tasks_by_hash
from environments.transfer.scratch import Scratch
from environments.transfer.target import ImportTarget

BATCH_TASKS = 900
BATCH_BYTES = 2 * 1024 * 1024
"""At most so much is written in one transaction, a single longer task aside: some 50 ms."""

_ADD_TASKS = """
    INSERT INTO environments_task (environment_id, content_hash, spec, source, state, reason, created)
    SELECT %s, value->>0, value->>1, value->>2, value->>3, value->>4, CURRENT_TIMESTAMP FROM {rows} WHERE true
    ON CONFLICT DO NOTHING
"""
_ADD_TAGS = """
    INSERT INTO environments_tasktag (task_id, name)
    SELECT (SELECT id FROM environments_task WHERE environment_id = %s AND content_hash = value->>0), value->>1
    FROM {rows} WHERE true
    ON CONFLICT DO NOTHING
"""


class Staging:
    """The staging of one import. A context manager: leaving by an exception deletes the tasks that were added."""

    def __init__(self, target: ImportTarget, scratch: Scratch) -> None:
        self._environment = target.environment.pk
        self._scratch = scratch
        self._last = self._tasks().aggregate(last=Max("pk"))["last"] or 0

    def __enter__(self) -> Staging:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            return
        for [hashes] in self._scratch.batches("new", 1, 0):
            self._delete_unused(hashes)
            give_way()

    def _tasks(self) -> QuerySet[Task]:
        return Task.objects.filter(environment=self._environment)

    def _delete_unused(self, hashes: Sequence[str]) -> None:
        """Delete tasks of these hashes that this import added and nobody has used since."""
        added = self._tasks().filter(pk__gt=self._last, content_hash__in=hashes, source__in=("import", "edit"))
        unused = added.filter(entries=None, revisions=None, origins=None)
        keys = list(unused.values_list("pk", flat=True))
        try:
            _delete(keys)
        except (ProtectedError, IntegrityError):  # some were played or placed meanwhile: each on its own
            for key in keys:
                with suppress(ProtectedError, IntegrityError):
                    _delete([key])

    def write(self, decisions: Sequence[Decision], change: SplitChange) -> None:
        """One batch, within the limits above. `change`: of the target split."""
        self._add_tasks([decision for decision in decisions if decision.task is None])
        ids = self._ids(decisions)
        change.add([ids[one.candidate.hash] for one in decisions if one.kind == "added"])
        for one in decisions:
            task = ids[one.candidate.hash]
            if one.kind == "edited" and one.origin:
                self._scratch.put("edits", [one.origin.id, task], 2 * len(one.candidate.text))
            if one.is_relabelled and one.task:
                before = {"state": one.task.state, "reason": one.task.reason, "tags": one.task.tags}
                self._scratch.put("labels", [task, before, _after(one)])
        change.hold()

    def _add_tasks(self, new: Sequence[Decision]) -> None:
        # in the file's order, which their ids then have; sorted by hash, a batch of so few costs no less
        rows = [_row(decision) for decision in new]
        tags = [(decision.candidate.hash, tag) for decision in new for tag in _tags_of_new(decision)]
        if rows:
            self._scratch.put("new", [digest for digest, *_ in rows])
            with adding_tasks(self._environment):
                execute(_ADD_TASKS, [self._environment], rows)
                execute(_ADD_TAGS, [self._environment], tags)

    def _ids(self, decisions: Iterable[Decision]) -> dict[str, int]:
        known = {one.candidate.hash: one.task.id for one in decisions if one.task}
        wanted = [one.candidate.hash for one in decisions if not one.task]
        return known | {digest: task for digest, task, *_ in tasks_by_hash(self._environment, wanted)}


def _delete(tasks: Sequence[int]) -> None:
    with transaction.atomic():
        Task.objects.filter(pk__in=tasks).only("pk").delete()


def _row(decision: Decision) -> tuple[str, str, str, str, str]:
    """Columns of the new task. An edit without a state of its own has that of the task whose place it takes."""
    row, old = decision.candidate, decision.origin
    if row.labels.state is None and old is not None:
        return row.hash, row.text, "edit", old.state, old.reason
    return row.hash, row.text, "edit" if old else "import", row.labels.state or "active", row.labels.reason


def _tags_of_new(decision: Decision) -> Sequence[str]:
    """Tags of the new task: its own, else those of the task whose place it takes."""
    tags = decision.candidate.labels.tags
    return tags if tags is not None else decision.origin.tags if decision.origin else ()


def _after(decision: Decision) -> dict[str, Any]:
    """The labels that change, by name."""
    labels = decision.candidate.labels
    after: dict[str, Any] = {} if labels.tags is None else {"tags": labels.tags}
    return after if labels.state is None else after | {"state": labels.state, "reason": labels.reason}
