"""`manage.py migrate` checks the foreign keys of SQLite once, however many migrations there are."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.test.utils import CaptureQueriesContext

from environments.models import Split
from tests.stored import make_episode

pytestmark = pytest.mark.django_db(transaction=True)
SEVERAL = 3


def migrate(*target: str) -> int:
    """Migrate, and return how often foreign keys were checked."""
    with CaptureQueriesContext(connection) as statements:
        call_command("migrate", *target, verbosity=0)
    return sum(statement["sql"] == "PRAGMA foreign_key_check" for statement in statements)


def earlier() -> str:
    """Return the migration of `episodes` after which there are SEVERAL more."""
    names = sorted(name for app, name in MigrationRecorder(connection).applied_migrations() if app == "episodes")
    return names[-1 - SEVERAL]


def test_foreign_keys_are_checked_once() -> None:
    make_episode()
    expected = 1 if connection.vendor == "sqlite" else 0
    assert (migrate("episodes", earlier()), migrate(), migrate()) == (expected, expected, 0)


def test_a_row_that_refers_to_none_is_reported() -> None:
    if connection.vendor == "postgresql":  # it refuses such a row at once
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA foreign_keys = OFF")
        Split.objects.create(environment_id=999, name="train", type="train")
        cursor.execute("PRAGMA foreign_keys = ON")
    try:
        with pytest.raises(IntegrityError, match="environment_id contains a value '999'"):
            migrate("episodes", earlier())
    finally:
        Split.objects.all().delete()
        migrate()
