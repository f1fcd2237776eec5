"""An event loop on a thread of its own for the checks, and a watch from another thread for code
that blocks it.

Async code that blocks delays every session of a server. The stack of the loop's thread shows whose
code blocks; a delay without the author's code on the stack (a busy machine, our own work) is not
reported.
"""

from __future__ import annotations

import asyncio
import faulthandler
import re
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

MIN_NOTICED_SECONDS = 0.1
"""Delays shorter than this are not detected."""
SAMPLE_SECONDS = 0.05
PAUSE_SECONDS = 0.02
STUCK_SECONDS = 10.0
"""Time beyond the limit after which the process ends itself, because code that holds the GIL lets
no thread run."""


_OURS = re.compile("^<|/asyncio/|/environments/runtime/")


class LoopHeld(Exception):
    """The author's code has blocked the loop beyond the time limit and may never return."""


class LoopWatch:
    """`holds` maps a place in the author's code to the longest time in seconds for which it blocked
    the loop."""

    def __init__(self, limit_seconds: float, *, exits_when_stuck: bool = False) -> None:
        self.holds: dict[str, float] = {}
        self._limit_seconds, self._exits_when_stuck = limit_seconds, exits_when_stuck
        self._loop = asyncio.new_event_loop()
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `work()` on a loop in another thread, a daemon that is abandoned when it is blocked.

        Raises: LoopHeld, and the exceptions of `work`.
        """
        self._thread = threading.Thread(
            target=self._serve, args=(work,), name="checks", daemon=True
        )
        self._thread.start()
        try:
            while not self._done.wait(PAUSE_SECONDS):
                self._probe()
        finally:
            if self._exits_when_stuck:
                faulthandler.cancel_dump_traceback_later()
        if self._error is not None:
            raise self._error

    def _serve(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(work())
        except BaseException as error:  # raised again on the thread that waits
            self._error = error
        finally:
            # those that ignore the cancellation are abandoned
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            if tasks:
                self._loop.run_until_complete(asyncio.wait(tasks, timeout=PAUSE_SECONDS))
            self._loop.close()
            self._done.set()

    def _probe(self) -> None:
        if self._exits_when_stuck and sys.__stderr__:
            faulthandler.dump_traceback_later(
                self._limit_seconds + STUCK_SECONDS, exit=True, file=sys.__stderr__
            )
        has_turn, began = threading.Event(), time.monotonic()
        try:
            self._loop.call_soon_threadsafe(has_turn.set)
        except RuntimeError:  # the loop was closed in the meantime
            return
        if has_turn.wait(MIN_NOTICED_SECONDS):
            return
        places = [self._place()]
        while not (has_turn.wait(SAMPLE_SECONDS) or self._done.is_set()):
            places.append(self._place())
            if places[-1] and time.monotonic() - began > self._limit_seconds:
                raise LoopHeld(places[-1])
        # only a place that two samples in a row found: a single one may be a coincidence
        if busiest := next(
            (place for place, after in pairwise(places) if place and place == after), ""
        ):
            self.holds[busiest] = max(self.holds.get(busiest, 0.0), time.monotonic() - began)

    def _place(self) -> str:
        """Return the author's function that the loop's thread is executing, or an empty text."""
        frame = sys._current_frames().get(self._thread.ident or 0) if self._thread else None
        theirs = None
        while frame is not None and not frame.f_code.co_filename.endswith(
            "/environments/runtime/usercode.py"
        ):
            theirs, frame = frame, frame.f_back
        if frame is None or theirs is None or _OURS.search(theirs.f_code.co_filename):
            return ""
        code = theirs.f_code
        return (
            f"{code.co_qualname} ({code.co_filename.rpartition('/')[2]}, line "
            f"{code.co_firstlineno})"
        )
