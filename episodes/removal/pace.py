"""How much a removal does at once, and how long it rests in between, so that agents are hardly
delayed.

SQLite has one write lock. An agent's call waits for it as long as a batch takes, and a writer that
has waited for a while only looks for the lock every 100 ms: shorter pauses between long batches
kept agents waiting for 6 s.
"""

from __future__ import annotations

MAX_EPISODES = 100
"""Episodes removed in one transaction, unless they have very many steps."""
MIN_EPISODES = 20
"""Most of what so small a batch costs is the same for a single episode: the figures that it belongs
to are read."""
_TARGET_SECONDS = 0.2
"""Time that a transaction should take."""
_MIN_PAUSE_SECONDS = 0.12
"""Longer than the longest pause of a waiting writer of SQLite."""


class RemovalPace:
    """`episodes` is the size of the next batch, `pause_seconds` the pause before it."""

    def __init__(self, vendor: str) -> None:
        """`vendor`: kind of the database, as Django's connections name it."""
        self._has_one_lock = vendor == "sqlite"
        self.episodes = MIN_EPISODES if self._has_one_lock else MAX_EPISODES
        self.pause_seconds = 0.0

    def note(self, seconds: float) -> None:
        """Note how long a batch held the lock; the time for which it waited for it does not
        count."""
        if self._has_one_lock:
            factor = min(2.0, max(0.5, _TARGET_SECONDS / max(seconds, 0.001)))
            self.episodes = min(MAX_EPISODES, max(MIN_EPISODES, int(self.episodes * factor)))
            self.pause_seconds = max(_MIN_PAUSE_SECONDS, seconds)
