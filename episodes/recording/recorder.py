"""The recorder: the runtime's `Record` of live play, created by `environments/service.py` and used
on the loop.

Rows are queued as they are; `episodes/recording/writer.py` converts and commits them on its own
thread.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast

import structlog
from django.db import DatabaseError, InterfaceError
from django.db.models import Max

from environments.cluster.membership import stop_at_once
from environments.cluster.messages import ServerMessages
from environments.database.storable import storable, storable_id
from environments.database.worker_threads import Workers
from environments.models import Viewer
from environments.models.viewer import visible_environments
from environments.runtime.incident_reports import LeftBehind
from environments.runtime.records import (
    RETURN_SECONDS,
    OpenEpisode,
    RecalledCall,
    RecordedPast,
    Row,
    StepStatus,
)
from episodes.models import Episode, Step
from episodes.recording.batch import KEY_LABEL_LENGTH, SESSION_ID_LENGTH, TASK_ID_LENGTH
from episodes.recording.fatal_environments import explanations, store_reports
from episodes.recording.interrupted_episodes import INTERRUPTED, close_interrupted
from episodes.recording.leader_duties import LeaderDuties
from episodes.recording.live import Live
from episodes.recording.number_blocks import NumberBlocks, next_block
from episodes.recording.recorder_load import RecorderLoad
from episodes.recording.returning_episodes import (
    are_sessions_left,
    open_episodes,
    recorded_past,
    recorded_sessions,
    running_sessions,
)
from episodes.recording.writer import (
    FIRST_WAIT_SECONDS,
    MAX_WAIT_SECONDS,
    Fence,
    QueuedRows,
    RecordWriter,
    Rest,
    is_away,
)
from episodes.removal.batch import last_removed
from episodes.uploads.events import UploadChunk

T = TypeVar("T")

READERS = 2
MAX_LOOKUP_SECONDS = 2.0
"""How long a request for a session that is not live waits to learn why."""

log = structlog.get_logger(__name__)


class Recorder:
    """The record of live play: `start` first, `stop` last, and the methods of `Record` in
    between."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[QueuedRows | None] = SimpleQueue()
        self._writer = RecordWriter(self._queue, self._settle)
        self._live = Live()
        self._duties = LeaderDuties()

    async def start(
        self,
        server: int | None = None,
        leads: Callable[[], bool] | None = None,
        messages: ServerMessages | None = None,
        rest: Rest | None = None,
    ) -> None:
        """Start all threads. Raises: django.db.Error if the database is away or not migrated.

        `server`: the id of this server if it shares the database with others; `leads`: whether it
        leads them now; `messages`: those to and from the others; `rest`: how long to rest between
        transactions.
        """
        self._loop = asyncio.get_running_loop()
        self._readers = Workers(READERS, "recall")
        self._report_reader = Workers(1, "reports")
        if server is None:
            last = await self._readers.run(_last_episode)
            self._numbers: Iterator[int] = itertools.count(last + 1)
        else:
            take_block = partial(self._readers.run, next_block, server)
            self._numbers = NumberBlocks(await take_block(), take_block)
            self._writer.fence = Fence(server, stop_at_once)
        if rest is not None:
            self._writer.rest = rest
        self._live.start(messages)
        self._writer.start()
        delay_seconds = RETURN_SECONDS if await self._readers.run(are_sessions_left) else 0.0
        self._duties.start(self._readers, self._writer.forgetting, leads, delay_seconds)

    async def recover(
        self,
        leftovers: LeftBehind,
        replayable: Collection[str],
        sessions: Collection[str] | None = None,
        *,
        stores_reports: bool = True,
    ) -> tuple[int, list[OpenEpisode]]:
        """End the episodes that an earlier server left open; return their number, and those that go
        on instead.

        `leftovers`: what that server left for its successor; `replayable`: names of the environments
        whose sessions can go on; `sessions`: ids of the sessions that belong to this server now,
        None: all, for the holder of the lock.
        """
        going_on = await self._readers.run(open_episodes, leftovers, replayable, sessions)
        numbers = [episode.number for episode in going_on]
        count = await self._readers.run(
            close_interrupted, time.time(), *explanations(leftovers), numbers, sessions
        )
        if stores_reports:
            await self._readers.run(store_reports, leftovers)
        return count, going_on

    async def running_sessions(self) -> AsyncIterator[list[str]]:
        """Yield the ids of the sessions whose episodes have not ended, on any server, in pages."""
        after = 0
        while page := await self._readers.run(running_sessions, after):
            yield [sid for _, sid in page]
            after = page[-1][0]

    async def recorded_sessions(self, sids: Collection[str]) -> Collection[str]:
        """Return those of the sessions of which an episode is on record."""
        return await self._readers.run(recorded_sessions, sids)

    async def note_incidents(self, leftovers: LeftBehind) -> None:
        """Store reports about this server itself."""
        await self._readers.run(store_reports, leftovers)

    async def stop(self, timeout_seconds: float) -> int:
        """Write what is queued, for at most `timeout_seconds`; return the number of rows that were
        not written."""
        self._duties.cease_upkeep()
        self._queue.put(None)
        await asyncio.to_thread(self._writer.join, timeout_seconds)
        self._writer.given_up.set()
        self._live.stop()
        await self._duties.stop()
        self._readers.close()
        self._report_reader.close()
        calls = [*self._writer.in_hand, *self._writer.postponed]
        with suppress(Empty):
            while True:
                if call := self._queue.get_nowait():
                    calls.append(call)
        return sum(len(call.rows) for call in calls)

    @property
    def rejected(self) -> int:
        """Number of rows that the database refused because of their content; each is in the log."""
        return self._writer.rejected

    def load(self, newest_end: int) -> RecorderLoad:
        """Return how much is waiting and what was committed. For any thread. `newest_end`: what the
        database said."""
        parts = self._duties.places()
        newest = max([newest_end, *parts.values()])
        return RecorderLoad(
            queued=self._queue.qsize() + len(self._writer.in_hand) + len(self._writer.postponed),
            oldest_seconds=self._writer.oldest_seconds(),
            rejected=self._writer.rejected,
            commits=self._writer.commits.snapshot(),
            behind={name: newest - place for name, place in parts.items()},
            follower_seconds=self._duties.idle_seconds(),
        )

    # --- Record -----------------------------------------------------------------------------------

    def next_episode(self) -> int:
        """Return the next episode number, counted in memory: of all, or of the blocks that this
        server gets.

        Raises: NumbersAway.
        """
        return next(self._numbers)

    def record(self, *rows: Row, on_commit: Callable[[], None] | None = None) -> None:
        """Queue rows, which `RecordWriter.run` commits together.

        `on_commit` is called afterwards on the loop, also when the rows had to be rejected.
        """
        self._queue.put(QueuedRows(rows, on_commit, time.monotonic()))

    def upload(self, upload: UploadChunk, on_commit: Callable[[], None]) -> None:
        """Queue what a client uploaded. `on_commit` is called on the loop once it is durable or was
        rejected."""
        self._queue.put(QueuedRows((upload,), on_commit, time.monotonic()))

    async def read(self, function: Callable[..., T], *args: Any) -> T:
        """Return `function(*args)`, which reads what is recorded, called on a thread of its own."""
        return await self._report_reader.run(function, *args)

    async def recall(
        self,
        session_id: str,
        owner: str,
        task_id: str,
        hidden_environments: frozenset[int] = frozenset(),
    ) -> RecalledCall | None:
        """Return the call `task_id` of the owner's session, of its newest episode that has one;
        else None.

        Waits while the database is away. `hidden_environments`: ids of the environments that do not
        exist for the owner.
        """
        return await self._ask(_recall, session_id, owner, task_id, hidden_environments)

    async def past(self, episode: int) -> RecordedPast:
        """Return what is recorded of a running episode. Waits while the database is away."""
        return await self._ask(recorded_past, episode)

    async def _ask(self, question: Callable[..., T], *args: Any) -> T:
        """Return `question(*args)`, asked on a reader's thread until the database answers."""
        wait = FIRST_WAIT_SECONDS
        while True:  # ends with the caller, whose client receives comments meanwhile
            try:
                return await self._readers.run(question, *args)
            except (DatabaseError, InterfaceError) as error:
                if not is_away(error):
                    raise
            await asyncio.sleep(wait)
            wait = min(wait * 2, MAX_WAIT_SECONDS)

    async def interruption(self, session_id: str, owner: str) -> str:
        """Return why a server interrupted the latest episode of the owner's session; empty if none
        did, or if the database does not say in time."""
        try:
            async with asyncio.timeout(MAX_LOOKUP_SECONDS):
                return await self._readers.run(_interruption, session_id, owner)
        except (DatabaseError, InterfaceError, TimeoutError):
            return ""

    # --- inside -----------------------------------------------------------------------------------

    def _settle(self, calls: Sequence[QueuedRows]) -> None:
        """Tell the follower, the waiting calls and open pages that the batch is durable. Called on
        the writer's thread; the loop is woken once for all calls."""
        self._duties.wake()
        if callbacks := [call.on_commit for call in calls if call.on_commit]:
            with suppress(RuntimeError):  # the loop has closed, so no call is waiting
                self._loop.call_soon_threadsafe(_call_all, callbacks)
        self._live.tell(call.rows for call in calls)


