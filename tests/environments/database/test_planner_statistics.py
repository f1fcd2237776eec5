"""Statistics of query planners: those that selections need, and none that mislead queries of
episodes."""

from __future__ import annotations

import pytest
from django.db import connection

from environments.database.planner_statistics import refresh_statistics
from environments.models import TaskTag
from episodes.filtering.columns import with_list_columns
from episodes.models import Episode
from tests.stored import make_episode, make_split, make_task

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def refreshed() -> None:
    task = make_task()
    make_split(task)
    TaskTag.objects.create(task=task, name="hard")
    make_episode(task=task)
    refresh_statistics()


_ANALYZED = {
    "sqlite": "SELECT tbl FROM sqlite_stat1",
    "postgresql": (
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND reltuples > 0 AND relnamespace = "
        "'public'::regnamespace"
    ),
}


def test_it_analyzes_tags_and_places() -> None:
    with connection.cursor() as cursor:
        cursor.execute(_ANALYZED[connection.vendor])
        tables = {table for (table,) in cursor.fetchall()}
    if connection.vendor == "sqlite":
        assert tables == {"environments_tasktag", "environments_splitentry"}
    else:
        assert tables >= {"environments_tasktag", "environments_splitentry"}


@pytest.mark.parametrize("status", ["running", "ended"])
def test_the_newest_episodes_are_not_sorted(status: str) -> None:
    plan = with_list_columns(Episode.objects.filter(status=status)).order_by("-pk")[:8].explain()
    assert connection.vendor != "sqlite" or "TEMP B-TREE" not in plan
