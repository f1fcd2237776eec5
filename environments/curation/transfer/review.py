"""Decides what happens to each row of a file: it is added, edited, relabelled, a duplicate or
refused. Only reads.

A dry run and an import make the same decisions, because both depend on the content of the split
before the import.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from django.db.models import F

from environments.curation.transfer.columns import Labels, separated
from environments.curation.transfer.report import TaskImportReport
from environments.curation.transfer.scratch_database import Scratch
from environments.curation.transfer.target import ImportTarget
from environments.database.json_rows import among, rows_among
from environments.files.rows import BadRow, FileRow, Refusal
from environments.models import SplitEntry, Task, seen_at
from environments.tasks import task_schema
from environments.tasks.revised_tasks import apart_from_spelling
from environments.tasks.stored_spec import Unfit, spec_text
from environments.tasks.successors import is_superseded, successors_of
from environments.tasks.task_facts import tags_of

Kind = Literal["added", "edited", "relabelled", "duplicate"]
_EDITED = b"edited"

_FIND = """
    SELECT content_hash, id, state, reason FROM environments_task WHERE environment_id = %s AND content_hash {among}
"""
_sorted_text: Callable[[object], str] = json.JSONEncoder(sort_keys=True).encode


@dataclass(frozen=True, slots=True)
class FileTask:
    """A row that can become a task."""

    number: int
    text: str
    """The spec as it would be stored."""
    hash: str
    """The identity of the content: `environments.models.task_hash.content_hash` of the text."""
    labels: Labels

    @property
    def origin(self) -> str | None:
        """Hash of the task that this row edits, if any."""
        return self.labels.hash if self.labels.hash != self.hash else None


@dataclass(frozen=True, slots=True)
class KnownTask:
    """A task that the environment already has."""

    id: int
    state: str
    reason: str
    tags: tuple[str, ...]
    hash: str
    text: str = ""
    """Its content, if it is the edit of a superseded task; else empty."""


@dataclass(frozen=True, slots=True)
class KnownPlace:
    """A place of an existing task in a split."""

    split: int
    name: str
    is_frozen: bool
    is_hidden: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about one row of the file."""

    kind: Kind
    candidate: FileTask
    task: KnownTask | None
    """The existing task with this content, or what edits made of it."""
    origin: KnownTask | None
    """For an edit, the task that this content replaces."""
    is_relabelled: bool
    """Whether the tags or state of `task` change."""
    places: Sequence[KnownPlace] = ()
    """The places of `task`."""

    @property
    def text(self) -> str:
        """The content that will be served."""
        return (self.task.text if self.task else "") or self.candidate.text


@dataclass(slots=True)
class _ExistingTasks:
    """The existing tasks and places that concern the rows of one batch."""

    tasks: dict[str, KnownTask] = field(default_factory=dict)
    """Existing tasks by hash."""
    places: dict[int, list[KnownPlace]] = field(default_factory=dict)
    """Places by task id."""
    heirs: dict[int, KnownTask] = field(default_factory=dict)
    """What edits made of superseded tasks, by their ids."""
    old_spellings: dict[str, int] = field(default_factory=dict)
    """Superseded tasks that new rows have in another spelling, by the hashes of the rows."""
    quarantined_tasks: dict[str, KnownTask] = field(default_factory=dict)
    """Quarantined tasks that new rows have in another spelling, by the hashes of the rows."""


