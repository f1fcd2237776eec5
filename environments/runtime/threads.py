"""The threads that run plain (non-async) code of environments. Slow code of one session cannot
exhaust them: when all are busy, API keys take turns (`environments/fair_turns.py`).

`ThreadPool` grows slowly and retires idle threads; it also lends a `SessionThread` to each instance
that needs one. Both run `ThreadJob`s and deliver their results on the event loop, which does all
bookkeeping, so no lock is needed. A hung thread can be abandoned; it is a daemon, so the process
can still exit.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from collections import deque
from queue import Empty, SimpleQueue
from typing import Any

from environments.fair_turns import RoundRobin
from environments.runtime.session_thread import MainThread, SessionThread
from environments.runtime.thread_job import ThreadJob

START_THREADS = 16
"""Threads up to this number start at once when needed; further ones when work has waited for two
checks."""
MAX_THREADS = 2048
CHECK_SECONDS = 0.01
IDLE_SECONDS = 30.0
WAKE_SLOTS = 4096
"""Lists of sleeping threads among which the kernel looks for the one to wake."""
_PR_FUTEX_HASH, _SET_SLOTS, _GET_SLOTS = 78, 1, 2  # of linux/prctl.h


class ThreadPool:
    """Runs jobs on daemon threads. Used from the event loop only."""

    def __init__(self) -> None:
        spread_sleeping_threads()
        self._work: SimpleQueue[ThreadJob | None] = SimpleQueue()
        self._done: deque[ThreadJob | None] = deque()
        self._is_woken = False
        self._loop = asyncio.get_running_loop()
        self._waiting: RoundRobin[ThreadJob] = RoundRobin()  # jobs for which no thread is idle
        self._busy = 0  # jobs submitted and not delivered, including those that wait
        self._threads = 0
        self._checks = 0
        # by whether they run a loop
        self._free_sessions: dict[bool, list[SessionThread]] = {False: [], True: []}
        self._lent = 0  # threads of sessions
        self.main: MainThread | None = None
        """The main thread, if the next session that needs a thread of its own gets that."""
        self.abandoned = 0
        """Number of threads that were given up while they ran."""
        # cancelled tasks that go on, by the moment of that
        self._overdue: dict[asyncio.Task[Any], float] = {}

    def submit(self, job: ThreadJob, thread: SessionThread | None = None) -> None:
        """Run a job in one of the threads, or in that of its session."""
        self._busy += 1
        if thread is not None:
            self._threads += 1  # so that the need for other threads stays the same
            job.is_leased = True
            thread.put(job)
            return
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
        """Give up `job` and its thread, which ends if the function ever returns."""
        if not (job.ended or job.abandoned):
            job.abandoned = True
            if job.started:
                self.abandoned += 1
                # a thread that ends from now on sees that the job was abandoned, and drops it
                # itself
                job.drop_result()
            else:
                # a thread that starts from now on sees that, and does not call it
                job.drop_function()
            self._waiting.discard(job.key, job)
            self._busy -= 1
            self._threads -= job.started or job.is_leased
            self._hand_on()

    def note_overdue(self, task: asyncio.Task[Any]) -> None:
        """Note that `task`, which runs async code, has been cancelled and goes on."""
        self._overdue[task] = time.monotonic()
        task.add_done_callback(lambda task: self._overdue.pop(task, None))

    def is_held(self, grace_seconds: float) -> bool:
        """Return whether code that was given up still runs; async code has `grace_seconds` to
        end."""
        horizon = time.monotonic() - grace_seconds
        return self.abandoned > 0 or any(since < horizon for since in self._overdue.values())

    def lend(self, *, runs_loop: bool) -> SessionThread:
        """Return a thread for one instance, to be returned with `take_back`."""
        self._lent += 1
        free = self._free_sessions[runs_loop]
        if free:
            return free.pop()
        main, self.main = self.main, None
        return SessionThread(self.report, runs_loop=runs_loop, main=main)

    def take_back(self, thread: SessionThread) -> None:
        """Take a thread back. As many idle ones are kept as are in use: sessions often end and
        start together."""
        self._lent -= 1
        thread.clean()
        free = self._free_sessions[thread.runs_loop]
        free.append(thread)
        while len(free) > max(START_THREADS, self._lent):
            free.pop().put(None)

    def replace(self, thread: SessionThread) -> SessionThread:
        """Return another thread instead of one that hangs, with the jobs that wait behind the hung
        one."""
        other = self.lend(runs_loop=thread.runs_loop)
        self._lent -= 1
        thread.hand_over(other)
        return other

    def close(self) -> None:
        """Stop idle threads; busy ones are daemons and end with the process."""
        for _ in range(self._threads):
            self._work.put(None)
        for free in self._free_sessions.values():
            while free:
                free.pop().put(None)

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
            quarter = max(1, self._threads // 4)
            for _ in range(min(quarter, self._busy - self._threads, MAX_THREADS - self._threads)):
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


def spread_sleeping_threads() -> None:
    """Let the kernel find a thread to wake as fast among thousands as among a few.

    Since Linux 6.16 each process has lists of its own sleeping threads, by default 16 on two cores,
    and every wake-up reads one of them: with 9,000 idle sessions it took seven times as long. Other
    kernels refuse this, and don't need it.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    # to set it again takes 15 ms
    if prctl and prctl(_PR_FUTEX_HASH, _GET_SLOTS, 0, 0, 0) != WAKE_SLOTS:
        prctl(_PR_FUTEX_HASH, _SET_SLOTS, WAKE_SLOTS, 0, 0)
