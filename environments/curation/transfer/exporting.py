"""Exports tasks to a file. Used by `manage.py export_tasks` and the admin's export pages. Blocking.

for piece in exported(Selection(split=7, viewer=viewer), "jsonl"):
        file.write(piece)

JSON Lines and JSON contain the exact text of each spec. CSV and Parquet need their columns
beforehand, so every task is read twice. An export can be imported again, where every task is then a
duplicate, except for tasks of a class that exceed the limits in
`environments/tasks/stored_spec.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import F

from environments.curation.selection import Selection
from environments.curation.transfer.columns import Survey, declared, escaped
from environments.curation.transfer.source import Format
from environments.curation.transfer.writers import (
    CsvWriter,
    JsonLinesWriter,
    JsonWriter,
    TaskFileWriter,
)
from environments.files.streaming import Pieces
from environments.models import Environment, Split, SplitEntry, Task, TaskTag, seen_at

BATCH_TASKS = 250
MEDIA_TYPES: dict[Format, str] = {
    "jsonl": "application/jsonl",
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}


@dataclass(frozen=True, slots=True)
class Exported:
    """One task as it is written to a file."""

    spec: str
    """JSON text, with keys escaped as `columns` says."""
    labels: dict[str, Any]
    """Values of the reserved columns."""

    @property
    def text(self) -> str:
        """A JSON object: the exact text of the spec followed by the reserved columns."""
        if not self.labels:
            return self.spec
        body, labels = self.spec[1:-1].strip(), json.dumps(self.labels)[1:-1]
        return f"{{{body}, {labels}}}" if body else f"{{{labels}}}"


def exported(selection: Selection, format: Format, *, has_labels: bool = True) -> Pieces:
    """Yield the file in pieces. `has_labels`: whether it has the reserved columns
    (`columns.COLUMNS`).

    Raises: TransferError before the first piece if the format cannot represent the tasks.
    """
    ids = selection.all_ids()
    split = Split.objects.filter(pk=selection.split).first() if selection.split else None
    writer = _writer(format, _tasks(ids, split, has_labels=has_labels))
    yield writer.start()
    for batch in _tasks(ids, split, has_labels=has_labels):
        yield writer.write(batch)
    yield writer.end()


def _writer(format: Format, tasks: Iterator[list[Exported]]) -> TaskFileWriter:
    if format == "jsonl":
        return JsonLinesWriter()
    if format == "json":
        return JsonWriter()
    survey = Survey(json.loads(task.text) for batch in tasks for task in batch)
    if format == "csv":
        return CsvWriter(survey)
    from environments.curation.transfer.parquet import (
        ParquetWriter,  # pyarrow takes a third of a second
    )

    return ParquetWriter(survey)


def _tasks(
    ids: Sequence[int], split: Split | None, *, has_labels: bool
) -> Iterator[list[Exported]]:
    """Yield the tasks in the order of `ids`, without those that were deleted in the meantime."""
    own = _declared()
    for start in range(0, len(ids), BATCH_TASKS):
        batch = list(ids[start : start + BATCH_TASKS])
        rows = {task.pk: task for task in Task.objects.filter(pk__in=batch)}
        tags, splits = (_tags(batch), _splits(batch, split)) if has_labels else ({}, {})
        tasks = [rows[pk] for pk in batch if pk in rows]
        yield [
            Exported(_spec(task, own), _labels(task, tags, splits) if has_labels else {})
            for task in tasks
        ]


def _labels(task: Task, tags: dict[int, list[str]], splits: dict[int, str]) -> dict[str, Any]:
    labels: dict[str, Any] = {"_hash": task.content_hash}
    if task.pk in splits:
        labels["_split"] = splits[task.pk]
    labels |= {"_tags": tags.get(task.pk, []), "_state": task.state}
    return labels | {"_reason": task.reason} if task.reason else labels


def _declared() -> dict[int, frozenset[str]]:
    """Return environment -> the keys that its task schema declares."""
    schemas = Environment.objects.exclude(task_schema="").values_list("pk", "task_schema")
    return {environment: declared(json.loads(schema)) for environment, schema in schemas}


def _spec(task: Task, own: Mapping[int, frozenset[str]]) -> str:
    """Return the exact text of the spec, unless it has keys that must be escaped."""
    if '"_' not in task.spec:
        return task.spec.strip()
    spec = json.loads(task.spec)
    members = {escaped(key, own.get(task.environment_id, ())): item for key, item in spec.items()}
    return task.spec.strip() if members.keys() == spec.keys() else json.dumps(members)


def _tags(tasks: list[int]) -> dict[int, list[str]]:
    tags: dict[int, list[str]] = {}
    for task, name in (
        TaskTag.objects.filter(task__in=tasks).order_by("name").values_list("task_id", "name")
    ):
        tags.setdefault(task, []).append(name)
    return tags


def _splits(tasks: list[int], split: Split | None) -> dict[int, str]:
    """Return task -> name of the exported split, or of the first split that holds the task."""
    if split is not None:
        return dict.fromkeys(tasks, split.name)
    places = SplitEntry.objects.filter(seen_at(F("split__version")), task__in=tasks)
    names: dict[int, str] = {}
    for task, name in places.order_by("split__position", "split_id").values_list(
        "task_id", "split__name"
    ):
        names.setdefault(task, name)
    return names
