"""Review: what becomes of each row of a file, by what the database holds. Reads only.

A dry run and an import decide alike: both go by the content that the target had before the import.

Check: a row on its own, as a candidate for a task. What the database says of it comes later, in `review`.

Tasks by the hash of their content. One parameter for all hashes: Django's ORM takes longer than the database.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from django.db import connection
from django.db.models import F

from environments.authoring import task_schema
from environments.models import SplitEntry, TaskTag, seen_at
from environments.tasks.task_text import Unfit, spec_text
from environments.transfer.columns import Labels, separated
from environments.transfer.report import TaskImportReport
from environments.transfer.rows import BadRow, FileRow, Refusal
from environments.transfer.scratch import Scratch
from environments.transfer.target import ImportTarget


@dataclass(frozen=True, slots=True)
class FileTask:
    """A row that is fit to be a task."""

    number: int
    text: str
    """The spec as it would be stored."""
    hash: str
    """The identity of that content, as `environments.tasks.sync.content_hash` of the text."""
    labels: Labels

    @property
    def origin(self) -> str | None:
        """Hash of the task that it is a new content of."""
        return self.labels.hash if self.labels.hash != self.hash else None


_sorted_text: Callable[[object], str] = json.JSONEncoder(sort_keys=True).encode


def checked(row: FileRow | Refusal, schema: str, own: Collection[str]) -> FileTask | Refusal:
    """`schema`: the environment's JSON Schema as text, empty for none. `own`: names that it declares."""
    if isinstance(row, Refusal):
        return row
    try:
        spec, labels = separated(row.value, own)
        text = spec_text(spec)
    except (BadRow, Unfit) as error:
        return Refusal(row.number, str(error))
    if problems := task_schema.check(schema, spec):
        return Refusal(row.number, f"does not fit the task schema: {problems[0]}")
    # of the value that was read: one parse less than of the text, and the same
    digest = hashlib.sha256(_sorted_text(spec).encode()).hexdigest()
    return FileTask(row.number, text, digest, labels)


_AMONG: dict[str, tuple[str, Callable[[list[str]], Any]]] = {
    "sqlite": ("IN (SELECT value FROM json_each(%s))", json.dumps),
    "postgresql": ("= ANY(%s)", list),
}
_FIND = "SELECT content_hash, id, state, reason FROM environments_task WHERE environment_id = %s AND content_hash "


def tasks_by_hash(environment: int, hashes: Collection[str]) -> list[tuple[str, int, str, str]]:
    """(hash, id, state, reason) of those that exist."""
    if not hashes:
        return []
    condition, as_parameter = _AMONG[connection.vendor]
    parameters: list[Any] = [environment, as_parameter(list(hashes))]
    with connection.cursor() as cursor:
        cursor.execute(_FIND + condition, parameters)
        return list(cursor.fetchall())


Kind = Literal["added", "edited", "relabelled", "duplicate"]
_EDITED = b"edited"


