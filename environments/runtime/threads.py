"""Where plain (non-async) code of environments runs: daemon threads that slow code of other sessions cannot exhaust.

`ThreadPool` grows slowly and retires idle threads; `Lease` keeps one thread for one session. Both run `ThreadJob`s and give
their results back on the event loop, which owns all bookkeeping, so there is no lock. A hung thread can be abandoned;
being a daemon it cannot hold up the exit.
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

START_THREADS = 16
"""Started on demand at once; beyond them the pool grows only when work has waited for two looks."""
MAX_THREADS = 2048
LOOK_SECONDS = 0.01
IDLE_SECONDS = 30.0


class ThreadJob:
    """One call. `future` is what the caller awaits and may cancel; `ended`: the thread is through with it."""

    __slots__ = (
        "abandoned",
        "args",
        "ended",
        "error",
        "fn",
        "future",
        "is_leased",
        "on_end",
        "started",
        "task",
        "value",
    )

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], loop: asyncio.AbstractEventLoop) -> None:
        self.fn, self.args = fn, args
        self.future: asyncio.Future[Any] = loop.create_future()
        self.started = self.ended = False
        self.abandoned = self.is_leased = False
        self.value: Any = None
        self.error: BaseException | None = None
        self.on_end: Callable[[ThreadJob], None] | None = None
        self.task: asyncio.Task[None] | None = None  # in a Lease

    def work(self) -> bool:
        """Run in a thread; whatever the author's code raises is kept. Whether the thread is still counted on."""
        self.started = True
        if self.abandoned:  # while it waited for the thread
            return True
        try:
            self.value = self.fn(*self.args)
        except BaseException as error:  # the author's code, SystemExit included
            self.error = error
        return not self.abandoned

    async def work_async(self) -> None:
        """Run on a session's own loop, awaiting what comes back; whatever the author's code raises is kept."""
        self.started = True
        if self.abandoned or self.future.cancelled():  # while it waited for the thread
            return
        try:
            self.value = self.fn(*self.args)
            if inspect.isawaitable(self.value):
                self.value = await self.value
        except BaseException as error:  # the author's code, or our cancellation; both end here
            self.error = error

    def deliver(self) -> None:
        """Hand the result over; on the loop."""
        self.ended = True
        if not self.future.done():
            # a Future refuses StopIteration, so errors travel as values and `UserCode` raises them
            self.future.set_result(self)
        if self.on_end:
            self.on_end(self)


