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
from typing import Any

from django.db.models import F

from environments.curation.selection import Selection
from environments.curation.transfer.columns import Survey, declared, escaped
from environments.curation.transfer.source import Format
from environments.curation.transfer.writers import csv_table, json_array, json_lines
from environments.files.streaming import Pieces
from environments.models import Environment, Split, SplitEntry, Task, seen_at
from environments.tasks.task_facts import tags_of

BATCH_TASKS = 250
MEDIA_TYPES: dict[Format, str] = {
    "jsonl": "application/jsonl",
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}


def exported(selection: Selection, format: Format, *, has_labels: bool = True) -> Pieces:
    """Yield the file in pieces. `has_labels`: whether it has the reserved columns
    (`columns.COLUMNS`).

    Raises: TransferError before the first piece if the format cannot represent the tasks.
    """
    ids = selection.all_ids()
    split = Split.objects.filter(pk=selection.split).first() if selection.split else None
    batches = _texts(ids, split, has_labels=has_labels)
    if format == "jsonl":
        yield from json_lines(batches)
    elif format == "json":
        yield from json_array(batches)
    else:
        rows = _texts(ids, split, has_labels=has_labels)
        survey = Survey(json.loads(text) for batch in rows for text in batch)
        if format == "csv":
            yield from csv_table(batches, survey)
        else:
            # pyarrow takes a third of a second
            from environments.curation.transfer.parquet import parquet_file

            yield from parquet_file(batches, survey)


def _texts(ids: Sequence[int], split: Split | None, *, has_labels: bool) -> Iterator[list[str]]:
    """Yield the tasks in the order of `ids`, without those that were deleted in the meantime, as
    JSON objects: the exact text of the spec followed by the reserved columns."""
    schemas = Environment.objects.exclude(task_schema="").values_list("pk", "task_schema")
    own = {environment: declared(json.loads(schema)) for environment, schema in schemas}
    for start in range(0, len(ids), BATCH_TASKS):
        batch = list(ids[start : start + BATCH_TASKS])
        rows = {task.pk: task for task in Task.objects.filter(pk__in=batch)}
        tasks = [rows[pk] for pk in batch if pk in rows]
        if not has_labels:
            yield [_spec(task, own) for task in tasks]
            continue
        tags, splits, texts = tags_of(batch), _splits(batch, split), list[str]()
        for task in tasks:
            labels: dict[str, Any] = {"_hash": task.content_hash}
            if task.pk in splits:
                labels["_split"] = splits[task.pk]
            labels |= {"_tags": tags.get(task.pk, []), "_state": task.state}
            if task.reason:
                labels["_reason"] = task.reason
            body, members = _spec(task, own)[1:-1].strip(), json.dumps(labels)[1:-1]
            texts.append(f"{{{body}, {members}}}" if body else f"{{{members}}}")
        yield texts


def _spec(task: Task, own: Mapping[int, frozenset[str]]) -> str:
    """Return the exact text of the spec, unless it has keys that must be escaped."""
    if '"_' not in task.spec:
        return task.spec.strip()
    spec = json.loads(task.spec)
    members = {escaped(key, own.get(task.environment_id, ())): item for key, item in spec.items()}
    return task.spec.strip() if members.keys() == spec.keys() else json.dumps(members)


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
