"""`manage.py backup [FILE]`: writes a consistent backup of the database while servers play."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError

from environments import security_log
from environments.display.progress_bar import progress_bar
from environments.display.terminal import TerminalCommand
from orsweb.operations.backup import BackupRefused, backup, default_name


class Command(TerminalCommand):
    help = (
        "Write a backup of the database to a file, as of one moment. The server may be running. "
        "The secret key in the data directory is not part of it."
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
        if target.is_dir():
            target /= default_name()
        start = time.monotonic()
        try:
            with progress_bar("Copying", is_bytes=True) as progress:
                size = backup(target, progress)
        except BackupRefused as error:
            raise CommandError(str(error)) from error
        except (OSError, DatabaseError, sqlite3.Error) as error:
            raise CommandError(f"No backup was written: {error}") from error
        security_log.note("exported", f"backup to {target}")
        self.stdout.write(f"{target}: {size:,} bytes in {time.monotonic() - start:.1f} s")
