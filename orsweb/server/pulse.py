"""Memory that the server's process and its supervisor share, and that no lock guards.

The supervisor creates a Pulse before it forks. The server writes to it from its event loop, so a
pulse that stands still shows that the loop, or the interpreter, is held.
"""

from __future__ import annotations

import asyncio
import mmap
import struct
from collections.abc import Callable

BEAT_SECONDS = 0.25

_BEATS = struct.Struct("<Q")
_READY, _STOPPING, _MAIL, _MIGRATING = 8, 9, 10, 11
_SIZE = 16
PREPARING = "Preparing the database, on the first start only"
UPGRADING = "Upgrading the database"
WORK = ("Starting", PREPARING, UPGRADING)


class Pulse:
    """A counter that rises while the event loop turns, and some flags."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SIZE)

    @property
    def beats(self) -> int:
        """How often the loop has beaten; 0 before it has begun and after it has ended."""
        return int(_BEATS.unpack_from(self._memory)[0])

    @property
    def is_ready(self) -> bool:
        """Whether the server has started and answers."""
        return bool(self._memory[_READY])

    @property
    def is_stopping(self) -> bool:
        """Whether the server ends because of a request to stop."""
        return bool(self._memory[_STOPPING])

    @property
    def work(self) -> str:
        """What the server does before it is ready, one of WORK."""
        return WORK[self._memory[_MIGRATING]]

    @property
    def is_first_start(self) -> bool:
        """Whether the server prepares an empty database, so that no client knows it yet."""
        return self.work == PREPARING

    def begin_to_migrate(self, *, is_first: bool) -> None:
        """Note that the server migrates the database, which is empty if it `is_first`."""
        self._memory[_MIGRATING] = WORK.index(PREPARING if is_first else UPGRADING)

    def start(self, on_mail: Callable[[], None]) -> None:
        """Beat on the running event loop from now on, and call `on_mail` after the supervisor has
        left a report."""
        self._memory[_READY] = 1
        self._beat(asyncio.get_running_loop(), on_mail)

    def stop(self) -> None:
        """Note that the server ends because of a request to stop."""
        self._memory[_STOPPING] = 1

    def end(self) -> None:
        """Note that the event loop has ended: nothing beats while the process leaves its threads
        and modules."""
        _BEATS.pack_into(self._memory, 0, 0)

    def leave_mail(self) -> None:
        """Tell the server that there is a report for it."""
        self._memory[_MAIL] = 1

    def _beat(self, loop: asyncio.AbstractEventLoop, on_mail: Callable[[], None]) -> None:
        _BEATS.pack_into(self._memory, 0, self.beats + 1)
        if self._memory[_MAIL]:
            self._memory[_MAIL] = 0
            on_mail()
        loop.call_later(BEAT_SECONDS, self._beat, loop, on_mail)
