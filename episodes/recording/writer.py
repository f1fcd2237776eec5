"""The writer: the one thread that commits what live play reported, all waiting rows together.

It never delays a batch: while one commits, rows for the next one gather, so batches grow with the
load. Only one of several servers rests in between (`Membership.rest_seconds`). A batch that the
database refuses is halved until the bad call is alone; while the database is away the batch waits
and nothing is lost. A batch may be committed and its acknowledgement lost, so writing it again
changes nothing.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from queue import SimpleQueue
from typing import NamedTuple, NoReturn

import structlog
from django.db import (
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    ProgrammingError,
    connection,
    transaction,
)

from environments.cluster.membership import ENDINGS, LOCKS
from environments.database.bulk_writer import BulkWriter, connect, execute_prepared
from environments.runtime.records import EpisodeEnded, Row, SnapshotTaken, StepTaken
from episodes.recording.batch import RecordBatch
from episodes.recording.recorder_load import CommitCounts
from episodes.recording.referenced_rows import KnownRows
from episodes.rollups.progress import LAST_END
from episodes.runs.change_counter import SHARED
from episodes.uploads.batch import KnownRollouts
from episodes.uploads.events import MAX_CHUNK_CHARACTERS, UploadChunk

Rest = Callable[[int, float], float]


class QueuedRows(NamedTuple):
    """Rows that the recorder got together, and that stay together."""

    rows: Sequence[Row | UploadChunk]
    on_commit: Callable[[], None] | None
    """Called once they are durable, or rejected."""
    since: float
    """When it got them, as `time.monotonic` says."""


MAX_CALLS = 2000
"""Calls in one transaction: about 100 ms of SQLite's write lock."""
MAX_CHARACTERS = 32 * 1024 * 1024
"""Characters of inputs and outputs in one transaction, exceeded by one call at most: PostgreSQL
takes no parameter over 1 GB."""
MAX_UPLOAD_CHARACTERS = MAX_CHUNK_CHARACTERS
"""Characters of uploads in one transaction, exceeded by one upload at most: agents who play wait
for the commit."""
FIRST_WAIT_SECONDS = 0.05
MAX_WAIT_SECONDS = 1.0

log = structlog.get_logger(__name__)


def is_away(error: Exception) -> bool:
    """Return whether the database failed (gone, locked, full, not migrated), so that the rows can
    be written later."""
    if isinstance(error, DataError | IntegrityError) or not isinstance(
        error, DatabaseError | InterfaceError
    ):
        return False
    if state := getattr(error.__cause__, "sqlstate", None):
        return not state.startswith(("22", "23", "54"))  # data, integrity, a limit of the program
    return not isinstance(error, ProgrammingError)  # a type that the driver cannot bind


class Entered(NamedTuple):
    """What the beginning of a transaction says about other servers."""

    last_end: int | None
    """Last number of an ending, if there are endings to record."""
    run_changes: int
    """Differs from an earlier number if a description of a run was committed in between."""


class Fence:
    """What the writer of one of several servers does at the beginning of each transaction, in one
    round trip."""

    _IS_ALIVE = (
        f"SELECT ended IS NULL, ({SHARED}) FROM environments_clusterserver WHERE id = %s FOR SHARE"  # nosec B608 # only our own words
    )
    """A server that declares this one dead waits for its transaction, and the next transaction sees
    it."""
    _LOCK = "SELECT pg_advisory_xact_lock(%s, %s)"
    """Endings get their numbers in the order of their commits, which those who follow them rely
    on."""

    def __init__(self, server: int, stop: Callable[[], NoReturn]) -> None:
        """`stop`: called when the server was declared dead, so that it does nothing more."""
        self._server, self._stop = server, stop

    def enter(self, *, has_endings: bool) -> Entered:
        """Go on only if this server may record."""
        raw, last = connection.connection, None
        with connection.wrap_database_errors, raw.pipeline():
            alive = execute_prepared(raw, self._IS_ALIVE, [self._server])
            if has_endings:
                execute_prepared(raw, self._LOCK, [LOCKS, ENDINGS])
                last = execute_prepared(raw, LAST_END)
            if (row := alive.fetchone()) is None or not row[0]:
                self._stop()
            return Entered(None if last is None else last.fetchall()[0][0], row[1])


def _characters(item: QueuedRows | None) -> int:
    """Return the size of inputs, outputs and snapshots."""
    size = 0
    for row in item.rows if item else ():
        if isinstance(row, StepTaken):
            size += len(row.input_json) + len(row.output_json or "")
        elif isinstance(row, SnapshotTaken):
            size += 2 * len(row.state)  # written as hexadecimal digits
    return size


def _upload_characters(item: QueuedRows | None) -> int:
    """Return the size of an upload; 0 for other rows."""
    row = item.rows[0] if item and item.rows else None
    return row.characters if isinstance(row, UploadChunk) else 0


