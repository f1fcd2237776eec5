"""No migration is missing, and each can be reversed."""

from __future__ import annotations

from io import StringIO

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

OURS = [name for name in ("environments", "episodes", "orsweb") if apps.get_app_config(name).models_module]


def tables_of_ours() -> set[str]:
    names = connection.introspection.table_names()
    return {name for name in names if name.startswith(tuple(f"{app}_" for app in OURS))}


@pytest.mark.django_db
def test_no_migration_is_missing() -> None:
    said = StringIO()
    call_command("makemigrations", dry_run=True, stdout=said)
    assert said.getvalue() == "No changes detected\n"


@pytest.mark.django_db(transaction=True)
def test_migrations_can_be_taken_back_and_applied_again() -> None:
    before = tables_of_ours()
    try:
        for app in reversed(OURS):
            call_command("migrate", app, "zero", verbosity=0)
        assert tables_of_ours() == set()
        assert not MigrationRecorder.Migration.objects.filter(app__in=OURS).exists()
    finally:
        call_command("migrate", verbosity=0)
    assert tables_of_ours() == before
