"""Turns: lets other writers of the database have theirs between the batches of long work. Called by who does it.

SQLite has one write lock and no queue for it: who finds it taken tries again after 1, 2, 5, 10, 15, 20, 25, 25, 25, 50
ms and so on. Work that takes it again at once is always faster; others were seen to wait for 14 seconds.
"""

from __future__ import annotations

import time

from django.db import connection

TURN_SECONDS = 0.03
"""Longer than the steps of those who have been trying for up to 128 ms."""


def give_way() -> None:
    """After a batch of long work: a moment in which whoever waits gets the lock. Nothing inside a transaction."""
    if connection.vendor == "sqlite" and not connection.in_atomic_block:
        time.sleep(TURN_SECONDS)
