"""Finds and applies pending migrations, for the commands that need a current database.

The command that finds an embedded database (SQLite) outdated migrates it; any other one is migrated
by its operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from environments import command_line, conf
from environments.errors import shorten
from orsweb.server.heartbeat import PREPARING, UPGRADING

MAX_NAMED_CHARACTERS = 200
"""Length of what a sentence names of migrations."""


class NotMigrated(Exception):
    """The operator has to migrate the database, or to install the version that did; the message
    says which."""


def is_behind() -> bool:
    """Return whether an embedded database has pending migrations.

    Raises: NotMigrated if a newer version has migrated the database, or if one that is not embedded
    has pending migrations; django.db.Error.
    """
    check_version()
    if MigrationRecorder(connection).applied_migrations().keys() >= set(_on_disk()):
        return False  # found without importing a hundred files
    executor = MigrationExecutor(connection)
    if not executor.migration_plan(executor.loader.graph.leaf_nodes()):
        executor.check_replacements()  # records squashed ones, so that later starts return above
        return False
    if connection.vendor != "sqlite":  # its operator may want a backup first
        raise NotMigrated(
            f"The database has pending migrations; run first: {command_line.command('migrate')}"
        )
    return True


def check_version() -> None:
    """Check that no newer version has migrated the database. Raises: NotMigrated;
    django.db.Error."""
    if newer := newer_than_this(MigrationRecorder(connection).applied_migrations()):
        raise NotMigrated(
            f"The database {newer}. Install that version, or restore a backup from before."
        )


def newer_than_this(migrations: Iterable[tuple[str, str]]) -> str:
    """Return the second half of a sentence about what has these migrations; empty if this version
    has them all."""
    names = ", ".join(".".join(key) for key in sorted(set(migrations) - set(_on_disk())))
    if not names:
        return ""
    return (
        "is of a newer version of orsweb, which has migrations that version "
        f"{conf.version()} does not know: {shorten(names, MAX_NAMED_CHARACTERS)}"
    )


def is_first_start() -> bool:
    """Return whether the database is empty."""
    return not MigrationRecorder(connection).applied_migrations()


def migrate() -> None:
    """Print a line, and apply all migrations. Call it only while holding the database's lock."""
    print(f"{PREPARING if is_first_start() else UPGRADING} …", flush=True)
    call_command("migrate", verbosity=0)


def _on_disk() -> Iterator[tuple[str, str]]:
    """Yield the application and the name of each migration, and perhaps of other files beside
    them."""
    for application in apps.get_app_configs():
        package, _ = MigrationLoader.migrations_module(application.label)
        spec = find_spec(package) if package else None
        for place in (spec and spec.submodule_search_locations) or ():
            for name in {file.name.partition(".")[0] for file in Path(place).iterdir()}:
                if not name.startswith(("_", "~")):
                    yield application.label, name
