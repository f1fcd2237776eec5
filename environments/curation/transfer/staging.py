"""Writes the decisions of a review in batches that are not visible until the import is settled.

New tasks become rows without a place, so agents cannot get them. They are deleted when the import
fails; those that a killed process leaves are used when the import is repeated. Edits and labels of
existing tasks are recorded for `finishing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
        rows = tasks.filter(entries=None, revisions=None, origins=None)
        keys = list(rows.values_list("pk", flat=True))
        try:
            _delete(keys)
        except (
            ProtectedError,
            IntegrityError,
        ):  # some were played or placed in the meantime, so delete one by one
            for key in keys:
                with suppress(ProtectedError, IntegrityError):
                    _delete([key])

    def write(self, decisions: Sequence[Decision], change: SplitChange) -> None:
        """Write one batch within the limits above. `change`: the change of the target split."""
        self._add_tasks([decision for decision in decisions if decision.task is None])
        ids = self._ids(decisions)
        self._place([ids[one.candidate.hash] for one in decisions if one.kind == "added"], change)
        for one in decisions:
            task = ids[one.candidate.hash]
            if one.kind == "edited" and one.origin:
                self._scratch.put("edits", [one.origin.id, task], 2 * len(one.candidate.text))
            if one.is_relabelled and one.task:
                before = {"state": one.task.state, "reason": one.task.reason, "tags": one.task.tags}
                self._scratch.put("labels", [task, before, _after(one)])
        change.hold()

    def _place(self, tasks: Sequence[int], change: SplitChange) -> None:
        before, name = split_names(tasks), change.split.name
        with transaction.atomic():
            change.add(tasks)
            self._revisions.write(
                (task, {"splits": sorted(before[task])}, {"splits": sorted({*before[task], name})})
                for task in dict.fromkeys(tasks)
                if name not in before[task]
            )

    def _add_tasks(self, new: Sequence[Decision]) -> None:
        # In the order of the file, so that ids follow it. Sorting so small a batch by hash would
        # save nothing.
        rows = [_row(decision) for decision in new]
        tags = [
            (decision.candidate.hash, tag) for decision in new for tag in _tags_of_new(decision)
        ]
        if rows:
            self._scratch.put("new", [digest for digest, *_ in rows])
            with adding_tasks(self._environment):
                execute(_ADD_TASKS, [self._environment], rows)
                execute(_ADD_TAGS, [self._environment], tags)

    def _ids(self, decisions: Iterable[Decision]) -> dict[str, int]:
        existing = {
            decision.candidate.hash: decision.task.id for decision in decisions if decision.task
        }
        hashes = [decision.candidate.hash for decision in decisions if not decision.task]
        return existing | {
            digest: task for digest, task, *_ in tasks_by_hash(self._environment, hashes)
        }


def _delete(tasks: Sequence[int]) -> None:
    with transaction.atomic():
        Task.objects.filter(pk__in=tasks).only("pk").delete()


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


def _after(decision: Decision) -> dict[str, Any]:
    """Return the labels that the row sets, by name."""
    labels = decision.candidate.labels
    after: dict[str, Any] = {} if labels.tags is None else {"tags": labels.tags}
    return (
        after if labels.state is None else after | {"state": labels.state, "reason": labels.reason}
    )
