"""Lets other writers of the database have their turn between the batches of long work, which calls `give_way`.

SQLite has one write lock and no queue for it: a writer that finds it taken tries again after 1, 2, 5, 10, 15, 20, 25,
25, 25, 50 ms and so on. Work that takes the lock again at once is always faster; others were seen to wait 14 seconds.
"""

from __future__ import annotations

import threading
import time

from django.db import connection

WORK_SECONDS = 0.1
"""Work between two pauses: shorter batches have one together."""
TURN_SECONDS = 0.03
"""Longer than the pauses of writers that have been trying for up to 128 ms."""


_last = threading.local()
"""`pause`: when this thread last paused."""


def flush_later() -> None:
    """Let the commit of this transaction not wait for the disk; the next one that waits makes it durable, too.

    For batches that the action's own commit, which waits, follows. SQLite is asked for nothing.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL synchronous_commit TO off")


def give_way() -> None:
    """Pause after a batch of long work, so that a waiting writer gets the lock. Does nothing inside a transaction."""
    if connection.vendor != "sqlite" or connection.in_atomic_block:
        return
    if time.monotonic() > getattr(_last, "pause", 0.0) + WORK_SECONDS:
        time.sleep(TURN_SECONDS)
        _last.pause = time.monotonic()
