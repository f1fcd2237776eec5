"""No migration is missing, each can be reversed, and databases of all versions end up alike."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from io import StringIO

import psycopg
import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from environments.models import Environment, Task, TaskStatistics
from tests import programs
from tests.server import LiveServer
from tests.stored import make_statistics, make_task

OURS = [
    name
    for name in ("environments", "episodes", "orsweb")
    if apps.get_app_config(name).models_module
]


@pytest.mark.django_db
def test_no_migration_is_missing() -> None:
    said = StringIO()
    call_command("makemigrations", dry_run=True, stdout=said)
    assert said.getvalue() == "No changes detected\n"


def test_migrations_can_be_taken_back() -> None:
    """Of a migrated database, which is a copy of the one that every test's is: so they can be applied as well."""
    server = LiveServer()
    try:
        assert tables_of_ours(server) and applied_of_ours(server)
        backwards = ("migrate", "environments", "zero", "--skip-checks")  # those of episodes before
        programs.run(*backwards, env=server.env, check=True)
        assert (tables_of_ours(server), applied_of_ours(server)) == ([], [])
    finally:
        server.discard()


def test_squashed_migrations_make_the_same_models_as_those_that_they_replace() -> None:
    squashed, replaced = MigrationLoader(None), MigrationLoader(None, replace_migrations=False)
    for key, migration in replaced.replacements.items():
        replaced.graph.remove_replacement_node(key, migration.replaces)
    changes = MigrationAutodetector(squashed.project_state(), replaced.project_state()).changes(
        replaced.graph
    )
    assert squashed.replacements and not changes


@pytest.mark.django_db(transaction=True)
def test_a_database_without_the_last_of_the_replaced_migrations_is_upgraded() -> None:
    """And from then on it counts as one that was made by the squashed ones."""
    every = applied()
    call_command("migrate", "environments", "0023", verbosity=0)
    earlier = applied()
    call_command("migrate", verbosity=0)
    assert earlier < every == applied()


@pytest.mark.django_db(transaction=True)
def test_tasks_at_which_the_environment_fails_are_no_longer_unseen() -> None:
    """As the version before would have recorded them."""
    tasks = [make_task() for _ in range(3)]
    for task, attempts, failures in zip(tasks, (0, 5, 0), (2, 6, 0), strict=True):
        make_statistics(task, attempts, 0, failures)
    TaskStatistics.objects.update(bucket="unseen")
    Task.objects.update(is_unseen=True)
    call_command("migrate", "environments", "0027", verbosity=0)
    call_command("migrate", verbosity=0)
    buckets = TaskStatistics.objects.order_by("task").values_list("bucket", flat=True)
    assert list(buckets) == ["failing", "failing", "unseen"]
    assert list(Task.objects.filter(is_unseen=True)) == tasks[2:]
    assert Environment.objects.get().bucketed == ""


def applied() -> set[tuple[str, str]]:
    return set(MigrationRecorder(connection).applied_migrations())


def tables_of_ours(server: LiveServer) -> list[str]:
    catalogue = (
        "SELECT name FROM sqlite_master"
        if not server.database_url
        else "SELECT tablename FROM pg_tables"
    )
    return [
        name
        for name in first_column(server, catalogue)
        if name.startswith(tuple(f"{app}_" for app in OURS))
    ]


def applied_of_ours(server: LiveServer) -> list[str]:
    return [app for app in first_column(server, "SELECT app FROM django_migrations") if app in OURS]


def first_column(server: LiveServer, query: str) -> list[str]:
    if server.database_url:
        with psycopg.connect(server.database_url) as connection:
            return [str(value) for (value, *_) in connection.execute(query.encode())]
    with closing(sqlite3.connect(server.data_dir / "orsweb.sqlite3")) as connection:
        return [str(value) for (value, *_) in connection.execute(query)]
