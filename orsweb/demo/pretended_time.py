"""Clock: the time that a script pretends to take, laid over the recorder.

Rows come from live play with the real time; `ClockedRecorder` (joined by settings.ORSWEB_RECORD while the demo plays)
moves every time in them to the pretended one before they are queued. Time never goes back and never beyond now.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from environments.runtime.records import Row
from episodes.recording.recorder import Recorder

_TIMES = ("created", "ready", "started", "ended", "first_acted", "last_acted")
"""Fields of rows that hold a moment."""


class Clock:
    """Pretended seconds since the epoch, as an offset to the real ones that changes now and then."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._since = [0.0]
        self._offsets = [0.0]

    @property
    def moment(self) -> float:
        return self.told(self._now())

    def told(self, real: float) -> float:
        """The pretended moment of a real one."""
        return real + self._offsets[bisect_right(self._since, real) - 1]

    def start(self, moment: float) -> None:
        """Pretend that it is `moment`, which must not lie beyond now."""
        now = self._now()
        self._since.append(now)
        self._offsets.append(min(0.0, moment - now))

    def pass_time(self, seconds: float) -> None:
        """Pretend that so much time has passed."""
        self.start(self.moment + seconds)


CLOCK = Clock()
"""Clock of the one demo that this process plays; the recorder is made by its dotted path and can be handed nothing."""


class ClockedRecorder(Recorder):
    """The recorder, with `CLOCK`'s times."""

    def record(self, *rows: Row, committed: Callable[[], None] | None = None) -> None:
        super().record(*map(_retold, rows), committed=committed)


def _retold(row: Row) -> Row:
    times: dict[str, Any] = {
        name: CLOCK.told(real) for name in _TIMES if (real := getattr(row, name, None)) is not None
    }
    return replace(row, **times)
