"""Recount: TaskStatistics made anew from the episodes, while others end. Run by `upkeep.py` and `rebuild_statistics`.

Due it is when an environment's `definition` of return and success is not the one that its statistics follow
(`counted`): after an override or another declaration of the class, and for what an earlier version recorded. Whoever
changes a definition empties `counted` with it, for else a change that is taken back at once could be missed.

Tasks are counted in chunks. What ended before a boundary stays as it is and is read without any lock, however long that
takes; what ended since is few, and is added in the short transaction that replaces the rows. On SQLite a transaction
waits for the recorder's and the other way round. On PostgreSQL it locks the table against the recorder's counting:
an episode is then either committed, and found, or counted after the new rows stand, and added to them.

Upkeep: sees that the statistics of tasks follow the definitions in force. Made and stopped by the recorder.

It looks every other second, which is a query of the environments, and recounts on one of the recorder's reader threads
(`recount.py`). A recount that a stop cut short is due again at the next start.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass

import structlog
from django.db import Error, connection, transaction
from django.db.models import Exists, Max, OuterRef, Q

from environments import conf
from environments.database.bulk_writer import BulkWriter, Values
from environments.database.worker_threads import Workers
from environments.models import Environment, Task, TaskStatistics
from environments.scoring.buckets import bucket_of
from episodes.models import Episode
from episodes.recording.task_statistics import COLUMNS, recorded_sql

CHUNK_TASKS = 200
MAX_ROWS = 1000
"""Written in one transaction, unless a single task has more: some 30 ms."""
MAX_RUNNING = 5000
"""Running episodes that a boundary names."""

_LISTS = {
    "sqlite": "SELECT value FROM json_each(%s)",
    "postgresql": "SELECT CAST(value AS bigint) FROM json_array_elements_text(%s::json)",
}
_SETTLED = "e.task_id IN ({list}) AND e.id <= %s AND e.id NOT IN ({list})"
# by id: the plus keeps the database from going by the task, and with OR in place of the union SQLite reads all episodes
_SINCE = "+e.task_id IN ({list}) AND e.id IN (SELECT id FROM episodes_episode WHERE id > %s UNION ALL {list})"

Key = tuple[int, str, str]
"""Environment id, by, key."""


@dataclass(frozen=True, slots=True)
class TaskTally:
    """TaskStatistics' columns of the same names."""

    attempts: int
    scored: int
    successes: int
    return_total: float
    return_low: float | None
    return_high: float | None

    def __add__(self, other: TaskTally) -> TaskTally:
        lows = [low for low in (self.return_low, other.return_low) if low is not None]
        highs = [high for high in (self.return_high, other.return_high) if high is not None]
        return TaskTally(
            self.attempts + other.attempts,
            self.scored + other.scored,
            self.successes + other.successes,
            self.return_total + other.return_total,
            min(lows, default=None),
            max(highs, default=None),
        )

    @property
    def rate(self) -> float:
        return self.successes / self.attempts


Tallies = dict[int, dict[Key, TaskTally]]
"""By task id, empty for the others."""


@dataclass(frozen=True, slots=True)
class _Boundary:
    """Episodes up to `last` that are not `running` have ended for good."""

    last: int
    running: str
    """JSON array of ids."""


def stale() -> list[Environment]:
    """Environments whose statistics do not follow the definition and the thresholds in force."""
    thresholds, rows = str(conf.thresholds()), Environment.objects.order_by("pk")
    return [row for row in rows if (row.counted, row.bucketed) != (row.definition, thresholds)]


def rebuild(
    environment: Environment, *, stop: threading.Event | None = None, progress: Callable[[int], None] | None = None
) -> int:
    """Count all tasks of `environment` anew; returns how many have attempts or had them.

    `progress` hears that number after each chunk. Ends early, and is due again, when `stop` is set.
    """
    stop, done = stop or threading.Event(), 0
    row, token = Environment.objects.filter(pk=environment.pk), f"counting {uuid.uuid4().hex[:16]}"
    row.update(counted=token)  # before the definition is read: if it changes from now on, the token goes
    definition = row.get().definition
    for tasks in _chunks(environment):
        _recount(tasks, stop)
        if stop.is_set():
            return done
        done += len(tasks)
        if progress:
            progress(done)
    row.filter(counted=token).update(counted=definition, bucketed=str(conf.thresholds()))
    return done


def _chunks(environment: Environment) -> Iterator[list[int]]:
    """Ids of the tasks with episodes or statistics, in order."""
    played = Exists(Episode.objects.filter(task=OuterRef("pk")))
    counted = Exists(TaskStatistics.objects.filter(task=OuterRef("pk")))
    tasks = Task.objects.filter(Q(played) | Q(counted), environment=environment).order_by("pk")
    last = 0
    while chunk := list(tasks.filter(pk__gt=last).values_list("pk", flat=True)[:CHUNK_TASKS]):
        yield chunk
        last = chunk[-1]


