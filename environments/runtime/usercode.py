"""The only place where an author's code is called and its exceptions are classified.

Async functions are awaited on the server's loop, plain functions run on threads. An instance of a
class that needs one thread for all its code has a thread with a loop of its own. Every exception of
an author's code, including SystemExit and a CancelledError that it lets escape, becomes an
EnvironmentFault that holds text only.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from environments.authoring.direct_calls import THREADS, Threads
from environments.authoring.hosted_class import HostedClass
from environments.errors import EnvironmentFault, SessionDeleted
from environments.runtime.author_errors import fault_of
from environments.runtime.session_thread import SessionThread
from environments.runtime.thread_job import ThreadJob
from environments.runtime.threads import ThreadPool

Passing = tuple[type[Exception], ...]
MAX_CANCEL_SECONDS = 0.1
"""Time for async code in a thread of its own to end after its cancellation."""


class OverTime(TimeoutError):
    """Author's code ran longer than it may; the code itself did not raise this."""


class UserCode:
    """Calls the code of one instance or class, and tracks which plain calls run in a thread."""

    __slots__ = ("_jobs", "_own_loop", "_own_thread", "_pool", "_runs_loop", "_thread")

    def __init__(self, pool: ThreadPool, hosted_class: HostedClass | None = None) -> None:
        """Run the code in the threads that `hosted_class` asks for; without it, in the pool's."""
        self._pool = pool
        self._own_thread = hosted_class is not None and hosted_class.own_thread
        self._own_loop = hosted_class is not None and hosted_class.own_loop
        self._runs_loop = hosted_class is not None and hosted_class.runs_loop
        self._thread: SessionThread | None = None
        self._jobs: set[ThreadJob] | None = None

    async def call(self, fn: Callable[..., Any], *args: Any, passing: Passing = ()) -> Any:
        """Return the result of `fn(*args)`, awaited if necessary.

        Raises: EnvironmentFault for what `fn` raises, except the types in `passing`, which pass
        unchanged; SessionDeleted when its thread was abandoned.
        """
        fault: EnvironmentFault
        THREADS.set(Threads(self._call_in_thread, asyncio.get_running_loop()))
        try:
            if inspect.iscoroutinefunction(fn) and not self._own_loop:
                return await fn(*args)
            return await self._call_in_thread(fn, *args)
        except (EnvironmentFault, SessionDeleted):
            raise
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            fault = fault_of(error)  # the author's code let it escape
        except BaseException as error:  # the author's code
            if passing and isinstance(error, passing):
                raise
            fault = fault_of(error)
        try:
            # outside the handlers, so that it does not refer to the frames of the original
            # exception
            raise fault
        finally:
            del fault  # or it and this frame would refer to each other, and keep the instance

    async def _call_in_thread(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Run `fn(*args)` on a thread of the pool, or to its end on the instance's own, which
        awaits what it returns. Raises: what `fn` raises."""
        job = ThreadJob(fn, args, asyncio.get_running_loop())
        thread = None
        if self._own_thread:
            if self._thread is None:
                self._thread = self._pool.lend(runs_loop=self._runs_loop)
            thread = self._thread
        self._pool.submit(job, thread)
        if self._jobs is None:
            self._jobs = set()
        self._jobs.add(job)
        try:
            result = await job.result()
        except asyncio.CancelledError:
            if thread is not None:
                thread.cancel(job)
            raise
        finally:
            if job.ended:
                self._jobs.discard(job)
        return await result if thread is None and inspect.isawaitable(result) else result

    async def within(self, seconds: float, work: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of `work`, which runs in its own task. One that ignores its
        cancellation is left running.

        Raises: OverTime, and what `work` raises.
        """
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(consume_exception)
        try:
            await asyncio.wait([task], timeout=seconds)
        finally:
            if task.cancel():  # it has not ended
                self._pool.note_overdue(task)
        if not task.done():
            raise OverTime
        try:
            return task.result()
        finally:
            del task  # or its exception and this frame would refer to each other

    async def settle(self, seconds: float) -> bool:
        """Wait until no thread runs this instance's code; abandon those that still do after
        `seconds`.

        Return whether all of them ended in time.
        """
        return await self._settle(list(self._jobs or ()), seconds)

    async def abandon_unawaited(self) -> None:
        """Abandon running threads whose callers were cancelled; later calls get another thread."""
        await self._settle(
            [job for job in self._jobs or () if job.future.cancelled()], MAX_CANCEL_SECONDS
        )

    async def _settle(self, jobs: list[ThreadJob], seconds: float) -> bool:
        waiting = [job for job in jobs if not (job.ended or job.abandoned)]
        if not waiting:
            return True
        _, running = await asyncio.wait([job.until_ended() for job in waiting], timeout=seconds)
        for job in waiting:
            self._give_up(job)
        return not running

    def _give_up(self, job: ThreadJob) -> None:
        if job.ended or job.abandoned:
            return
        self._pool.abandon(job)
        if self._thread is not None and job.started:
            self._thread = self._pool.replace(self._thread)
        job.give_up()

    def close(self) -> None:
        """Return the instance's own thread to the pool."""
        if self._thread is not None:
            self._pool.take_back(self._thread)
            self._thread = None


def consume_exception(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of an abandoned task; otherwise asyncio logs it, secrets included."""
    if not task.cancelled():
        task.exception()


def is_cancelled() -> bool:
    """Return whether the running task was cancelled, and no CancelledError escaped the author's
    code."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
