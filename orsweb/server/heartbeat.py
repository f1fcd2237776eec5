"""A counter and flags in memory that the server's process shares with its supervisor, without a
lock.

The supervisor creates a Heartbeat before it forks. The server's event loop counts, so a count that
stands still shows that something holds the loop or the interpreter.
"""

from __future__ import annotations

import asyncio
import mmap
import struct
from collections.abc import Callable

BEAT_SECONDS = 0.25

_BEATS = struct.Struct("<Q")
_READY, _STOPPING, _REPORT, _MIGRATING = 8, 9, 10, 11
_SIZE = 16
PREPARING = "Preparing the database, on the first start only"
UPGRADING = "Upgrading the database"
WORK = ("Starting", PREPARING, UPGRADING)


class Heartbeat:
    """The counter of one server, and its flags."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SIZE)

    @property
    def beats(self) -> int:
        """The count; 0 before the loop has begun and after it has ended."""
        return int(_BEATS.unpack_from(self._memory)[0])

    @property
    def is_ready(self) -> bool:
        """Whether the server answers."""
        return bool(self._memory[_READY])

    @property
    def is_stopping(self) -> bool:
        """Whether the server ends because of a request to stop."""
        return bool(self._memory[_STOPPING])

    @property
    def work(self) -> str:
        """What a server that is not ready does, one of WORK."""
        return WORK[self._memory[_MIGRATING]]

    @property
    def is_first_start(self) -> bool:
        """Whether the server prepares an empty database, which no client can know yet."""
        return self.work == PREPARING

    def begin_to_migrate(self, *, is_first: bool) -> None:
        """Note that the server migrates the database, which is empty if it `is_first`."""
        self._memory[_MIGRATING] = WORK.index(PREPARING if is_first else UPGRADING)

    def start(self, on_report: Callable[[], None]) -> None:
        """Count on the running event loop from now on, and call `on_report` when the supervisor has
        written a report."""
        self._memory[_READY] = 1
        self._beat(asyncio.get_running_loop(), on_report)

    def stop(self) -> None:
        """Note that the server ends because of a request to stop."""
        self._memory[_STOPPING] = 1

    def end(self) -> None:
        """Note that the event loop has ended; nothing counts while the process exits."""
        _BEATS.pack_into(self._memory, 0, 0)

    def announce_report(self) -> None:
        """Tell the server that there is a report for it."""
        self._memory[_REPORT] = 1

    def _beat(self, loop: asyncio.AbstractEventLoop, on_report: Callable[[], None]) -> None:
        _BEATS.pack_into(self._memory, 0, self.beats + 1)
        if self._memory[_REPORT]:
            self._memory[_REPORT] = 0
            on_report()
        loop.call_later(BEAT_SECONDS, self._beat, loop, on_report)