class Review:
    """Decides about the rows of a file, batch by batch, and fills the report."""

    def __init__(
        self,
        target: ImportTarget,
        report: TaskImportReport,
        scratch: Scratch,
        *,
        as_written: bool = False,
    ) -> None:
        """`as_written`: content that an edit replaced is added as it is in the file, and not the
        edit of it."""
        self._target, self.report, self._scratch, self._as_written = (
            target,
            report,
            scratch,
            as_written,
        )
        self._split = target.split.pk if target.split else None
        tasks = Task.objects.filter(environment=target.environment.pk)
        superseded_rows = tasks.filter(is_superseded()).values_list("spec", "pk").iterator(2000)
        self._superseded = {_digest(apart_from_spelling(spec)): pk for spec, pk in superseded_rows}
        quarantines = (
            tasks.filter(state="quarantined").values_list("content_hash", "spec").iterator(2000)
        )
        self._quarantined = {
            _digest(apart_from_spelling(spec)): digest for digest, spec in quarantines
        }

    def decisions(self, batch: Iterable[FileTask | Refusal]) -> Iterator[Decision]:
        """Yield the decisions about the rows that are not refused, in order."""
        rows = list(batch)
        existing = self._existing_tasks([row for row in rows if isinstance(row, FileTask)])
        for row in rows:
            decision = row if isinstance(row, Refusal) else self._decide(row, existing)
            if isinstance(decision, Refusal):
                self.report.refuse(decision)
            else:
                self._count(decision, existing)
                yield decision

    def _decide(self, row: FileTask, existing: _ExistingTasks) -> Decision | Refusal:
        task, digest = existing.tasks.get(row.hash), row.hash
        if task is None and (task := existing.quarantined_tasks.get(row.hash)):
            self.report.quarantined += 1
            digest = task.hash
        heir = existing.heirs.get(task.id if task else existing.old_spellings.get(row.hash, 0))
        # a row that names the edit brings the earlier content back on purpose
        if heir and heir.hash != row.origin:
            self.report.superseded += 1
            if not self._as_written:
                task, digest = heir, heir.hash
        places = existing.places.get(task.id, []) if task else []
        origin = existing.tasks.get(row.origin) if row.origin else None
        is_placed = any(place.split == self._split for place in places)
        if row.origin and origin is None and not is_placed:
            return Refusal(
                row.number,
                f"_hash {row.origin[:8]}… is not a task of {self._target.environment.name!r}; leave "
                "the column empty to add the row as a new task",
            )
        if row.origin and origin and not is_placed:
            heir = existing.heirs.get(origin.id)
            if heir and (task is None or task.id != heir.id):
                return Refusal(
                    row.number,
                    f"_hash {row.origin[:8]}… was edited since, to {heir.hash}; compare the row with "
                    "that task, and write that hash to replace it",
                )
        if not self._scratch.is_new(digest):
            return Decision("duplicate", row, task, None, False)
        is_relabelled = task is not None and _is_relabelled(task, row.labels, places)
        # a repeated import finds no place of the origin left that it could change
        if (origin and row.origin) and (
            not is_placed
            or any(not place.is_frozen for place in existing.places.get(origin.id, []))
        ):
            if not self._scratch.is_new(row.origin, _EDITED):
                return Refusal(
                    row.number,
                    f"_hash {row.origin[:8]}… is also changed by an earlier row; keep one of them",
                )
            return Decision("edited", row, task, origin, is_relabelled, places)
        if not is_placed:
            return Decision("added", row, task, None, is_relabelled, places)
        return Decision(
            "relabelled" if is_relabelled else "duplicate", row, task, None, is_relabelled
        )

    def _count(self, decision: Decision, existing: _ExistingTasks) -> None:
        report, labels = self.report, decision.candidate.labels
        report.from_elsewhere += labels.split not in (None, self._target.name)
        if decision.kind == "added":
            report.add(decision.text)
        elif decision.kind == "duplicate":
            report.duplicates += 1
        else:
            report.changed += 1
            task = decision.origin or decision.task
            for place in existing.places.get(task.id, []) if task else ():
                if place.is_frozen:
                    report.frozen_in[place.name] += 1
                elif decision.kind == "edited":
                    report.replaced_in[place.name] += 1

    def _existing_tasks(self, rows: list[FileTask]) -> _ExistingTasks:
        hashes = {row.hash for row in rows} | {row.origin for row in rows if row.origin}
        batch = _ExistingTasks()
        tasks = tasks_by_hash(self._target.environment.pk, hashes)
        hashes_here, spellings = {digest for digest, *_ in tasks}, dict[str, str]()
        for row in rows if self._superseded or self._quarantined else ():
            if row.hash not in hashes_here:
                spelling = _digest(apart_from_spelling(row.text))
                old = self._superseded.get(spelling)
                if old or row.origin:  # a row with an origin says itself what it edits
                    batch.old_spellings |= {row.hash: old} if old else {}
                elif spelling in self._quarantined:
                    spellings[row.hash] = self._quarantined[spelling]
        tasks += tasks_by_hash(self._target.environment.pk, set(spellings.values()) - hashes_here)
        heirs = successors_of([*(pk for _, pk, *_ in tasks), *batch.old_spellings.values()])
        edits = Task.objects.filter(among("pk", heirs.values())) if heirs else Task.objects.none()
        edit_rows = list(edits.values_list("content_hash", "pk", "state", "reason", "spec"))
        ids = [row[1] for row in tasks] + [row[1] for row in edit_rows]
        tags = tags_of(ids) if ids else {}

        def known(digest: str, pk: int, state: str, reason: str, text: str = "") -> KnownTask:
            return KnownTask(pk, state, reason, tuple(sorted(tags.get(pk, ()))), digest, text)

        batch.tasks = {row[0]: known(*row) for row in tasks}
        batch.quarantined_tasks = {row: batch.tasks[digest] for row, digest in spellings.items()}
        by_id = {row[1]: known(*row) for row in edit_rows}
        batch.heirs = {old: by_id[new] for old, new in heirs.items()}
        places = SplitEntry.objects.filter(seen_at(F("split__version")), task__in=ids)
        columns = ("task_id", "split_id", "split__name", "split__frozen", "is_hidden")
        for task, split, name, frozen, is_hidden in (
            places.values_list(*columns).distinct() if ids else ()
        ):
            place = KnownPlace(split, name, frozen is not None, is_hidden)
            batch.places.setdefault(task, []).append(place)
        return batch


def checked(row: FileRow | Refusal, schema: str, own: Collection[str]) -> FileTask | Refusal:
    """Check a row on its own, without the database.

    schema: the environment's JSON Schema as text, empty for none.
    own: the names that the schema declares.
    """
    if isinstance(row, Refusal):
        return row
    try:
        spec, labels = separated(row.value, own)
        text = spec_text(spec)
    except (BadRow, Unfit) as error:
        return Refusal(row.number, str(error))
    if problems := task_schema.check(schema, spec):
        return Refusal(row.number, f"does not fit the task schema: {problems[0]}")
    # Hashing the value that was read gives the same result as `content_hash` and saves parsing the
    # text again.
    digest = hashlib.sha256(_sorted_text(spec).encode()).hexdigest()
    return FileTask(row.number, text, digest, labels)


def tasks_by_hash(environment: int, hashes: Collection[str]) -> list[tuple[str, int, str, str]]:
    """Return (hash, id, state, reason) of the existing tasks with these hashes."""
    return rows_among(_FIND, [environment], hashes) if hashes else []


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _is_relabelled(task: KnownTask, labels: Labels, places: list[KnownPlace]) -> bool:
    """Return whether the labels change the task, or its places do not match its state after an
    interrupted import."""
    if labels.tags is not None and labels.tags != task.tags:
        return True
    if labels.state is None:
        return False
    is_hidden = labels.state == "quarantined"
    is_shown_wrong = any(place.is_hidden != is_hidden for place in places if not place.is_frozen)
    return is_shown_wrong or (labels.state, labels.reason) != (task.state, task.reason)
