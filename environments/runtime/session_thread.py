"""One thread for all code of one instance, plain and async, as `own_thread` asks for.

Plain code delays this instance only, and sees what it would see on a server's loop: a running event
loop, and the thread that created its objects. If the class has no async code, the thread calls
plain code from a queue and the loop does not exist yet: an idle session costs 30 KB instead of 340
and no descriptors, and a call costs two thread switches and no task. When plain code schedules
something, the thread makes the loop and runs it from then on. It is asyncio's, because the stand-in
looks like one; where async code runs, uvloop takes 20 % less CPU an episode.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from asyncio.events import _get_running_loop, _set_running_loop
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from environments.runtime.thread_job import ThreadJob


class _Wake:
    """In the queue of a thread: its loop is needed, because another thread has scheduled something
    on it."""


_WAKE = _Wake()


MainThread = SimpleQueue[Callable[[], None]]
"""What the main thread of the process is to run, one after the other."""


class SessionThread:
    """Made and lent by a ThreadPool, which gets the jobs that are done."""

    def __init__(
        self,
        report: Callable[[ThreadJob], None],
        *,
        runs_loop: bool,
        main: MainThread | None = None,
    ) -> None:
        """Start the thread, which calls `report` with each job that is done and was not abandoned.

        `main`: use the main thread of the process instead, which waits there.
        """
        self._report, self.runs_loop = report, runs_loop
        self._jobs: SimpleQueue[ThreadJob | _Wake | None] = SimpleQueue()  # None: end
        thread = (
            threading.main_thread()
            if main
            else threading.Thread(target=self._serve, name="session", daemon=True)
        )
        self._loop: asyncio.AbstractEventLoop = (
            _new_loop() if runs_loop else LateLoop(self._jobs.put, thread)
        )
        self._is_looping = runs_loop
        self._running = 0  # jobs whose results are awaited on the loop; used in the thread only
        self._is_retired = False
        main.put(self._serve) if main else thread.start()

    # --- from the server's loop -------------------------------------------------------------------

    def put(self, job: ThreadJob | _Wake | None) -> None:
        """Run `job` after those that were put before; None ends the thread."""
        self._jobs.put(job)
        # else the thread takes it from the queue, at the latest when it starts to loop
        if self._is_looping:
            self._loop.call_soon_threadsafe(self._start_next)

    def cancel(self, job: ThreadJob) -> None:
        """Cancel what `job` awaits; plain code continues to run."""
        # else the thread sees that the caller was cancelled when it starts to loop
        if self._is_looping:
            self._loop.call_soon_threadsafe(self._cancel, job)

    def clean(self) -> None:
        """Cancel the tasks that an instance left behind, before the next instance gets the
        thread."""
        if self._has_loop:
            self._loop.call_soon_threadsafe(self._cancel_all)

    def hand_over(self, other: SessionThread) -> None:
        """Leave the jobs that wait behind a hung one to another thread. This thread ends after its
        own.

        The jobs that have started here stay here.
        """
        self._is_retired = True
        with suppress(Empty):
            while True:
                other.put(self._jobs.get_nowait())

    # --- in the thread ----------------------------------------------------------------------------

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not (self._is_retired or self._has_loop):
            if (job := self._jobs.get()) is None:
                return
            if not isinstance(job, _Wake):
                _set_running_loop(self._loop)
                self._start(job)
                _set_running_loop(None)
            if self._has_loop:
                self._loop.call_soon(self._take_over, job)
            del job  # otherwise an idle thread keeps the last instance alive
        if self._has_loop:
            if not self._is_retired or self._running:
                self._loop.run_forever()
            self._loop.close()

    @property
    def _has_loop(self) -> bool:
        return self.runs_loop or self._loop.is_made  # type: ignore[attr-defined]

    def _take_over(self, job: ThreadJob | _Wake) -> None:
        """Take jobs on the loop from now on. `job` made it necessary, and may have been cancelled
        meanwhile."""
        self._is_looping = True
        if not isinstance(job, _Wake) and job.future.cancelled():
            self._cancel(job)
        for _ in range(self._jobs.qsize()):
            self._start_next()

    def _start_next(self) -> None:
        with suppress(Empty):  # the job was handed over to another thread
            job = self._jobs.get_nowait()
            if job is None:
                self._loop.stop()
            elif not isinstance(job, _Wake):
                self._start(job)

    def _start(self, job: ThreadJob) -> None:
        """Call the job's function, in a context of its own, and report it, or await what it
        returned on the loop."""
        context = contextvars.copy_context()
        context.run(job.work)
        if inspect.isawaitable(job.value):
            self._running += 1
            job.task = self._loop.create_task(self._await(job), context=context)
        elif not job.abandoned:
            self._report(job)
        elif self._is_looping:
            self._end_if_retired()

    async def _await(self, job: ThreadJob) -> None:
        await job.await_value()
        self._running -= 1
        if not job.abandoned:
            self._report(job)
        self._end_if_retired()

    def _end_if_retired(self) -> None:
        if self._is_retired and not self._running:
            self._loop.stop()

    def _cancel(self, job: ThreadJob) -> None:
        if job.task is not None:
            job.task.cancel()

    def _cancel_all(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()


def _new_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop of uvloop if that is installed, as on the server's own thread."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class LateLoop(asyncio.SelectorEventLoop):
    """An event loop that is made, with its selector and its sockets, when it is first used.

    `asyncio.get_running_loop` returns it before that too: code may compare loops, or ask for the
    current task of one.
    """

    is_made = False

    def __init__(self, wake: Callable[[_Wake], None], thread: threading.Thread) -> None:
        """`wake` is called when the loop is made, by any thread; `thread`, that of the loop, has to
        run it then."""
        self._wake, self._thread = wake, thread
        self._making = threading.RLock()
        self._maker: int | None = None  # the thread that makes the loop now

    def __getattr__(self, name: str) -> Any:
        """Make the loop as soon as something is read that its constructor sets; other threads wait
        meanwhile."""
        with self._making:
            if self._maker is not None:  # the constructor asks
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            if not self.is_made:
                self._maker = threading.get_ident()
                try:
                    super().__init__()
                finally:
                    self._maker = None
                self.is_made = True
                self._wake(_WAKE)
            return super().__getattribute__(name)

    def is_running(self) -> bool:
        """Return whether the loop runs, as it seems to do for plain code in its thread, but not for
        its constructor.

        For other threads it runs as long as its thread lives: that runs whatever they schedule on
        it.
        """
        if self._maker == threading.get_ident():
            return False
        if threading.current_thread() is not self._thread:
            return self._thread.is_alive()
        return _get_running_loop() is self or (self.is_made and super().is_running())

    def __del__(self) -> None:
        if self.is_made:
            super().__del__()
