"""Makes Python's threads take shorter turns at the interpreter while the event loop waits for it.

A thread that computes lets others have the interpreter after sys.getswitchinterval(), 5 ms by
default. The event loop needs it again after every look for events, so while a few tools compute,
every answer to an agent waits for several such turns. Short turns for ever would cost up to a tenth
of a busy server's time, because its own threads would interrupt each other, so turns are short only
while the loop has to wait, or while others know that it would.

`python -m benchmarks compute`, p50 of the calls of 29 agents while 3 others compute in the server's
process: 125 ms with turns of 5 ms, 78 ms with 1 ms, 46 ms with 0.2 ms.
"""

from __future__ import annotations

import asyncio
import sys
import time

LOOK_SECONDS = 0.05
"""Time between two looks at how long the loop waits."""
LATE_SECONDS = 0.004
"""A look that is later than this has waited for the interpreter, or for the loop's own work."""
BUSY_SHARE = 0.5
"""The loop's own work takes more of the time between two looks than this; else it has waited for
others."""
SHORT_SECONDS = 0.0002
"""Length of a short turn."""
CALM_LOOKS = 40
"""Looks in time, in a row, after which turns are long again."""


class InterpreterTurns:
    """The length of the turns of this process's threads."""

    def __init__(self) -> None:
        self._calm_looks = CALM_LOOKS

    async def keep(self) -> None:
        """Adapt the length of turns to how long this event loop waits; restore it when cancelled."""
        try:
            while True:
                start, cpu_start = time.monotonic(), time.thread_time()
                await asyncio.sleep(LOOK_SECONDS)
                self.note(time.monotonic() - start, time.thread_time() - cpu_start)
        finally:
            if self._calm_looks < CALM_LOOKS:
                lengthen_turns()

    def note(self, passed_seconds: float, worked_seconds: float) -> None:
        """Count a look: the time since the last one, and how long the loop's thread worked in it.

        A loop that is late because of its own work gains nothing from shorter turns of the threads.
        """
        is_late = passed_seconds - LOOK_SECONDS > LATE_SECONDS
        if is_late and worked_seconds < BUSY_SHARE * passed_seconds:
            if self._calm_looks >= CALM_LOOKS:
                shorten_turns()
            self._calm_looks = 0
        elif self._calm_looks < CALM_LOOKS:
            self._calm_looks += 1
            if self._calm_looks == CALM_LOOKS:
                lengthen_turns()


_reasons = 0
"""For how many loops that wait, and how much work on threads beside them, turns are short."""
_usual_seconds = 0.0


def shorten_turns() -> None:
    """Make turns short until `lengthen_turns` has been called as often. Called from the loop."""
    global _reasons, _usual_seconds
    _reasons += 1
    if _reasons == 1:
        _usual_seconds = sys.getswitchinterval()
        sys.setswitchinterval(SHORT_SECONDS)


def lengthen_turns() -> None:
    global _reasons
    _reasons -= 1
    if _reasons == 0:
        sys.setswitchinterval(_usual_seconds)
