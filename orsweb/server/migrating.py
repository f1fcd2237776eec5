"""Migrating: an embedded database is brought up to date by whoever starts with it; another one by its operator."""

from __future__ import annotations

from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from environments import command_line


class NotMigrated(Exception):
    """The database lacks migrations that its operator has to run; the message is one sentence."""


def is_behind() -> bool:
    """Whether the embedded database lacks migrations. Raises: NotMigrated for another one; django.db.Error."""
    executor = MigrationExecutor(connection)
    if not executor.migration_plan(executor.loader.graph.leaf_nodes()):
        return False
    if connection.vendor != "sqlite":  # its operator may want a backup first
        raise NotMigrated(f"The database lacks migrations; run first: {command_line.command('migrate')}")
    return True


def migrate() -> None:
    """Apply all migrations. To be called by the holder of the database's lock."""
    call_command("migrate", verbosity=0)
