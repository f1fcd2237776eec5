"""Imports a file of tasks into a split. Used by `manage.py import_tasks` and the admin's import
pages. Blocking.

    target = ImportTarget.of(environment_named("math"), "hard", "train")
    source = FileSource.of(Path("hard.jsonl"))
    report = dry_run(source, target)
    report = apply(source, target, author="ada")

Works with or without a running server, whose agents get the new tasks with their next request.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace

from environments.curation.leaks import (
    MAX_READ_ON_REQUEST,
    Contents,
    opposite_splits,
    same_warning,
    unread_sentence,
)
from environments.curation.split_warnings import warnings_of_changing
from environments.curation.splits import making
from environments.curation.transfer.columns import declared
from environments.curation.transfer.finishing import Finishing
from environments.curation.transfer.report import TaskImportReport
from environments.curation.transfer.review import Decision, FileTask, Review, checked
from environments.curation.transfer.scratch_database import Scratch
from environments.curation.transfer.source import FileSource
from environments.curation.transfer.staging import BATCH_TASKS, MAX_BATCH_BYTES, Staging
from environments.curation.transfer.target import ImportTarget
from environments.curation.work import recorded
from environments.database.background_jobs import Progress, silent
from environments.database.planner_statistics import refresh_statistics
from environments.display.task_line import MAX_READ_CHARACTERS
from environments.files.rows import FileRow, Refusal, TransferError, Unreadable
from environments.models import Split
from environments.tasks.split_change import SplitChange


class RefusedRows(TransferError):
    """A strict import found rows that cannot be imported, and changed nothing. `report` lists
    them."""

    def __init__(self, report: TaskImportReport) -> None:
        first = report.refusals[0]
        super().__init__(
            f"{report.refused:,} of {report.rows:,} {report.unit}s cannot be imported, so nothing "
            "was. The first is "
            f"{report.unit} {first.number}: {first.reason}. Fix these {report.unit}s or skip them."
        )
        self.report = report


def dry_run(
    source: FileSource, target: ImportTarget, progress: Progress = silent
) -> TaskImportReport:
    """Return what `apply` would do, without writing anything. Raises: Unreadable."""
    report = _report(source, target)
    report.fingerprint = source.fingerprint(target.environment.task_schema)
    leaks = _ImportLeaks(target)
    with Scratch() as scratch:
        review = Review(target, report, scratch)
        for decisions in _reviewed(source, target, review, progress):
            for decision in decisions:
                leaks.add(decision)
    names = {*report.replaced_in, *([target.name] if report.added else [])}
    splits = Split.objects.filter(environment=target.environment, name__in=names)
    report.warnings = [*warnings_of_changing(splits), *leaks.sentences()]
    return report


class _ImportLeaks:
    """Compares the contents that agents will get, and do not get yet, with those that they get."""

    def __init__(self, target: ImportTarget) -> None:
        self._target = target
        self._others = list(opposite_splits(target.environment.pk, target.type))
        self._same, self._count, self._contents = Counter[int](), 0, Contents()
        self._compared = [*self._others, *([target.split] if target.split else [])]
        self._leaving = set[int]()
        self._room = MAX_READ_ON_REQUEST - sum(split.size for split in self._compared)

    def add(self, decision: Decision) -> None:
        if decision.kind not in ("added", "edited"):
            return
        self._count += 1
        self._leaving.update([decision.origin.id] if decision.origin else ())
        for split in {place.split for place in decision.places if not place.is_hidden}:
            self._same[split] += 1
        if self._count <= self._room:
            number = decision.task.id if decision.task else -decision.candidate.number
            is_short = len(decision.text) <= MAX_READ_CHARACTERS
            self._contents.add(number, json.loads(decision.text) if is_short else None)

    def sentences(self) -> list[str]:
        warnings = [
            same_warning(self._same[other.pk], other)
            for other in self._others
            if self._same[other.pk]
        ]
        unread = unread_sentence(self._count, self._compared, MAX_READ_ON_REQUEST)
        if not unread:
            warnings += self._contents.warnings(
                self._others, "of them", self._target.split, self._leaving
            )
        return [*(warning.sentence for warning in warnings), *([unread] if unread else [])]


def apply(
    source: FileSource,
    target: ImportTarget,
    *,
    author: str,
    skip_refused: bool = False,
    as_written: bool = False,
    after: TaskImportReport | None = None,
    progress: Progress = silent,
) -> TaskImportReport:
    """Import the file. Everything becomes visible at once at the end; after an error nothing does.

    as_written: content that an edit has replaced is added as it is in the file, and not what the
    edit made of it. after: the report of a dry run. If nothing was refused and the file has not
    changed since, the schema, which takes most of the time, is not checked again.
    Raises: Unreadable; RefusedRows unless `skip_refused`; ActionRefused when the name of a new
    split was taken in the meantime; FrozenSplit, SplitBusy, SplitGone.
    """
    is_checked = (
        after is not None
        and not after.refused
        and after.fingerprint == source.fingerprint(target.environment.task_schema)
    )
    with ExitStack() as stack:
        scratch = stack.enter_context(Scratch())
        action = stack.enter_context(
            recorded(
                "import",
                author,
                f"import of {source.name}",
                environment=target.environment.pk,
                split=target.split.pk if target.split else None,
            )
        )
        staging = Staging(target, scratch, action.revisions)
        stack.push(staging)  # exits after the change, which undoes the places
        change = stack.enter_context(
            SplitChange(target.split)
            if target.split
            else making(target.environment.pk, target.name, target.type)
        )
        report = _report(source, target)
        report.as_written = as_written
        review = Review(replace(target, split=change.split), report, scratch, as_written=as_written)
        for decisions in _reviewed(source, target, review, progress, is_checked=is_checked):
            # otherwise reading continues only for the report
            if skip_refused or not review.report.refused:
                staging.write(decisions, change)
        if review.report.refused and not skip_refused:
            raise RefusedRows(review.report)
        review.report.is_applied = True
        if review.report.has_work:
            count = review.report.added + review.report.changed
            Finishing(change, scratch, action, stack).settle(count)
            if target.split is None:
                action.settings({}, {"made": change.split.pk})
            action.done(review.report.sentence, count, split=change.split.pk)
    if review.report.has_work:
        refresh_statistics()
    return review.report


def _report(source: FileSource, target: ImportTarget) -> TaskImportReport:
    return TaskImportReport(source.name, target.environment.name, target.name, target.split is None)


def _reviewed(
    source: FileSource,
    target: ImportTarget,
    review: Review,
    progress: Progress,
    *,
    is_checked: bool = False,
) -> Iterator[list[Decision]]:
    """Yield the decisions in batches, each of the size of one transaction. Raises: Unreadable."""
    schema = target.environment.task_schema
    with source.rows(schema) as rows:
        review.report.unit = rows.unit
        for batch in _batches(
            rows, "" if is_checked else schema, declared(json.loads(schema or "{}"))
        ):
            yield list(review.decisions(batch))
            progress(rows.done, rows.total)
    if not review.report.rows:
        raise Unreadable(f"{source.name} holds no tasks.")


def _batches(
    rows: Iterable[FileRow | Refusal], schema: str, own: Collection[str]
) -> Iterator[list[FileTask | Refusal]]:
    batch: list[FileTask | Refusal] = []
    size_bytes = 0
    for row in rows:
        candidate = checked(row, schema, own)
        more_bytes = len(candidate.text) if isinstance(candidate, FileTask) else 0
        if batch and (len(batch) == BATCH_TASKS or size_bytes + more_bytes > MAX_BATCH_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append(candidate)
        size_bytes += more_bytes
    if batch:
        yield batch
