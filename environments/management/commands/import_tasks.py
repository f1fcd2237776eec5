"""`manage.py import_tasks FILE --environment NAME --split NAME` imports a file of tasks into a
split."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from environments.curation.transfer import importing
from environments.curation.transfer.report import TaskImportReport
from environments.curation.transfer.source import FORMATS, FileSource
from environments.curation.transfer.target import TYPES, ImportTarget, environment_named
from environments.display.progress_bar import progress_bar
from environments.display.terminal import TerminalCommand
from environments.errors import OrsError

AUTHOR = "import_tasks"
"""The author that the revisions name."""
MAX_SHOWN_REFUSALS = 20
HELP = """
Import a file of tasks into a split of an environment. The server may be running.
Each row is the spec of a task; the columns _hash, _split, _tags, _state and _reason are labels of the task.
In CSV, an empty cell means that the key is absent. The environment's task schema defines which columns are text;
without a schema, a column is read as JSON (numbers, true, lists) if every cell is valid JSON, otherwise as text.
"""


class Command(TerminalCommand):
    help = HELP

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="JSONL, JSON (an array), CSV or Parquet")
        parser.add_argument(
            "--environment", required=True, metavar="NAME", help="name of the environment"
        )
        parser.add_argument(
            "--split", required=True, metavar="NAME", help="split to append the tasks to"
        )
        parser.add_argument("--type", choices=TYPES, help="create the split, with this type")
        parser.add_argument("--format", choices=FORMATS, help="by default the file's extension")
        parser.add_argument("--dry-run", action="store_true", help="only report what would happen")
        parser.add_argument(
            "--skip-refused", action="store_true", help="skip rows that cannot be imported"
        )
        parser.add_argument(
            "--superseded",
            choices=("edited", "file"),
            help="what to serve where the content of a row was edited since: the edited task, or "
            "the file's content; by default it asks, and --yes takes the edited tasks",
        )
        parser.add_argument("--yes", action="store_true", help="import without asking")

    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        try:
            self._import(file, options)
        except OrsError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            raise CommandError("Interrupted; nothing was imported.", returncode=130) from None

    def _import(self, file: Path, options: dict[str, Any]) -> None:
        source = FileSource.of(file, options["format"])
        environment = environment_named(options["environment"])
        target = ImportTarget.of(environment, options["split"], options["type"])
        with progress_bar("Reading") as progress:
            report = importing.dry_run(source, target, progress)
        self._print(report)
        if options["dry_run"]:
            return
        skip_refused = options["skip_refused"]
        if report.refused and not skip_refused:
            raise importing.RefusedRows(report)
        as_written = options["superseded"] == "file"
        if not report.has_work and not report.superseded:
            self.stdout.write("Nothing to import.")
            return
        if report.superseded and options["superseded"] is None and not options["yes"]:
            question = "Serve the content of the file instead of the edited tasks?"
            as_written = self._confirms(question)
        if options["yes"] or self._confirms("Import?"):
            with progress_bar("Importing") as progress:
                result = importing.apply(
                    source,
                    target,
                    author=AUTHOR,
                    skip_refused=skip_refused,
                    as_written=as_written,
                    after=report,
                    progress=progress,
                )
            self.stdout.write(result.sentence, self.style.SUCCESS)

    def _confirms(self, question: str) -> bool:
        """Ask a question. Raises: CommandError without a terminal to ask in."""
        if not sys.stdin.isatty():
            raise CommandError(
                "Cannot ask without a terminal; add --yes to import, or --dry-run to see only the "
                "report."
            )
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")

    def _print(self, report: TaskImportReport) -> None:
        self.stdout.write(f"{report.file} -> {report.environment}/{report.split}: {report.counts}")
        for note in report.notes:
            self.stdout.write(f"  {note}")
        for refusal in report.refusals[:MAX_SHOWN_REFUSALS]:
            self.stdout.write(f"  {report.unit} {refusal.number}: {refusal.reason}")
        if report.refused > MAX_SHOWN_REFUSALS:
            self.stdout.write(f"  and {report.refused - MAX_SHOWN_REFUSALS:,} more")
