"""`manage.py restore FILE`: restores a backup into an empty database."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError, connection

from environments import security_log
from environments.display.terminal import TerminalCommand
from orsweb.operations.backup import BackupRefused, restore
from orsweb.private_files import remove_created
from orsweb.server import database_lock, pending_migrations


class Command(TerminalCommand):
    help = (
        "Restore a file that backup wrote into an empty database, and migrate it. No server may "
        "run."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("source", type=Path, metavar="FILE")
        parser.add_argument(
            "--replace",
            action="store_true",
            help="also if the database holds something; a SQLite file is kept under another name",
        )

    def handle(self, *args: Any, source: Path, replace: bool, **options: Any) -> None:
        start = time.monotonic()
        next_command = "doctor"
        try:
            with _lock():
                try:
                    old_file = restore(source, replaces=replace)
                except BaseException:
                    connection.close()
                    remove_created()  # while nobody else can begin to use them
                    raise
                # a backup of an older version
                try:
                    if pending_migrations.is_behind():
                        pending_migrations.migrate()
                except pending_migrations.NotMigrated:
                    next_command = "migrate, then doctor,"
        except (BackupRefused, database_lock.DatabaseInUse) as error:
            raise CommandError(str(error)) from error
        except (OSError, DatabaseError, sqlite3.Error) as error:
            raise CommandError(
                f"The backup could not be restored: {' '.join(str(error).split())}"
            ) from error
        security_log.note("deleted", "database, replaced by a backup", detail=f"{source}")
        self.stdout.write(
            f"{source} restored in {time.monotonic() - start:.1f} s. Run {next_command} next."
        )
        if old_file:
            self.stdout.write(f"What was there before is in {old_file}.")


def _lock() -> database_lock.Lock:
    """Acquire the lock of the database. Raises: as `database_lock.acquire`."""
    try:
        return database_lock.acquire()
    except (database_lock.DatabaseInUse, DatabaseError):
        if connection.vendor == "postgresql":  # with SQLite, what holds the lock uses the directory
            remove_created()
        raise
