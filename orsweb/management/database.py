"""The database in commands that write to it themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management.base import CommandError
from django.db import DatabaseError

from environments.errors import OrsError
from orsweb.server import database_lock, pending_migrations


@contextmanager
def database_errors() -> Iterator[None]:
    """Raise what the database refuses as a CommandError."""
    try:
        yield
    except DatabaseError as error:
        reason = " ".join(str(error).split())
        raise CommandError(f"The database cannot be used: {reason}") from error


@contextmanager
def own_database() -> Iterator[None]:
    """Keep servers out of the database, which is migrated first if it is embedded. Raises:
    CommandError, also for an OrsError within."""
    try:
        with database_errors(), database_lock.acquire():
            if pending_migrations.is_behind():
                pending_migrations.migrate()
            yield
    except database_lock.DatabaseInUse as error:
        raise CommandError(
            f"{error} This command writes to the database itself, so no server may run."
        ) from error
    except (OrsError, pending_migrations.NotMigrated) as error:
        raise CommandError(str(error)) from error
