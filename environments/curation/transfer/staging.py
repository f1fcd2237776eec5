"""Writes the decisions of a review in batches that are not visible until the import is settled.

New tasks become rows without a place, so agents cannot get them. They are deleted when the import
fails; those that a killed process leaves are used when the import is repeated. Edits and labels of
existing tasks are recorded for `finishing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Max, ProtectedError, QuerySet

from environments.curation.history_rows import Revisions, split_names
from environments.curation.transfer.review import Decision, tasks_by_hash
from environments.curation.transfer.scratch_database import Scratch
from environments.curation.transfer.target import ImportTarget
from environments.database.json_rows import adding_tasks, execute
from environments.database.write_pauses import give_way
from environments.models import Task
from environments.models.folding import fold_json
from environments.tasks.split_change import SplitChange

BATCH_TASKS = 900
MAX_BATCH_BYTES = 2 * 1024 * 1024
"""Limits of one transaction, which then takes about 50 ms. A single longer task is a batch of its
own."""

_ADD_TASKS = """
    INSERT INTO environments_task (environment_id, content_hash, spec, folded, source, state, reason, created)
    SELECT %s, value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, CURRENT_TIMESTAMP
    FROM {rows} WHERE true
    ON CONFLICT DO NOTHING
"""
_ADD_TAGS = """
    INSERT INTO environments_tasktag (task_id, name)
    SELECT (SELECT id FROM environments_task WHERE environment_id = %s AND content_hash = value->>0), value->>1
    FROM {rows} WHERE true
    ON CONFLICT DO NOTHING
"""


class Staging:
    """The staging of one import. A context manager: leaving by an exception deletes the tasks that
    were added."""

    def __init__(self, target: ImportTarget, scratch: Scratch, revisions: Revisions) -> None:
        self._environment = target.environment.pk
        self._scratch, self._revisions = scratch, revisions
        self._last = self._tasks().aggregate(last=Max("pk"))["last"] or 0

    def __enter__(self) -> Staging:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if kind is None:
            return
        self._revisions.delete()
        for [hashes] in self._scratch.batches("new", 1, 0):
            self._delete_unused(hashes)
            give_way()

    def _tasks(self) -> QuerySet[Task]:
        return Task.objects.filter(environment=self._environment)

    def _delete_unused(self, hashes: Sequence[str]) -> None:
        """Delete the tasks with these hashes that this import added and that nothing refers to."""
        tasks = self._tasks().filter(
            pk__gt=self._last, content_hash__in=hashes, source__in=("import", "edit")
        )
        keys = list(
            tasks.filter(entries=None, revisions=None, origins=None).values_list("pk", flat=True)
        )
        # if some were played or placed in the meantime, one by one
        for batch in (keys, *([key] for key in keys)):
            with suppress(ProtectedError, IntegrityError), transaction.atomic():
                Task.objects.filter(pk__in=batch).only("pk").delete()
                if batch is keys:
                    return

    def write(self, decisions: Sequence[Decision], change: SplitChange) -> None:
        """Write one batch within the limits above. `change`: the change of the target split."""
        new = [decision for decision in decisions if decision.task is None]
        hashes = [decision.candidate.hash for decision in new]
        if new:
            self._scratch.put("new", hashes)
            with adding_tasks(self._environment):
                # In the order of the file, so that ids follow it. Sorting so small a batch by hash
                # would save nothing.
                execute(_ADD_TASKS, [self._environment], [_row(decision) for decision in new])
                tags = [(row.candidate.hash, tag) for row in new for tag in _tags_of_new(row)]
                execute(_ADD_TAGS, [self._environment], tags)
        ids = {digest: task for digest, task, *_ in tasks_by_hash(self._environment, hashes)}
        places = list[int]()
        for decision in decisions:
            row, task_there = decision.candidate, decision.task
            task = task_there.id if task_there else ids[row.hash]
            if decision.kind == "added":
                places.append(task)
            if decision.kind == "edited" and decision.origin:
                self._scratch.put("edits", [decision.origin.id, task], 2 * len(row.text))
            if decision.is_relabelled and task_there:
                before = {
                    "state": task_there.state,
                    "reason": task_there.reason,
                    "tags": task_there.tags,
                }
                after: dict[str, Any] = {}
                if row.labels.tags is not None:
                    after["tags"] = row.labels.tags
                if row.labels.state is not None:
                    after |= {"state": row.labels.state, "reason": row.labels.reason}
                self._scratch.put("labels", [task, before, after])
        before_splits, name = split_names(places), change.split.name
        with transaction.atomic():
            change.add(places)
            self._revisions.write(
                (task, {"splits": sorted(names)}, {"splits": sorted({*names, name})})
                for task in dict.fromkeys(places)
                for names in [before_splits[task]]
                if name not in names
            )
        change.hold()


def _row(decision: Decision) -> tuple[str, str, str | None, str, str, str]:
    """Return the columns of a new task. An edit without a state inherits that of the task it
    replaces."""
    row, old = decision.candidate, decision.origin
    texts = row.hash, row.text, fold_json(row.text)
    if row.labels.state is None and old is not None:
        return *texts, "edit", old.state, old.reason
    return *texts, "edit" if old else "import", row.labels.state or "active", row.labels.reason


def _tags_of_new(decision: Decision) -> Sequence[str]:
    """Return the tags of a new task: its own, or those of the task it replaces."""
    tags = decision.candidate.labels.tags
    return tags if tags is not None else decision.origin.tags if decision.origin else ()
