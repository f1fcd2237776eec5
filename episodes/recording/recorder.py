"""Recorder: the record of live play, as the runtime's `Record`. Made by `environments/service.py`, used on the loop.

Rows are queued as they are; `episodes/recording/writer.py` converts and commits them on its own thread.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import cast

import structlog
from django.db import DatabaseError, InterfaceError
from django.db.models import Max

from environments.database.storable import storable, storable_id
from environments.database.worker_threads import Workers
from environments.runtime.records import RecalledCall, Row, StepStatus
from episodes.models import Episode, Step
from episodes.recording.batch import KEY_LABEL_LENGTH, SESSION_ID_LENGTH, TASK_ID_LENGTH
from episodes.recording.interrupted import close_interrupted
from episodes.recording.live import Live
from episodes.recording.recount import Upkeep
from episodes.recording.writer import FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS, Call, RecordWriter, is_away
from episodes.rollups.follower import Follower

READERS = 2
FOLLOWER_SECONDS = 1.0
"""At a stop; it goes on from where it was at the next start."""

log = structlog.get_logger(__name__)


class Recorder:
    """`start` first, `stop` last; in between the methods of `Record`."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Call | None] = SimpleQueue()
        self._writer = RecordWriter(self._queue, self._settle)
        self._live = Live()
        self._follower = Follower()

    async def start(self) -> None:
        """Raises: django.db.Error when the database is away or not migrated."""
        self._loop = asyncio.get_running_loop()
        self._readers = Workers(READERS, "recall")
        self._numbers: Iterator[int] = itertools.count(await self._readers.run(_last_episode) + 1)
        self._live.start()
        self._writer.start()
        self._upkeep = Upkeep(self._readers)
        self._follower.start()

    async def recover(self) -> int:
        """Close the episodes that a dead server left open; returns how many. For the holder of the lock alone."""
        return await self._readers.run(close_interrupted, time.time())

    async def stop(self, timeout_seconds: float) -> int:
        """Write what is queued, for at most `timeout_seconds`. Returns the number of rows that could not be written."""
        self._upkeep.stop()
        self._queue.put(None)
        await asyncio.to_thread(self._writer.join, timeout_seconds)
        self._writer.given_up.set()
        self._live.stop()
        await asyncio.to_thread(self._follower.stop, FOLLOWER_SECONDS)
        self._readers.close()
        return self._not_written()

    @property
    def rejected(self) -> int:
        """Rows that the database refused for what they hold; each is in the log."""
        return self._writer.rejected

    # --- Record -------------------------------------------------------------------------------------------------------

    def next_episode(self) -> int:
        """Counted in memory: there is one server per database."""
        return next(self._numbers)

    def record(self, *rows: Row, committed: Callable[[], None] | None = None) -> None:
        """The rows of one call are committed together. `committed` is called also when they had to be rejected."""
        self._queue.put((rows, committed))

    async def recall(self, session_id: str, owner: str, task_id: str) -> RecalledCall | None:
        """The call of the session's newest episode of the owner's that has the id. Waits while the database is away."""
        wait = FIRST_WAIT_SECONDS
        while True:  # ends with the caller, whose client hears comments meanwhile
            try:
                return await self._readers.run(_recall, session_id, owner, task_id)
            except (DatabaseError, InterfaceError) as error:
                if not is_away(error):
                    raise
            await asyncio.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT_SECONDS)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _settle(self, calls: Sequence[Call]) -> None:
        """In the writer's thread: wake the follower, the loop once for the whole batch, and tell those who look on."""
        self._follower.wake()
        if callbacks := [committed for _, committed in calls if committed]:
            with suppress(RuntimeError):  # the loop has closed: nobody is waiting any more
                self._loop.call_soon_threadsafe(_tell, callbacks)
        self._live.tell(rows for rows, _ in calls)

    def _not_written(self) -> int:
        """Rows that the writer left when it was given up."""
        calls = list(self._writer.in_hand)
        with suppress(Empty):
            while True:
                if call := self._queue.get_nowait():
                    calls.append(call)
        return sum(len(rows) for rows, _ in calls)


def _tell(callbacks: list[Callable[[], None]]) -> None:
    for callback in callbacks:
        try:
            callback()
        except Exception:  # one caller's fault must not keep its neighbours waiting
            log.exception("committed_callback_failed")


def _last_episode() -> int:
    last: int | None = Episode.objects.aggregate(last=Max("pk"))["last"]
    return last or 0


def _recall(session_id: str, owner: str, task_id: str) -> RecalledCall | None:
    steps = Step.objects.filter(
        episode__session_id=storable_id(session_id, SESSION_ID_LENGTH),
        episode__key_label=storable(owner, KEY_LABEL_LENGTH),
        task_id=storable_id(task_id, TASK_ID_LENGTH),
    )
    step = steps.select_related("output_blob").order_by("-episode_id").first()
    if step is None:
        return None
    status = cast(StepStatus, step.status)
    return RecalledCall(status, step.output_json or None, step.error, step.reason)
