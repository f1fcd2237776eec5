"""What `serve` and other commands find of migrations before they use the database."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

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


def test_a_database_that_a_newer_version_has_migrated_is_not_behind() -> None:
    MigrationRecorder(connection).record_applied("episodes", "9999_of_a_newer_version")
    assert not is_behind()


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
