"""`manage.py migrate`: Django's own, but foreign keys in SQLite are checked once instead of after
each migration.

A check reads every row that has a foreign key: 2.7 s of CPU time for 200,000 episodes, and there
are 70 migrations.
"""

from __future__ import annotations

from typing import Any

from django.core import checks
from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import connections

from orsweb.server import pending_migrations


class Command(migrate.Command):
    def check(self, *args: Any, **options: Any) -> None:
        """Check models and the database alone. All checks import every page, which takes longer
        than all else of a first start."""
        tags = [checks.Tags.models, checks.Tags.database]
        super().check(*args, **options | {"tags": tags})

    def handle(self, *args: Any, **options: Any) -> None:
        """Migrate.

        Raises: CommandError if a newer version has migrated the database; django.db.IntegrityError
        after the last migration if a row refers to none.
        """
        try:
            pending_migrations.check_version()
        except pending_migrations.NotMigrated as error:
            raise CommandError(str(error)) from error
        connection = connections[options["database"]]
        if connection.vendor != "sqlite":
            super().handle(*args, **options)
            return
        checks = list[Any]()
        setattr(connection, "check_constraints", lambda *tables: checks.append(tables))  # noqa: B010  # mypy
        try:
            super().handle(*args, **options)
        finally:
            del connection.check_constraints
        if checks:
            connection.check_constraints()