class ThreadPool:
    """Runs jobs on daemon threads. Used from the event loop only."""

    def __init__(self) -> None:
        self._work: SimpleQueue[ThreadJob | None] = SimpleQueue()
        self._done: deque[ThreadJob | None] = deque()
        self._is_woken = False
        self._loop = asyncio.get_running_loop()
        self._busy = 0  # jobs submitted and not delivered
        self._threads = 0
        self._looks = 0
        self._free_leases: list[Lease] = []

    def submit(self, job: ThreadJob) -> None:
        self._busy += 1
        self._consider_growing()
        self._work.put(job)

    def abandon(self, job: ThreadJob) -> None:
        """Stop counting on the thread that runs `job`; it ends by itself should it ever return."""
        if not (job.ended or job.abandoned):
            job.abandoned = True
            self._busy -= 1
            self._threads -= job.started or job.is_leased

    def lease(self) -> Lease:
        """A thread for one session, to be given back with `release`."""
        return self._free_leases.pop() if self._free_leases else Lease(self)

    def release(self, lease: Lease) -> None:
        if len(self._free_leases) < START_THREADS:
            lease.clean()
            self._free_leases.append(lease)
        else:
            lease.stop()

    def count_leased(self, job: ThreadJob) -> None:
        """A leased thread serves `job`: one more job, one more thread, so the balance stays."""
        self._busy += 1
        self._threads += 1
        job.is_leased, job.on_end = True, self._uncount_leased

    def _uncount_leased(self, _: ThreadJob) -> None:
        self._threads -= 1

    def close(self) -> None:
        """Let idle threads go; busy ones are daemons."""
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
        elif not self._looks:
            self._looks = 1
            self._loop.call_later(LOOK_SECONDS, self._look)

    def _start_thread(self) -> None:
        self._threads += 1
        threading.Thread(target=self._serve, name="environment", daemon=True).start()

    def _look(self) -> None:
        """Grow by a quarter when work still waits at the second look; growing at once makes a storm after a stall."""
        if self._busy <= self._threads or self._threads >= MAX_THREADS:
            self._looks = 0
            return
        if self._looks > 1:
            for _ in range(min(max(1, self._threads // 4), self._busy - self._threads, MAX_THREADS - self._threads)):
                self._start_thread()
        self._looks += 1
        self._loop.call_later(LOOK_SECONDS, self._look)

    def _serve(self) -> None:
        while True:
            try:
                job = self._work.get(timeout=IDLE_SECONDS)
            except Empty:
                if self._threads > START_THREADS:
                    self.tell(None)
                    return
                continue
            if job is None:
                return
            if not job.work():
                return
            self.tell(job)
            del job  # or an idle thread would keep the last environment alive

    def tell(self, job: ThreadJob | None) -> None:
        """From a thread: `job` is done, or (None) the thread retires. Wakes the loop once for all that are waiting."""
        self._done.append(job)
        if not self._is_woken:
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:  # the loop has closed; nobody is waiting any more
                return

    def _deliver(self) -> None:
        self._is_woken = False
        while self._done:
            job = self._done.popleft()
            if job is None:
                self._threads -= 1
                self._consider_growing()  # work may have arrived for the thread that just retired
            elif not job.abandoned:
                self._busy -= 1
                job.deliver()


class Lease:
    """One thread with an event loop of its own, for all code of one session, plain and async.

    Plain code holds up this session alone, and finds what code on a server's loop finds: a running loop, and the thread
    that made its objects.
    """

    def __init__(self, pool: ThreadPool) -> None:
        self._pool = pool
        self._loop = _new_loop()
        self._waiting: deque[ThreadJob] = deque()
        self._running = 0  # jobs begun and not ended; touched in the thread only
        self._is_retired = False
        threading.Thread(target=self._serve, name="session", daemon=True).start()

    # --- from the server's loop ---------------------------------------------------------------------------------------

    def submit(self, job: ThreadJob) -> None:
        self._pool.count_leased(job)
        self._take(job)

    def cancel(self, job: ThreadJob) -> None:
        """Cancel what `job` awaits; plain code runs on."""
        self._loop.call_soon_threadsafe(self._cancel, job)

    def clean(self) -> None:
        """Cancel the tasks that a session left behind, before the next one gets the thread."""
        self._loop.call_soon_threadsafe(self._cancel_all)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)

    def hand_over(self) -> Lease:
        """Another thread, for what waits behind a job that hangs in this one; this one ends with its last job."""
        self._is_retired = True
        other = self._pool.lease()
        with suppress(IndexError):
            while True:
                other._take(self._waiting.popleft())
        return other

    def _take(self, job: ThreadJob) -> None:
        self._waiting.append(job)
        self._loop.call_soon_threadsafe(self._begin)

    # --- in the thread ------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _begin(self) -> None:
        with suppress(IndexError):  # handed over meanwhile
            job = self._waiting.popleft()
            self._running += 1
            job.task = self._loop.create_task(self._work(job))

    async def _work(self, job: ThreadJob) -> None:
        await job.work_async()
        self._running -= 1
        if not job.abandoned:
            self._pool.tell(job)
        if self._is_retired and not self._running:
            self._loop.stop()

    def _cancel(self, job: ThreadJob) -> None:
        if job.task is not None:
            job.task.cancel()

    def _cancel_all(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed, as on the server's own thread."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
