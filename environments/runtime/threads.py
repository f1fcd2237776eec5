"""The threads that run plain (non-async) code of environments. Slow code of one session cannot exhaust them.

When all threads are busy, further work waits in turns by API key (`environments/sandbox/fair_turns.py`).

`ThreadPool` grows slowly and retires idle threads; a `Lease` is one thread reserved for one instance. Both run
`ThreadJob`s and deliver their results on the event loop, which does all bookkeeping, so no lock is needed. A hung
thread can be abandoned; since it is a daemon, it does not keep the process from exiting.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from environments.runtime.crash_notes import CURRENT
from environments.sandbox.fair_turns import KEY, RoundRobin

START_THREADS = 16
"""Threads up to this number start as soon as they are needed; beyond it, only when work has waited for two checks."""
MAX_THREADS = 2048
CHECK_SECONDS = 0.01
IDLE_SECONDS = 30.0


class ThreadJob:
    """A function call. The caller awaits `future` and may cancel it; `ended` is set once the thread has finished.

    The function often belongs to an instance that holds much memory. So a job drops it when it has run, and whatever it
    returned or raised when that is taken or no longer wanted: a job may live longer than the session, and an exception
    refers to the frames that it passed through, which refer to the job.
    """

    __slots__ = (
        "_end",
        "abandoned",
        "args",
        "ended",
        "error",
        "fn",
        "future",
        "is_leased",
        "key",
        "note",
        "started",
        "task",
        "value",
    )

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], loop: asyncio.AbstractEventLoop) -> None:
        self.fn, self.args = fn, args
        self.future: asyncio.Future[None] = loop.create_future()
        self.started = self.ended = False
        self.abandoned = self.is_leased = False
        self.value: Any = None
        self.error: BaseException | None = None
        self._end: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None  # in a Lease
        self.note = CURRENT.get()
        self.key = KEY.get()

    def work(self) -> bool:
        """Run the function in a thread and store its result or exception.

        Return False when the job was abandoned while it ran, so that the thread is no longer needed.
        """
        self.started = True
        if self.abandoned:  # while it waited for a thread
            return True
        if self.note is not None:
            self.note.enter_thread()
        KEY.set(self.key)
        try:
            self.value = self.fn(*self.args)
        except BaseException as error:  # the author's code, SystemExit included
            self.error = error
        self.drop_function()
        return not self.abandoned

    async def work_async(self) -> None:
        """Run the function on the loop of a Lease, await its result if necessary, and store it or the exception."""
        self.started = True
        if not (self.abandoned or self.future.cancelled()):  # while it waited for the thread
            if self.note is not None:
                self.note.enter_thread()
            KEY.set(self.key)
            try:
                self.value = self.fn(*self.args)
                if inspect.isawaitable(self.value):
                    self.value = await self.value
            except BaseException as error:  # the author's code, or our cancellation; both end here
                self.error = error
        self.drop_function()

    def drop_function(self) -> None:
        self.fn, self.args = _nothing, ()
        if self.abandoned:
            self.drop_result()

    def drop_result(self) -> None:
        self.value = self.error = None

    def deliver(self) -> None:
        """Resolve `future`, after which the caller takes `value` or `error`; called on the server's loop."""
        self.ended = True
        if self.future.done():  # the caller was cancelled
            self.drop_result()
        else:
            self.future.set_result(None)
        if self._end is not None:
            self._end.set_result(None)

    def until_ended(self) -> asyncio.Future[None]:
        """Return a future that is done when the job, which has not ended yet, has ended."""
        if self._end is None:
            self._end = self.future.get_loop().create_future()
        return self._end

    def give_up(self) -> None:
        """Let the caller go on without a result; `abandoned` tells it why."""
        if not self.future.done():
            self.future.set_result(None)


def _nothing() -> None:
    pass


