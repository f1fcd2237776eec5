"""Rebuilds TaskStatistics from the episodes while others end: by the recorder's upkeep and by
`rebuild_statistics`.

A recount is due when an environment's `definition` of return and success differs from the one that
its statistics follow (`counted`): after an override, after another declaration of the class, and
for what an earlier version recorded. Code that changes a definition also empties `counted`, because
a change that is undone at once could be missed otherwise.

Tasks are counted in chunks. Episodes that ended before a boundary no longer change and are read
without a lock, however long that takes; the few that ended since are added in the short transaction
that replaces the rows. On SQLite that transaction and the recorder's wait for each other. On
PostgreSQL it locks the table against the recorder's counting: an episode is then either committed
and found, or counted after the new rows are written and added to them.

`episodes/recording/upkeep.py` checks whether a recount is due while a server runs. A recount that a
stop interrupts is due again at the next start.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from django.db import connection, transaction
from django.db.models import Exists, Max, OuterRef, Q

from environments import conf
from environments.database.bulk_writer import BulkWriter, Values
from environments.database.json_rows import ID_LISTS
from environments.models import Environment, Task, TaskStatistics
from episodes.models import Episode
from episodes.rollups.task_statistics import COLUMNS, count_ended, recorded_sql

CHUNK_TASKS = 200
MAX_ROWS = 1000
"""Rows written in one transaction, about 30 ms, unless a single task has more."""
MAX_RUNNING = 5000
"""Maximum number of running episodes that a boundary lists."""

_SETTLED = "e.task_id IN ({list}) AND e.id <= %s AND e.id NOT IN ({list})"
# by id: the plus keeps the database from using the task's index, and with OR instead of UNION
# SQLite reads all episodes
_SINCE = (
    "+e.task_id IN ({list}) AND e.id IN (SELECT id FROM episodes_episode WHERE id > %s UNION ALL "
    "{list})"
)

_COUNTING = "counting "
"""Start of `Environment.counted` while it is counted."""


class _Boundary(NamedTuple):
    """Divides the episodes: those up to the id `last` that are not in `running` have ended and no
    longer change."""

    last: int
    running: str
    """Ids of the running episodes, as a JSON array."""


def stale() -> list[Environment]:
    """Return the environments whose statistics do not follow the definition and the thresholds in
    force."""
    thresholds, rows = str(conf.thresholds()), Environment.objects.order_by("pk")
    return [row for row in rows if (row.counted, row.bucketed) != (row.definition, thresholds)]


def rebuild(
    environment: Environment,
    *,
    stop: threading.Event | None = None,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Recount all tasks of `environment`, and return how many have episodes or had statistics.

    `progress` is called with that number after each chunk. Ends early, and is due again, when
    `stop` is set.
    """
    stop, count = stop or threading.Event(), 0
    row = Environment.objects.filter(pk=environment.pk)
    token = f"{_COUNTING}{uuid.uuid4().hex[:16]}"
    # before the definition is read: a change from now on removes the token
    row.update(counted=token)
    definition = row.get().definition
    for tasks in _chunks(environment):
        _recount(tasks, stop)
        if stop.is_set():
            return count
        count += len(tasks)
        if progress:
            progress(count)
    row.filter(counted=token).update(counted=definition, bucketed=str(conf.thresholds()))
    return count


def recount_tasks(tasks: Sequence[int]) -> None:
    """Recount a few tasks at once, of whose episodes the run or the model has changed.

    Called within the transaction that changed them, which holds the counting. A recount that is
    under way begins anew.
    """
    Environment.objects.filter(tasks__in=tasks, counted__startswith=_COUNTING).update(counted="")
    boundary = _boundary()
    _replace(tasks, _settled_rows(tasks, boundary), boundary)


def _chunks(environment: Environment) -> Iterator[list[int]]:
    """Yield the ids of the tasks with episodes or statistics, in order."""
    has_episodes = Exists(Episode.objects.filter(task=OuterRef("pk")))
    has_statistics = Exists(TaskStatistics.objects.filter(task=OuterRef("pk")))
    tasks = Task.objects.filter(
        Q(has_episodes) | Q(has_statistics), environment=environment
    ).order_by("pk")
    last = 0
    while chunk := list(tasks.filter(pk__gt=last).values_list("pk", flat=True)[:CHUNK_TASKS]):
        yield chunk
        last = chunk[-1]


def _recount(tasks: Sequence[int], stop: threading.Event) -> None:
    boundary = _boundary()
    rows = _settled_rows(tasks, boundary)
    for part in _parts(tasks, rows):
        if stop.is_set():
            return
        began = time.monotonic()
        with transaction.atomic():
            hold_counting()
            _replace(part, rows, boundary)
        stop.wait(time.monotonic() - began)  # so that the recorder gets its turn


def _boundary() -> _Boundary:
    """Return the present boundary. The last id is read first: episodes that start later have higher
    ids."""
    last: int = Episode.objects.aggregate(last=Max("pk"))["last"] or 0
    ids = Episode.objects.filter(status="running").order_by("pk").values_list("pk", flat=True)
    running = list(ids[: MAX_RUNNING + 1])
    if len(running) > MAX_RUNNING:
        last = min(last, running.pop() - 1)
    return _Boundary(last, json.dumps(running))


def _settled_rows(tasks: Sequence[int], boundary: _Boundary) -> Mapping[int, list[Values]]:
    """Return rows of TaskStatistics for what ended before the boundary, by task."""
    condition = _SETTLED.format(list=ID_LISTS[connection.vendor])
    rows = defaultdict[int, list[Values]](list)
    with connection.cursor() as cursor:
        sql = recorded_sql(condition, has_buckets=True)
        cursor.execute(sql, [json.dumps(list(tasks)), *boundary])
        for row in cursor.fetchall():
            rows[row[0]].append(row)
    return rows


def _parts(tasks: Sequence[int], rows: Mapping[int, list[Values]]) -> Iterator[list[int]]:
    """Divide `tasks` into parts that fit one transaction each."""
    part, count = list[int](), 0
    for task in tasks:
        count += len(rows[task])
        if part and count > MAX_ROWS:
            yield part
            part, count = [], len(rows[task])
        part.append(task)
    yield part


def hold_counting() -> None:
    """Lock out the recorder's counting until the transaction ends; on SQLite the write lock already
    does."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE environments_taskstatistics IN SHARE ROW EXCLUSIVE MODE")


def _replace(tasks: Sequence[int], rows: Mapping[int, list[Values]], boundary: _Boundary) -> None:
    """Write these rows of the tasks instead of those that exist, and add what ended since the
    boundary."""
    statistics = TaskStatistics.objects.filter(task__in=tasks)
    statistics.delete()
    BulkWriter(connection).insert(
        TaskStatistics, COLUMNS, [row for task in tasks for row in rows[task]]
    )
    since = _SINCE.format(list=ID_LISTS[connection.vendor])
    count_ended(since, [json.dumps(list(tasks)), *boundary])
    has_result = Q(attempts__gt=0) | Q(env_error__gt=0)
    played_tasks = set(statistics.filter(has_result, by="all").values_list("task", flat=True))
    Task.objects.filter(pk__in=set(tasks) - played_tasks, is_unseen=False).update(is_unseen=True)
    wrong = Task.objects.filter(pk__in=played_tasks, is_unseen=True).order_by("pk")
    # wait for no task, as the recorder does
    free = wrong.select_for_update(skip_locked=True, no_key=True)
    Task.objects.filter(pk__in=list(free.values_list("pk", flat=True))).update(is_unseen=False)