def _call_all(callbacks: list[Callable[[], None]]) -> None:
    for callback in callbacks:
        try:
            callback()
        except Exception:  # a fault of one caller must not keep the others waiting
            log.exception("committed_callback_failed")


def _last_episode() -> int:
    last: int | None = Episode.objects.aggregate(last=Max("pk"))["last"]
    return max(last or 0, last_removed())


def _interruption(session_id: str, owner: str) -> str:
    episodes = Episode.objects.filter(
        session_id=storable_id(session_id, SESSION_ID_LENGTH),
        key_label=storable(owner, KEY_LABEL_LENGTH),
    )
    latest = episodes.order_by("-pk").only("cause", "detail").first()
    if latest is None or latest.cause != "interrupted":
        return ""
    return latest.detail or INTERRUPTED


def _recall(
    session_id: str, owner: str, task_id: str, hidden_environments: frozenset[int]
) -> RecalledCall | None:
    steps = Step.objects.filter(
        visible_environments(Viewer(hidden_environments), "episode__environment"),
        episode__session_id=storable_id(session_id, SESSION_ID_LENGTH),
        episode__key_label=storable(owner, KEY_LABEL_LENGTH),
        task_id=storable_id(task_id, TASK_ID_LENGTH),
    )
    step = steps.select_related("output_blob").order_by("-episode_id").first()
    if step is None:
        return None
    status = cast(StepStatus, step.status)
    return RecalledCall(status, step.output_json or None, step.error, step.reason)
