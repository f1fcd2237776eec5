"""Detection and application of pending migrations, for the commands that need a current database.

An embedded database (SQLite) is migrated by the command that finds it outdated; any other one by its operator.
"""

from __future__ import annotations

from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from environments import command_line


class NotMigrated(Exception):
    """The operator has to migrate the database; the message is one sentence."""


def is_behind() -> bool:
    """Return whether an embedded database has pending migrations.

    Raises: NotMigrated if a database that is not embedded has pending migrations; django.db.Error.
    """
    executor = MigrationExecutor(connection)
    if not executor.migration_plan(executor.loader.graph.leaf_nodes()):
        return False
    if connection.vendor != "sqlite":  # its operator may want a backup first
        raise NotMigrated(f"The database has pending migrations; run first: {command_line.command('migrate')}")
    return True


def migrate() -> None:
    """Apply all migrations. Call it only while holding the database's lock."""
    call_command("migrate", verbosity=0)
