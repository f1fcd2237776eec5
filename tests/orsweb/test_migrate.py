"""`manage.py migrate` checks the foreign keys of SQLite once, however many migrations there are, and
imports no page."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection
from django.test.utils import CaptureQueriesContext

from environments.models import Split
from tests import programs
from tests.server import LiveServer
from tests.stored import make_episode

pytestmark = pytest.mark.django_db(transaction=True)
BACK = ("axes", "0007")  # three migrations before the latest


def migrate(*target: str) -> int:
    """Migrate, and return how often foreign keys were checked."""
    with CaptureQueriesContext(connection) as statements:
        call_command("migrate", *target, verbosity=0)
    return sum(statement["sql"] == "PRAGMA foreign_key_check" for statement in statements)


def test_foreign_keys_are_checked_once() -> None:
    make_episode()
    expected = 1 if connection.vendor == "sqlite" else 0
    assert (migrate(*BACK), migrate(), migrate()) == (expected, expected, 0)


def test_a_row_that_refers_to_none_is_reported() -> None:
    if connection.vendor == "postgresql":  # it refuses such a row at once
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA foreign_keys = OFF")
        Split.objects.create(environment_id=999, name="train", type="train")
        cursor.execute("PRAGMA foreign_keys = ON")
    try:
        with pytest.raises(IntegrityError, match="environment_id contains a value '999'"):
            migrate(*BACK)
    finally:
        Split.objects.all().delete()
        migrate()


def test_no_page_is_imported_for_it() -> None:
    """Which takes longer than all else of a first start."""
    code = (
        "import sys; from django.core.management import call_command;"
        "call_command('migrate', verbosity=0, skip_checks=False);"
        "print('orsweb.urls' in sys.modules)"
    )
    server = LiveServer()
    try:
        done = programs.run("shell", "--no-imports", "-c", code, env=server.env, check=True)
    finally:
        server.discard()
    assert done.stdout == "False\n"