class ThreadPool:
    """Runs jobs on daemon threads. Used from the event loop only."""

    def __init__(self) -> None:
        self._work: SimpleQueue[ThreadJob | None] = SimpleQueue()
        self._done: deque[ThreadJob | None] = deque()
        self._is_woken = False
        self._loop = asyncio.get_running_loop()
        self._waiting: RoundRobin[ThreadJob] = RoundRobin()  # jobs for which no thread is idle
        self._busy = 0  # jobs submitted and not delivered, including those that wait
        self._threads = 0
        self._checks = 0
        self._free_leases: list[Lease] = []
        self.abandoned = 0
        """Number of threads that were given up while they ran."""

    def submit(self, job: ThreadJob) -> None:
        self._busy += 1
        self._consider_growing()
        if self._busy > self._threads:
            self._waiting.put(job.key, job)
            self._hand_on()
        else:
            self._work.put(job)

    def _hand_on(self) -> None:
        """Give the jobs whose turn it is to idle threads."""
        while self._waiting and self._busy - len(self._waiting) < self._threads:
            self._work.put(self._waiting.take())

    def abandon(self, job: ThreadJob) -> None:
        """Give up on `job` and its thread; the thread ends by itself if the function ever returns."""
        if not (job.ended or job.abandoned):
            job.abandoned = True
            if job.started:
                self.abandoned += 1
                job.drop_result()  # a thread that ends from now on sees that the job was abandoned, and drops it itself
            else:
                job.drop_function()  # a thread that starts from now on sees that, and does not call it
            self._waiting.discard(job.key, job)
            self._busy -= 1
            self._threads -= job.started or job.is_leased
            self._hand_on()

    def lease(self) -> Lease:
        """Return a thread for one instance, to be returned with `release`."""
        return self._free_leases.pop() if self._free_leases else Lease(self)

    def release(self, lease: Lease) -> None:
        if len(self._free_leases) < START_THREADS:
            lease.clean()
            self._free_leases.append(lease)
        else:
            lease.stop()

    def count_leased(self, job: ThreadJob) -> None:
        """Count a job and its leased thread together, so that they do not change the need for pool threads."""
        self._busy += 1
        self._threads += 1
        job.is_leased = True

    def close(self) -> None:
        """Stop idle threads; busy ones are daemons and end with the process."""
        for _ in range(self._threads):
            self._work.put(None)
        for lease in self._free_leases:
            lease.stop()
        self._free_leases.clear()

    def _consider_growing(self) -> None:
        if self._busy <= self._threads:
            return
        if self._threads < START_THREADS:
            self._start_thread()
        elif not self._checks:
            self._checks = 1
            self._loop.call_later(CHECK_SECONDS, self._check_growth)

    def _start_thread(self) -> None:
        self._threads += 1
        threading.Thread(target=self._serve, name="environment", daemon=True).start()
        self._hand_on()

    def _check_growth(self) -> None:
        """Grow by a quarter if work still waits at the second check.

        Growing at once would start many threads after a stall of the event loop.
        """
        if self._busy <= self._threads or self._threads >= MAX_THREADS:
            self._checks = 0
            return
        if self._checks > 1:
            for _ in range(min(max(1, self._threads // 4), self._busy - self._threads, MAX_THREADS - self._threads)):
                self._start_thread()
        self._checks += 1
        self._loop.call_later(CHECK_SECONDS, self._check_growth)

    def _serve(self) -> None:
        while True:
            try:
                job = self._work.get(timeout=IDLE_SECONDS)
            except Empty:
                if self._threads > START_THREADS:
                    self.report(None)
                    return
                continue
            if job is None:
                return
            if not job.work():
                return
            self.report(job)
            del job  # otherwise an idle thread keeps the last instance alive

    def report(self, job: ThreadJob | None) -> None:
        """Report from a thread that `job` is done, or (None) that the thread retires.

        Several reports wake the loop once.
        """
        self._done.append(job)
        if not self._is_woken:
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:  # the loop is closed, so the result is not needed
                return

    def _deliver(self) -> None:
        self._is_woken = False
        while self._done:
            job = self._done.popleft()
            if job is None:
                self._threads -= 1
                self._consider_growing()  # work may have arrived since the thread decided to retire
            elif not job.abandoned:
                self._busy -= 1
                self._threads -= job.is_leased
                job.deliver()
        if self._waiting:
            self._hand_on()


class Lease:
    """One thread with an event loop of its own, for all code of one instance, plain and async.

    Plain code delays this instance only. It finds what it would find on a server's loop: a running event loop, and the
    thread that created its objects.
    """

    def __init__(self, pool: ThreadPool) -> None:
        self._pool = pool
        self._loop = _new_loop()
        self._waiting: deque[ThreadJob] = deque()
        self._running = 0  # jobs that have started and not ended; used in the thread only
        self._is_retired = False
        threading.Thread(target=self._serve, name="session", daemon=True).start()

    # --- from the server's loop ---------------------------------------------------------------------------------------

    def submit(self, job: ThreadJob) -> None:
        self._pool.count_leased(job)
        self._enqueue(job)

    def cancel(self, job: ThreadJob) -> None:
        """Cancel what `job` awaits; plain code continues to run."""
        self._loop.call_soon_threadsafe(self._cancel, job)

    def clean(self) -> None:
        """Cancel the tasks that an instance left behind, before the next instance gets the thread."""
        self._loop.call_soon_threadsafe(self._cancel_all)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)

    def hand_over(self) -> Lease:
        """Return another thread, which takes over the jobs that wait behind a hung one. This thread ends after its own.

        The jobs that have started here stay here.
        """
        self._is_retired = True
        other = self._pool.lease()
        with suppress(IndexError):
            while True:
                other._enqueue(self._waiting.popleft())
        return other

    def _enqueue(self, job: ThreadJob) -> None:
        self._waiting.append(job)
        self._loop.call_soon_threadsafe(self._start_next)

    # --- in the thread ------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _start_next(self) -> None:
        with suppress(IndexError):  # the job was handed over to another thread
            job = self._waiting.popleft()
            self._running += 1
            job.task = self._loop.create_task(self._work(job))

    async def _work(self, job: ThreadJob) -> None:
        await job.work_async()
        self._running -= 1
        if not job.abandoned:
            self._pool.report(job)
        if self._is_retired and not self._running:
            self._loop.stop()

    def _cancel(self, job: ThreadJob) -> None:
        if job.task is not None and job.started:  # one that has not started sees itself that its caller was cancelled
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
