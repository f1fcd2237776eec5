"""The time of day for one session: it goes on steadily when the system's clock is set."""

from __future__ import annotations

import time


class SteadyClock:
    """Tells the time since the epoch; from its creation on, by the monotonic clock.

    So durations between its times are true, even if the system's clock is set in between. A clock
    that is created later follows the system's clock as it is then.
    """

    __slots__ = ("_offset",)

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return self._offset + time.monotonic()
