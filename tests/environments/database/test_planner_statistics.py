"""Statistics of SQLite's query planner: refreshed for all tables or for those of some models, absent on PostgreSQL."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.models import Model

from environments.database.planner_statistics import refresh_statistics
from environments.models import SplitEntry, Task
from tests.stored import make_split, make_task

pytestmark = pytest.mark.django_db


def analyzed_tables() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT tbl FROM sqlite_stat1")
        return {table for (table,) in cursor.fetchall()}


@pytest.mark.parametrize(
    ("models", "tables"),
    [
        ((Task,), {"environments_task"}),
        ((Task, SplitEntry), {"environments_task", "environments_splitentry"}),
        ((), {"environments_task", "environments_splitentry", "environments_split", "environments_environment"}),
    ],
)
def test_it_analyzes_the_tables_of_the_models(models: tuple[type[Model], ...], tables: set[str]) -> None:
    make_split(make_task())
    refresh_statistics(*models)
    if connection.vendor == "sqlite":
        assert tables <= analyzed_tables()
