"""`manage.py backup [FILE]`: writes a consistent backup of the database while servers play."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar

from environments import security_log
from environments.display.terminal import TerminalCommand
from orsweb.operations.backup import BackupRefused, backup, default_name


class Command(TerminalCommand):
    help = (
        "Write a backup of the database to a file, as of one moment. The server may be running. "
        "The secret key in the "
        "data directory is not part of it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "target",
            nargs="?",
            type=Path,
            default=Path(),
            metavar="FILE",
            help="or a directory; by default this one",
        )

    def handle(self, *args: Any, target: Path, **options: Any) -> None:
        target = Path(target)
        target = target / default_name() if target.is_dir() else target
        began = time.monotonic()
        try:
            with _progress() as progress:
                size = backup(target, progress)
        except BackupRefused as error:
            raise CommandError(str(error)) from error
        except (OSError, DatabaseError, sqlite3.Error) as error:
            raise CommandError(f"No backup was written: {error}") from error
        security_log.note("exported", f"backup to {target}")
        self.stdout.write(f"{target}: {size:,} bytes in {time.monotonic() - began:.1f} s")


@contextmanager
def _progress() -> Iterator[Any]:
    """Show a progress bar on standard error if that is a terminal."""
    columns = (TextColumn("Copying"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with ProgressBar(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("Copying", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
