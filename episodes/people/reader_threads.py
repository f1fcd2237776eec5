"""The threads on which the player's socket reads the record and renders HTML. They end with the
process."""

from __future__ import annotations

from functools import cache

from environments.database.worker_threads import Workers

READERS = 2


@cache
def readers() -> Workers:
    return Workers(READERS, "play")
