"""Lets other writers of the database have their turn between the batches of long work, which calls `give_way`.

SQLite has one write lock and no queue for it: a writer that finds it taken tries again after 1, 2, 5, 10, 15, 20, 25,
25, 25, 50 ms and so on. Work that takes the lock again at once is always faster; others were seen to wait 14 seconds.
"""

from __future__ import annotations

import time

from django.db import connection

TURN_SECONDS = 0.03
"""Longer than the pauses of writers that have been trying for up to 128 ms."""


def give_way() -> None:
    """Pause after a batch of long work, so that a waiting writer gets the lock. Does nothing inside a transaction."""
    if connection.vendor == "sqlite" and not connection.in_atomic_block:
        time.sleep(TURN_SECONDS)
