"""Importing: a file of tasks into a split. Driven by `manage.py import_tasks` and the admin's import pages. Blocking.

    target = Target.of(environment_named("math"), "hard", "train")
    source = Source.of(Path("hard.jsonl"))
    report = dry_run(source, target)
    report = apply(source, target, author="ada")

Works beside a running server, whose agents are served the new tasks with their next question, and without one.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace

from django.utils import timezone

from environments.curation.splits import making
from environments.database.planner_statistics import refresh_statistics
from environments.models import SplitEntry, Task, TaskTag
from environments.tasks.split_change import SplitChange
from environments.transfer.columns import declared
from environments.transfer.report import TaskImportReport
from environments.transfer.review import Decision, FileTask, Review, checked
from environments.transfer.rows import FileRow, Refusal, TransferError, Unreadable
from environments.transfer.scratch import Scratch
from environments.transfer.settling import Settling, Stamp
from environments.transfer.source import FileSource
from environments.transfer.staging import BATCH_BYTES, BATCH_TASKS, Staging
from environments.transfer.target import ImportTarget

Progress = Callable[[int, int], None]
"""Told (done, total) after each batch, in bytes or rows of the file; what it raises ends the import, which leaves
nothing visible."""


class RefusedRows(TransferError):
    """A strict import met rows that it refuses; nothing was changed. `report` has the rows."""

    def __init__(self, report: TaskImportReport) -> None:
        first = report.refusals[0]
        super().__init__(
            f"{report.refused:,} of {report.rows:,} {report.unit}s are refused, so nothing was imported; the first is "
            f"{report.unit} {first.number}: {first.reason}. Mend them, or skip what is refused."
        )
        self.report = report


def silent(done: int, total: int) -> None:
    """The progress of an import that nobody watches."""


def dry_run(source: FileSource, target: ImportTarget, progress: Progress = silent) -> TaskImportReport:
    """What `apply` would do. Nothing is written. Raises: Unreadable."""
    report = _report(source, target)
    report.fingerprint = source.fingerprint(target.environment.task_schema)
    with Scratch() as scratch:
        for _ in _reviewed(source, target, Review(target, report, scratch), progress):
            pass
    return report


def apply(
    source: FileSource,
    target: ImportTarget,
    *,
    author: str,
    skip_refused: bool = False,
    after: TaskImportReport | None = None,
    progress: Progress = silent,
) -> TaskImportReport:
    """Import the file. Everything is visible at once at the end, or nothing is and it can be done again.

    `after`: the report of a dry run; if nothing was refused and the file has not changed since, the schema, which takes
    most of the time, is not checked twice.
    Raises: Unreadable, RefusedRows unless `skip_refused`, Refused of curation when the name of a new split was taken
    meanwhile, and FrozenSplit, SplitBusy or SplitGone of `changes`.
    """
    is_checked = after is not None and _still_holds(after, source, target)
    with ExitStack() as stack:
        scratch = stack.enter_context(Scratch())
        staging = Staging(target, scratch)
        stack.push(staging)  # left after the change, which takes back the places
        change = stack.enter_context(_change_of(target))
        review = Review(replace(target, split=change.split), _report(source, target), scratch)
        for decisions in _reviewed(source, target, review, progress, is_checked=is_checked):
            if skip_refused or not review.report.refused:  # else reading goes on for the report
                staging.write(decisions, change)
        if review.report.refused and not skip_refused:
            raise RefusedRows(review.report)
        if review.report.has_work:
            stamp = Stamp(uuid.uuid4().hex, author[:150], f"import of {source.name}", timezone.now())
            Settling(change, scratch, stamp, stack).settle()
    if review.report.has_work:
        refresh_statistics(Task, TaskTag, SplitEntry)
    review.report.is_applied = True
    return review.report


def _change_of(target: ImportTarget) -> AbstractContextManager[SplitChange]:
    if target.split is None:
        return making(target.environment.pk, target.name, target.type)
    return SplitChange(target.split)


def _still_holds(report: TaskImportReport, source: FileSource, target: ImportTarget) -> bool:
    return not report.refused and report.fingerprint == source.fingerprint(target.environment.task_schema)


def _report(source: FileSource, target: ImportTarget) -> TaskImportReport:
    return TaskImportReport(source.name, target.environment.name, target.name, target.split is None)


def _reviewed(
    source: FileSource, target: ImportTarget, review: Review, progress: Progress, *, is_checked: bool = False
) -> Iterator[list[Decision]]:
    """Decisions in batches that may be written in one transaction. Raises: Unreadable."""
    schema = target.environment.task_schema
    with source.rows(schema) as rows:
        review.report.unit = rows.unit
        for batch in _batches(rows, "" if is_checked else schema, declared(json.loads(schema or "{}"))):
            yield list(review.decisions(batch))
            progress(rows.done, rows.total)
    if not review.report.rows:
        raise Unreadable(f"{source.name} holds no task.")


def _batches(
    rows: Iterable[FileRow | Refusal], schema: str, own: Collection[str]
) -> Iterator[list[FileTask | Refusal]]:
    batch: list[FileTask | Refusal] = []
    size_bytes = 0
    for row in rows:
        candidate = checked(row, schema, own)
        more_bytes = len(candidate.text) if isinstance(candidate, FileTask) else 0
        if batch and (len(batch) == BATCH_TASKS or size_bytes + more_bytes > BATCH_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append(candidate)
        size_bytes += more_bytes
    if batch:
        yield batch