@dataclass(frozen=True, slots=True)
class KnownTask:
    """A task that exists."""

    id: int
    state: str
    reason: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KnownPlace:
    split: int
    name: str
    is_frozen: bool
    is_hidden: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of one row."""

    kind: Kind
    candidate: FileTask
    task: KnownTask | None
    """The task that has this content already."""
    origin: KnownTask | None
    """Of an edit: the task whose place this content takes."""
    is_relabelled: bool
    """Whether tags or state of `task` change."""


@dataclass(slots=True)
class _Found:
    """What the database holds of one batch."""

    tasks: dict[str, KnownTask] = field(default_factory=dict)
    """By hash."""
    places: dict[int, list[KnownPlace]] = field(default_factory=dict)
    """By task."""


class Review:
    """Decides about a file's rows, batch by batch, and keeps the report."""

    def __init__(self, target: ImportTarget, report: TaskImportReport, scratch: Scratch) -> None:
        self._target, self.report, self._scratch = target, report, scratch
        self._split = target.split.pk if target.split else None

    def decisions(self, batch: Iterable[FileTask | Refusal]) -> Iterator[Decision]:
        """About the rows that are not refused, in order."""
        rows = list(batch)
        found = self._found([row for row in rows if isinstance(row, FileTask)])
        for row in rows:
            decided = row if isinstance(row, Refusal) else self._decide(row, found)
            if isinstance(decided, Refusal):
                self.report.refuse(decided)
            else:
                self._count(decided, found)
                yield decided

    def _decide(self, row: FileTask, found: _Found) -> Decision | Refusal:
        task = found.tasks.get(row.hash)
        origin = found.tasks.get(row.origin) if row.origin else None
        stands = task is not None and self._stands(task, found)
        if row.origin and origin is None and not stands:
            return Refusal(row.number, _unknown_origin(row.origin, self._target))
        if not self._scratch.is_new(row.hash):
            return Decision("duplicate", row, task, None, False)
        is_relabelled = task is not None and _is_relabelled(task, row.labels, found.places.get(task.id, []))
        if origin and row.origin and self._is_edit(origin, found, stands=stands):
            if not self._scratch.is_new(row.origin, _EDITED):
                return Refusal(row.number, f"_hash {row.origin[:8]}… is changed by a row before; keep one of them")
            return Decision("edited", row, task, origin, is_relabelled)
        if not stands:
            return Decision("added", row, task, None, is_relabelled)
        return Decision("relabelled" if is_relabelled else "duplicate", row, task, None, is_relabelled)

    def _is_edit(self, origin: KnownTask, found: _Found, *, stands: bool) -> bool:
        """An import that is done again finds the old task in no place that it could change."""
        return not stands or any(not place.is_frozen for place in found.places.get(origin.id, []))

    def _stands(self, task: KnownTask, found: _Found) -> bool:
        return any(place.split == self._split for place in found.places.get(task.id, []))

    def _count(self, decision: Decision, found: _Found) -> None:
        report, labels = self.report, decision.candidate.labels
        report.from_elsewhere += labels.split not in (None, self._target.name)
        if decision.kind == "added":
            report.add(decision.candidate.text)
        elif decision.kind == "duplicate":
            report.duplicates += 1
        else:
            report.changed += 1
            touched = decision.origin or decision.task
            for place in found.places.get(touched.id, []) if touched else ():
                if place.is_frozen:
                    report.frozen_in[place.name] += 1
                elif decision.kind == "edited":
                    report.replaced_in[place.name] += 1

    def _found(self, rows: list[FileTask]) -> _Found:
        hashes = {row.hash for row in rows} | {row.origin for row in rows if row.origin}
        found = _Found()
        tasks = tasks_by_hash(self._target.environment.pk, hashes)
        tags: dict[int, list[str]] = {}
        named = TaskTag.objects.filter(task__in=[pk for _, pk, *_ in tasks]).values_list("task_id", "name")
        for task, name in named if tasks else ():
            tags.setdefault(task, []).append(name)
        for digest, pk, state, reason in tasks:
            found.tasks[digest] = KnownTask(pk, state, reason, tuple(sorted(tags.get(pk, ()))))
        for task, place in _places([pk for _, pk, *_ in tasks]):
            found.places.setdefault(task, []).append(place)
        return found


def _places(tasks: list[int]) -> Iterator[tuple[int, KnownPlace]]:
    """Where the tasks stand, as their splits are seen now."""
    if not tasks:
        return
    seen = SplitEntry.objects.filter(seen_at(F("split__version")), task__in=tasks)
    names = ("task_id", "split_id", "split__name", "split__frozen", "is_hidden")
    for task, split, name, frozen, is_hidden in seen.values_list(*names).distinct():
        yield task, KnownPlace(split, name, frozen is not None, is_hidden)


def _is_relabelled(task: KnownTask, labels: Labels, places: list[KnownPlace]) -> bool:
    """Also when places do not show the state, because an import ended between the two."""
    if labels.tags is not None and labels.tags != task.tags:
        return True
    if labels.state is None:
        return False
    is_hidden = labels.state == "quarantined"
    is_shown_wrong = any(place.is_hidden != is_hidden for place in places if not place.is_frozen)
    return is_shown_wrong or (labels.state, labels.reason) != (task.state, task.reason)


def _unknown_origin(digest: str, target: ImportTarget) -> str:
    return (
        f"_hash {digest[:8]}… is no task of {target.environment.name!r}; leave the column empty to add the row as a "
        "new task"
    )
