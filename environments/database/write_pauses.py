"""Pauses between the batches of long work, which calls `give_way`, so that other writers get in.

SQLite has one write lock and no queue for it: a writer that finds it taken tries again after 1, 2,
5, 10, 15, 20, 25, 25, 25, 50 ms and so on. Work that takes the lock again at once is always faster;
others were seen to wait 14 seconds.

A server that starts has the database to itself. Nobody waits for its batches then, so they are
large and without pauses: a row in an index at random costs a third when 20,000 rows are written
together and the index is in memory.
"""

from __future__ import annotations

import threading
import time

from django.db import connection

WORK_SECONDS = 0.1
"""Work between two pauses: shorter batches have one together."""
TURN_SECONDS = 0.03
"""Longer than the pauses of writers that have been trying for up to 128 ms."""
ROWS_ALONE = 20_000
"""Rows of one transaction of a thread that has the database alone."""
CACHE_ALONE_KIB = 128 * 1024
"""SQLite's cache of pages for such a thread; 2,000 by default."""

_thread = threading.local()
"""`pause`: when this thread last paused; `is_alone`: whether it has the database alone."""


def write_alone() -> None:
    """Let this thread write without regard to others from now on, because it has the database
    alone."""
    _thread.is_alone = True
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA cache_size = -{CACHE_ALONE_KIB}")


def rows_at_once(usual: int) -> int:
    """Return how many rows this thread may write in one transaction: `usual`, or more if it has the
    database alone."""
    return ROWS_ALONE if getattr(_thread, "is_alone", False) else usual


def flush_later() -> None:
    """Let the commit of this transaction not wait for the disk; the next one that waits makes it
    durable, too.

    For batches that the action's own commit, which waits, follows. SQLite is asked for nothing.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL synchronous_commit TO off")


def give_way() -> None:
    """Pause after a batch of long work, so that a waiting writer gets the lock. Does nothing inside
    a transaction."""
    if (
        connection.vendor != "sqlite"
        or connection.in_atomic_block
        or getattr(_thread, "is_alone", False)
    ):
        return
    if time.monotonic() > getattr(_thread, "pause", 0.0) + WORK_SECONDS:
        time.sleep(TURN_SECONDS)
        _thread.pause = time.monotonic()
