"""Episodes that have ended, with numbers of their endings, as curves and leaderboards read them."""

from __future__ import annotations

from typing import Any

from django.db import connection
from django.db.models import Max

from environments.database.bulk_writer import BulkWriter
from environments.models import TaskStatistics
from episodes.models import Episode
from episodes.rollups.task_statistics import COLUMNS, recorded_sql
from tests.stored import make_episode, make_task, unsaved_episode


def end_episode(reward: float | None = 1.0, **values: Any) -> Episode:
    """Create an attempt with `reward` as every return, unless `values` say otherwise; it is the
    next ending."""
    return make_episode(**_attempt(_last() + 1, reward, values))


def end_episodes(*attempts: tuple[float | None, dict[str, Any]]) -> None:
    """Create attempts as `end_episode` does, of the reward and values of each; those without a task
    share a new one."""
    last, task = _last(), make_task()
    Episode.objects.bulk_create(
        unsaved_episode(**_attempt(last + number, reward, {"task": task, **values}))
        for number, (reward, values) in enumerate(attempts, 1)
    )


def _last() -> int:
    return Episode.objects.aggregate(last=Max("end_number"))["last"] or 0


def _attempt(number: int, reward: float | None, values: dict[str, Any]) -> dict[str, Any]:
    given = {
        "return_last": reward,
        "return_max": reward,
        "return_mean": reward,
        "return_sum": reward or 0.0,
    }
    return {**given, "end_number": number, "steps_count": 2, **values}


def count_statistics() -> None:
    """Count everything recorded into TaskStatistics."""
    TaskStatistics.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute(recorded_sql("1 = 1", has_buckets=True))
        rows = cursor.fetchall()
    connection.ensure_connection()
    BulkWriter(connection).insert(TaskStatistics, COLUMNS, rows)