class RecordWriter(threading.Thread):
    """The writer's thread: ends when it takes None from the queue, or is `given_up` while the
    database is away."""

    def __init__(
        self, queue: SimpleQueue[QueuedRows | None], settle: Callable[[Sequence[QueuedRows]], None]
    ) -> None:
        """Prepare a writer that calls `settle` after each batch with its calls, in order."""
        super().__init__(name="recorder", daemon=True)
        self.fence: Fence | None = None
        """What guards each transaction of one of several servers."""
        self.rest: Rest = lambda _calls, _spent: 0.0
        """How long the thread rests after a transaction of so many calls that took so many
        seconds."""
        self.given_up = threading.Event()
        self.in_hand: Sequence[QueuedRows] = ()
        """The calls that are being written."""
        self.postponed = deque[QueuedRows]()
        """Uploads that did not fit into the last transaction."""
        self.rejected = 0
        """Number of rows that the database refused because of their content."""
        self.commits = CommitCounts()
        self._queue, self._settle = queue, settle
        self._known = KnownRows()
        self._known_rollouts = KnownRollouts()
        self._writing = threading.Lock()

    def run(self) -> None:
        """Write all that waits in one transaction (`_commit`; `_write` deals with what the database
        refuses), tell those who wait for it, and again."""
        is_open = True
        while is_open and not self.given_up.is_set():
            calls = self._gather()
            is_open = None not in calls
            if not is_open and self.postponed:  # write the uploads that are left, then end
                self._queue.put(None)
                is_open = True
            self.in_hand = [call for call in calls if call is not None]
            began = time.monotonic()
            self._write(self.in_hand)
            spent = time.monotonic() - began
            if self.in_hand:
                self.commits.count(len(self.in_hand), began, self.in_hand[0].since)
            if not self.given_up.is_set():
                self._settle(self.in_hand)
                rest = self.rest(len(self.in_hand), spent)
                self.in_hand = ()
                if rest:
                    self.given_up.wait(rest)
        with contextlib.suppress(DatabaseError, InterfaceError):
            connection.close()

    def oldest_seconds(self) -> float:
        """Return for how long the oldest call has waited that is being written; 0 if none is. For
        any thread."""
        calls = self.in_hand
        return time.monotonic() - calls[0].since if calls else 0.0

    @contextlib.contextmanager
    def forgetting(self, digests: Collection[str]) -> Iterator[None]:
        """Forget that the database has these blobs, and write nothing until the block ends. For
        another thread."""
        with self._writing:
            self._known.blobs.difference_update(digests)
            yield

    def _gather(self) -> list[QueuedRows | None]:
        """Take all waiting calls, at least one, within the limits of a transaction. Uploads may
        have to wait."""
        calls: list[QueuedRows | None] = [
            self.postponed.popleft() if self.postponed else self._queue.get()
        ]
        size, upload_size = 0, _upload_characters(calls[0])
        while (
            self.postponed
            and upload_size + _upload_characters(self.postponed[0]) <= MAX_UPLOAD_CHARACTERS
        ):
            calls.append(self.postponed.popleft())
            upload_size += _upload_characters(calls[-1])
        for _ in range(min(self._queue.qsize(), MAX_CALLS)):
            size += _characters(calls[-1])
            if size > MAX_CHARACTERS:
                break
            calls.append(self._queue.get_nowait())
            if characters := _upload_characters(calls[-1]):
                upload_size += characters
                if self.postponed or upload_size > max(MAX_UPLOAD_CHARACTERS, characters):
                    self.postponed.append(calls.pop())  # type: ignore[arg-type]  # an upload is not None
        return calls

    def _write(self, calls: Sequence[QueuedRows]) -> None:
        """Write until every row is committed or rejected."""
        try:
            self._commit(calls)
        except Exception as error:  # whatever a row causes affects that row only
            if is_away(error):
                self._wait_for_database(calls, error)
            elif len(calls) > 1:
                self._write(calls[: len(calls) // 2])
                self._write(calls[len(calls) // 2 :])
            elif calls:
                self._write_alone(calls[0])

    def _commit(self, calls: Sequence[QueuedRows]) -> None:
        """Write `calls` in one transaction. Raises: whatever stopped it; then none of them is
        written."""
        if not calls:
            return
        try:
            connect(connection)
            with self._writing:
                # a connection that died meanwhile needs no check before: it fails here and is
                # replaced
                with transaction.atomic():
                    if self.fence is not None:
                        has_endings = any(
                            isinstance(row, EpisodeEnded) for call in calls for row in call.rows
                        )
                        self._known.share(*self.fence.enter(has_endings=has_endings))
                    batch = RecordBatch(self._known, self._known_rollouts, BulkWriter(connection))
                    batch.add(row for call in calls for row in call.rows)
                    batch.write()
                batch.remember()
        except Exception:
            self._known.forget()
            self._known_rollouts.forget()
            raise

    def _write_alone(self, call: QueuedRows) -> None:
        """Try `call` once more, because it may have failed on a remembered id whose row is gone;
        then reject it."""
        try:
            self._commit([call])
        except Exception as error:  # whatever a row causes affects that row only
            if is_away(error):
                self._wait_for_database([call], error)
                return
            rows = call.rows
            self.rejected += len(rows)
            for upload in (row for row in rows if isinstance(row, UploadChunk)):
                upload.is_rejected = True
            episodes = sorted({row.episode for row in rows if not isinstance(row, UploadChunk)})
            kinds = [type(row).__name__ for row in rows]
            # never the message: PostgreSQL's contains what the row holds
            log.error("record_rejected", episodes=episodes, rows=kinds, error=type(error).__name__)

    def _wait_for_database(self, calls: Sequence[QueuedRows], error: Exception) -> None:
        """Try `calls` until they are written or the writer is given up."""
        log.error(
            "record_away",
            error=type(error).__name__,
            reason=str(error).partition("\n")[0],
            calls=len(calls),
        )
        wait = 0.0
        while not self.given_up.wait(wait):
            with contextlib.suppress(DatabaseError, InterfaceError):
                connection.close()
            try:
                self._commit(calls)
            except Exception as again:  # whatever a row causes affects that row only
                if not is_away(again):
                    self._write(calls)
                    break
            else:
                break
            wait = min(max(wait * 2, FIRST_WAIT_SECONDS), MAX_WAIT_SECONDS)
        else:
            return
        log.info("record_back")