def _recount(tasks: Sequence[int], stop: threading.Event) -> None:
    boundary = _boundary()
    settled = _tallies(_SETTLED, tasks, boundary)
    for part in _parts(tasks, settled):
        if stop.is_set():
            return
        began = time.monotonic()
        with transaction.atomic():
            _hold_counting()
            _replace(part, settled, _tallies(_SINCE, part, boundary))
        stop.wait(time.monotonic() - began)  # the recorder's turn


def _boundary() -> _Boundary:
    """The last id is read first: what begins after that is beyond it."""
    last: int = Episode.objects.aggregate(last=Max("pk"))["last"] or 0
    ids = Episode.objects.filter(status="running").order_by("pk").values_list("pk", flat=True)
    running = list(ids[: MAX_RUNNING + 1])
    if len(running) > MAX_RUNNING:
        last = min(last, running.pop() - 1)
    return _Boundary(last, json.dumps(running))


def _tallies(condition: str, tasks: Sequence[int], boundary: _Boundary) -> Tallies:
    """Of the attempts at `tasks` that meet `condition`, which is _SETTLED or _SINCE."""
    sql = recorded_sql(condition.format(list=_LISTS[connection.vendor]))
    found: Tallies = defaultdict(dict)
    with connection.cursor() as cursor:
        cursor.execute(sql, [json.dumps(list(tasks)), boundary.last, boundary.running])
        for task, environment, by, key, *values in cursor.fetchall():
            found[task][environment, by, key] = TaskTally(*values[:-2])  # rate and bucket are by the sum of two
    return found


def _parts(tasks: Sequence[int], tallies: Tallies) -> Iterator[list[int]]:
    """`tasks` in parts that fit one transaction each."""
    part, rows = list[int](), 0
    for task in tasks:
        rows += len(tallies[task])
        if part and rows > MAX_ROWS:
            yield part
            part, rows = [], len(tallies[task])
        part.append(task)
    yield part


def _hold_counting() -> None:
    """Until the transaction ends. On SQLite it has the write lock already."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE environments_taskstatistics IN SHARE ROW EXCLUSIVE MODE")


def _replace(tasks: Sequence[int], settled: Tallies, since: Tallies) -> None:
    rows, thresholds = list[Values](), conf.thresholds()
    for task in tasks:
        tallies = settled[task].copy()
        for key, tally in since[task].items():
            tallies[key] = tallies[key] + tally if key in tallies else tally
        for key, tally in tallies.items():
            bucket = bucket_of(tally.attempts, tally.rate, thresholds)
            rows.append((task, *key, *astuple(tally), tally.rate, bucket))
    TaskStatistics.objects.filter(task__in=tasks).delete()
    BulkWriter(connection).insert(TaskStatistics, COLUMNS, rows)
    _mark_seen(tasks, {row[0] for row in rows})


def _mark_seen(tasks: Sequence[int], seen: set[int]) -> None:
    Task.objects.filter(pk__in=set(tasks) - seen, is_unseen=False).update(is_unseen=True)
    wrong = Task.objects.filter(pk__in=seen, is_unseen=True).order_by("pk")
    unlocked = wrong.select_for_update(skip_locked=True, no_key=True)  # as the recorder: it waits for no task
    Task.objects.filter(pk__in=list(unlocked.values_list("pk", flat=True))).update(is_unseen=False)


LOOK_SECONDS = 2.0
LONGEST_WAIT_SECONDS = 60.0

log = structlog.get_logger(__name__)


class Upkeep:
    """Runs on the loop until it is stopped."""

    def __init__(self, readers: Workers) -> None:
        self._readers = readers
        self._stopped = threading.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """A recount that is under way ends with its transaction."""
        self._stopped.set()
        self._task.cancel()

    async def _run(self) -> None:
        wait = LOOK_SECONDS
        while True:
            try:
                await self._readers.run(self._recount)
                wait = LOOK_SECONDS
            except Error as error:  # the database is away, or busy for too long
                log.warning("statistics_not_recounted", error=type(error).__name__)
                wait = min(wait * 2, LONGEST_WAIT_SECONDS)
            await asyncio.sleep(wait)

    def _recount(self) -> None:
        for environment in stale():
            if self._stopped.is_set():
                return
            began = time.monotonic()
            tasks = rebuild(environment, stop=self._stopped)
            if tasks:
                seconds = round(time.monotonic() - began, 2)
                log.info("statistics_recounted", environment=environment.name, tasks=tasks, seconds=seconds)
