"""A clock for the demo, and a recorder that writes its times.

Live play makes rows with the real time. `ClockedRecorder`, which settings.ORSWEB_RECORD names while
the demo plays, replaces every time in them by the pretended one before they are queued. Pretended
time never goes back, and never beyond the real time.
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
"""Fields of rows that hold a time."""


class Clock:
    """The pretended time in seconds since the epoch: the real time plus an offset, which `start`
    changes."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._since = [0.0]
        self._offsets = [0.0]

    @property
    def moment(self) -> float:
        """Return the current pretended time."""
        return self.pretended(self._now())

    def pretended(self, real: float) -> float:
        """Return the pretended time that belongs to a real time."""
        return real + self._offsets[bisect_right(self._since, real) - 1]

    def start(self, moment: float) -> None:
        """Pretend that it is `moment`; a later time than the real one counts as the real one."""
        now = self._now()
        self._since.append(now)
        self._offsets.append(min(0.0, moment - now))

    def pass_time(self, seconds: float) -> None:
        """Pretend that `seconds` have passed."""
        self.start(self.moment + seconds)


CLOCK = Clock()
"""The clock of the demo in this process. It is global because the recorder is constructed without
arguments."""


class ClockedRecorder(Recorder):
    """The recorder, with the times of `CLOCK`."""

    def record(self, *rows: Row, on_commit: Callable[[], None] | None = None) -> None:
        pretended_rows = list[Row]()
        for row in rows:
            times: dict[str, Any] = {
                name: CLOCK.pretended(real)
                for name in _TIMES
                if (real := getattr(row, name, None)) is not None
            }
            pretended_rows.append(replace(row, **times))
        super().record(*pretended_rows, on_commit=on_commit)
