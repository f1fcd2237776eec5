"""The time of day, as one session tells it: it goes on steadily when the system's clock is set."""

from __future__ import annotations

import time


class SteadyClock:
    """Tells the time since the epoch from the moment at which it was made, by the monotonic clock.

    So durations between its times are true, although the system's clock may be set in between. A
    clock that is made later follows the system's clock as it is then.
    """

    __slots__ = ("_offset",)

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return self._offset + time.monotonic()
