"""UserCode: the only place where an author's code is called, and where what it raises is classified.

Async functions are awaited on the server's loop, plain ones run on threads; a session of a class that needs one thread
for all its code has a thread with a loop of its own. Everything an author's code may raise, SystemExit and a stray
CancelledError included, becomes an EnvironmentFault of text.
"""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from environments.authoring.direct_calls import THREADS, Threads
from environments.errors import EnvironmentFault, SessionDeleted
from environments.runtime.threads import Lease, ThreadJob, ThreadPool

Passing = tuple[type[Exception], ...]
MAX_PROBLEMS = 100
"""Of what does not validate; a longer list would hold up the server."""
MAX_TOLD = 3
NOTICE_SECONDS = 0.1
"""So long may async code in a thread of its own take to end after it was cancelled."""


class UserCode:
    """Calls one session's code (or, without a session, a class's). Knows which plain calls are still in a thread."""

    __slots__ = ("_jobs", "_lease", "_own_loop", "_own_thread", "_pool")

    def __init__(self, pool: ThreadPool, *, own_thread: bool = False, own_loop: bool = False) -> None:
        """`own_thread`: plain code in one thread of the session's; `own_loop`: async code there too."""
        self._pool = pool
        self._own_thread, self._own_loop = own_thread, own_loop
        self._lease: Lease | None = None
        self._jobs: set[ThreadJob] | None = None

    async def call(self, fn: Callable[..., Any], *args: Any, passing: Passing = ()) -> Any:
        """What `fn(*args)` returns, awaited if need be.

        Raises: EnvironmentFault; those in `passing` unchanged; SessionDeleted when its thread was given up.
        """
        fault: EnvironmentFault
        THREADS.set(Threads(self._plain, asyncio.get_running_loop()))
        try:
            if inspect.iscoroutinefunction(fn) and not self._own_loop:
                return await fn(*args)
            return await self._plain(fn, *args)
        except (EnvironmentFault, SessionDeleted):
            raise
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            fault = fault_of(error)  # the author's code let one escape
        except BaseException as error:  # the author's code
            if passing and isinstance(error, passing):
                raise
            fault = fault_of(error)
        raise fault  # outside the handlers, so that the fault does not hold the frames of what it tells

    async def _plain(self, fn: Callable[..., Any], *args: Any) -> Any:
        """On a thread of the session's. Raises what `fn` raises."""
        if self._own_thread:
            return await self._in_lease(fn, args)
        result = await self._result_of(ThreadJob(fn, args, asyncio.get_running_loop()), self._pool.submit)
        return await result if inspect.isawaitable(result) else result

    async def _in_lease(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """What `fn(*args)` returns, run to its end in the session's own thread and on its own loop."""
        job = ThreadJob(fn, args, asyncio.get_running_loop())
        if self._lease is None:
            self._lease = self._pool.lease()
        lease = self._lease
        try:
            return await self._result_of(job, lease.submit)
        except asyncio.CancelledError:
            lease.cancel(job)
            raise

    async def _result_of(self, job: ThreadJob, submit: Callable[[ThreadJob], None]) -> Any:
        submit(job)
        if self._jobs is None:
            self._jobs = set()
        self._jobs.add(job)
        try:
            await job.future
        finally:
            if job.ended:
                self._jobs.discard(job)
        if isinstance(job.error, StopIteration):
            raise fault_of(job.error)  # a coroutine cannot raise it
        if job.error is not None:
            raise job.error
        return job.value

    async def settle(self, seconds: float) -> bool:
        """Wait until no thread runs this session's code; whether that came true within `seconds`. Abandons the rest."""
        return await self._settle(list(self._jobs or ()), seconds)

    async def abandon_unawaited(self) -> None:
        """Give up the threads whose callers were cancelled and which take no notice of it; the session's next code
        gets another thread.
        """
        await self._settle([job for job in self._jobs or () if job.future.cancelled()], NOTICE_SECONDS)

    async def _settle(self, jobs: list[ThreadJob], seconds: float) -> bool:
        waiting = [job for job in jobs if not (job.ended or job.abandoned)]
        if not waiting:
            return True
        ended = asyncio.get_running_loop().create_future()
        for job in waiting:
            job.on_end = _chain(job.on_end, waiting, ended)
        try:
            await asyncio.wait_for(ended, seconds)
        except TimeoutError:
            for job in waiting:
                self._give_up(job)
            return False
        return True

    def _give_up(self, job: ThreadJob) -> None:
        if job.ended or job.abandoned:
            return
        self._pool.abandon(job)
        if self._lease is not None and job.started:
            self._lease = self._lease.hand_over()
        if not job.future.done():
            job.future.set_exception(SessionDeleted())

    def close(self) -> None:
        """Give the session's thread back."""
        if self._lease is not None:
            self._pool.release(self._lease)
            self._lease = None


def is_cancelled() -> bool:
    """Whether somebody cancelled the running task, as opposed to a CancelledError that the author's code let escape."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _chain(
    before: Callable[[ThreadJob], None] | None, jobs: list[ThreadJob], ended: asyncio.Future[None]
) -> Callable[[ThreadJob], None]:
    def on_end(job: ThreadJob) -> None:
        if before:
            before(job)
        if all(one.ended for one in jobs) and not ended.done():
            ended.set_result(None)

    return on_end


def fault_of(error: BaseException) -> EnvironmentFault:
    """`error` as text: its type, its message, its traceback from the author's first frame on."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if "/environments/runtime/" not in frame.filename] or frames
    trace = "".join(["Traceback (most recent call last):\n", *traceback.format_list(theirs)])
    text = text_of(error)
    trace += f"{type(error).__name__}: {text}" if isinstance(error, ValidationError) else _last_lines(error)
    return EnvironmentFault(type(error).__name__, text, trace)


def text_of(error: BaseException) -> str:
    """Its message; of pydantic's without the values that it quotes in part, for half a secret is not masked."""
    if not isinstance(error, ValidationError):
        return str(error)
    count = error.error_count()
    if count > MAX_PROBLEMS:
        return f"{count} problems"
    problems = error.errors(include_url=False, include_input=False)
    told = [f"{'.'.join(map(str, one['loc'])) or error.title}: {one['msg']}" for one in problems[:MAX_TOLD]]
    return "; ".join([*told, *([f"{count - MAX_TOLD} more"] if count > MAX_TOLD else [])])


def _last_lines(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error))
