"""What `serve` and other commands find of migrations before they use the database."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from orsweb.operations.installation_checks import PLACE_CHECKS
from orsweb.server.pending_migrations import NotMigrated, is_behind

pytestmark = pytest.mark.django_db


def test_a_migrated_database_is_not_behind() -> None:
    assert not is_behind()


def test_a_database_without_the_latest_migration_is_behind() -> None:
    MigrationRecorder(connection).record_unapplied("episodes", _latest())
    if connection.vendor == "sqlite":
        assert is_behind()
    else:
        with pytest.raises(NotMigrated, match="pending migrations; run first:"):
            is_behind()


def test_a_database_that_a_newer_version_has_migrated_is_refused() -> None:
    MigrationRecorder(connection).record_applied("episodes", "9999_later")
    sentence = "The database is of a newer version of orsweb, .* 0.1.0 does not know: episodes.9999_later. Install"
    with pytest.raises(NotMigrated, match=sentence):
        is_behind()
    with pytest.raises(CommandError, match=sentence):
        call_command("migrate")
    with pytest.raises(SystemExit, match=sentence):
        call_command("runserver", "0", use_reloader=False)
    assert [problem.sentence for problem in PLACE_CHECKS[0].find()] == [
        "The database is of a newer version of orsweb, which has migrations that version 0.1.0 does not know: "
        "episodes.9999_later."
    ]


def test_a_database_from_before_a_squash_is_not_behind_and_records_it() -> None:
    """So that the next start finds its name without importing all migrations."""
    recorder = MigrationRecorder(connection)
    squashed = {key for key in _applied() if "_squashed_" in key[1]}
    for key in squashed:
        recorder.record_unapplied(*key)
    assert not is_behind()
    assert {app for app, _ in squashed} == {"environments", "episodes"} and squashed <= _applied()


def _latest() -> str:
    return max(name for app, name in _applied() if app == "episodes")


def _applied() -> set[tuple[str, str]]:
    return set(MigrationRecorder(connection).applied_migrations())
