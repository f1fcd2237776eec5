"""`manage.py import_tasks FILE --environment NAME --split NAME`: a file of tasks into a split."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from environments.database import jobs
from environments.errors import OrsError
from environments.transfer import importing
from environments.transfer.report import TaskImportReport
from environments.transfer.source import FORMATS, FileSource
from environments.transfer.target import TYPES, ImportTarget, environment_named

AUTHOR = "import_tasks"
"""Author of the revisions."""
SHOWN_REFUSALS = 20
HELP = """
Import a file of tasks into a split of an environment, beside a running server or without one.
A row is a task's spec; the columns _hash, _split, _tags, _state and _reason are about the task.
In CSV an empty cell is an absent key; the task schema of the environment says which columns are texts, and
without one a column is JSON (numbers, true, lists) if every cell of it is, otherwise text.
"""


class Command(BaseCommand):
    help = HELP

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="JSONL, JSON (an array), CSV or Parquet")
        parser.add_argument("--environment", required=True, metavar="NAME", help="as it is served")
        parser.add_argument("--split", required=True, metavar="NAME", help="where the tasks go, after those there")
        parser.add_argument("--type", choices=TYPES, help="makes a new split of this type")
        parser.add_argument("--format", choices=FORMATS, help="by default, the ending of the file's name")
        parser.add_argument("--dry-run", action="store_true", help="only report what would happen")
        parser.add_argument("--skip-refused", action="store_true", help="import the rest when rows are refused")
        parser.add_argument("--yes", action="store_true", help="do not ask after the report")

    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        try:
            self._import(file, options)
        except OrsError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            raise CommandError("Interrupted; nothing was imported.", returncode=130) from None

    def _import(self, file: Path, options: dict[str, Any]) -> None:
        source = FileSource.of(file, options["format"])
        target = ImportTarget.of(environment_named(options["environment"]), options["split"], options["type"])
        with _progress("Reading") as progress:
            report = importing.dry_run(source, target, progress)
        self._print(report)
        if options["dry_run"]:
            return
        skip_refused = options["skip_refused"]
        if report.refused and not skip_refused:
            raise importing.RefusedRows(report)
        if not report.has_work:
            self.stdout.write("Nothing to import.")
        elif options["yes"] or self._asks():
            with _progress("Importing") as progress:
                done = importing.apply(
                    source, target, author=AUTHOR, skip_refused=skip_refused, after=report, progress=progress
                )
            self.stdout.write(self.style.SUCCESS(done.sentence))

    def _asks(self) -> bool:
        """Raises: CommandError when nobody is there to answer."""
        if not sys.stdin.isatty():
            raise CommandError("Nobody can be asked here; add --yes to import, or --dry-run for the report alone.")
        return input("Import? [y/N] ").strip().lower() in ("y", "yes")

    def _print(self, report: TaskImportReport) -> None:
        self.stdout.write(f"{report.file} -> {report.environment}/{report.split}: {report.counts}")
        for note in report.notes:
            self.stdout.write(f"  {note}")
        for refusal in report.refusals[:SHOWN_REFUSALS]:
            self.stdout.write(f"  {report.unit} {refusal.number}: {refusal.reason}")
        if report.refused > SHOWN_REFUSALS:
            self.stdout.write(f"  and {report.refused - SHOWN_REFUSALS:,} more")


@contextmanager
def _progress(title: str) -> Iterator[jobs.Progress]:
    """A bar on the terminal's error stream, nothing elsewhere."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
