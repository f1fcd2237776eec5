"""`manage.py import_episodes FILE …`: episodes that `export_episodes --format jsonl` wrote, into this database.

It stands in the composition root like `serve`, for it takes the lock that servers take: ids of episodes and numbers of
endings are counted in a server's memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from environments.database import jobs
from environments.errors import OrsError
from episodes.transfer import importing
from orsweb.server import database_lock, migrating

SHOWN = 20
"""Of refused lines and of new ids."""


class Command(BaseCommand):
    help = "Import episodes from the JSONL of export_episodes. What is there already is skipped. No server may run."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "files", nargs="+", type=Path, metavar="FILE", help="as export_episodes --format jsonl wrote"
        )

    def handle(self, *args: Any, files: Sequence[Path], **options: Any) -> None:
        try:
            with database_lock.acquire():
                if migrating.is_behind():
                    migrating.migrate()
                self._import(files)
        except (OrsError, database_lock.DatabaseInUse, migrating.NotMigrated) as error:
            raise CommandError(str(error)) from error
        except DatabaseError as error:
            raise CommandError(f"The database cannot be used: {' '.join(str(error).split())}") from error

    def _import(self, files: Sequence[Path]) -> None:
        """Raises: CommandError when lines were refused or something stopped it; Unreadable."""
        with _progress() as progress:
            work = importing.Import(files, progress)
            try:
                work.run()
            except KeyboardInterrupt:
                raise CommandError(_stopped("Interrupted", work.report), returncode=130) from None
            except DatabaseError as error:
                raise CommandError(_stopped(f"The database failed ({error})", work.report)) from error
        self._print(work.report)

    def _print(self, report: importing.EpisodeImportReport) -> None:
        self.stdout.write(f"{report.sentence}.")
        for old, new in list(report.new_ids.items())[:SHOWN]:
            self.stdout.write(f"  episode {old} is {new} here, for another episode has its id")
        if report.renumbered > SHOWN:
            self.stdout.write(f"  and {report.renumbered - SHOWN:,} more have new ids")
        for file, refusal in report.refusals[:SHOWN]:
            self.stderr.write(f"  {file}, line {refusal.number}: {refusal.reason}")
        if report.refused:
            lines = "1 line was" if report.refused == 1 else f"{report.refused:,} lines were"
            raise CommandError(f"{lines} refused; the others are imported.")


def _stopped(why: str, report: importing.EpisodeImportReport) -> str:
    return f"{why}. {report.sentence}; the same command goes on from there."


@contextmanager
def _progress() -> Iterator[jobs.Progress]:
    """A bar on the terminal's error stream, nothing elsewhere."""
    columns = (TextColumn("Importing"), BarColumn(), TaskProgressColumn(), DownloadColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("Importing", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
