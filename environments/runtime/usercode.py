"""The only place where an author's code is called and its exceptions are classified.

Async functions are awaited on the server's loop, plain functions run on threads. An instance of a
class that needs one thread for all its code has a thread with a loop of its own. Every exception of
an author's code, including SystemExit and a CancelledError that it lets escape, becomes an
EnvironmentFault that holds text only.
"""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from pydantic import ValidationError

from environments.authoring.direct_calls import THREADS, Threads
from environments.authoring.hosted_class import HostedClass
from environments.errors import EnvironmentFault, SessionDeleted
from environments.runtime.session_thread import SessionThread
from environments.runtime.thread_job import ThreadJob
from environments.runtime.threads import ThreadPool

Passing = tuple[type[Exception], ...]
MAX_PROBLEMS = 100
"""Longest list of pydantic's problems that is formatted; a longer one would block the event
loop."""
MAX_LISTED_PROBLEMS = 3
"""Problems that a message lists; of the others it gives the number."""
MAX_CANCEL_SECONDS = 0.1
"""Time for async code in a thread of its own to end after its cancellation."""

ADVICE = (
    '. Sessions have a main thread with isolation = "session" and own_thread = True on the class, '
    "or served as 'module:Class?isolation=\"session\"&own_thread=true'"
)
"""What the error says of code that needs the main thread, as signals do."""


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
        """Run `fn(*args)` on a thread of the pool, or of the instance. Raises: what `fn` raises."""
        if self._own_thread:
            return await self._call_in_own_thread(fn, args)
        result = await self._result_of(
            ThreadJob(fn, args, asyncio.get_running_loop()), self._pool.submit
        )
        return await result if inspect.isawaitable(result) else result

    async def _call_in_own_thread(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Run `fn(*args)` to its end in the instance's own thread, on its loop."""
        job = ThreadJob(fn, args, asyncio.get_running_loop())
        if self._thread is None:
            self._thread = self._pool.lend(runs_loop=self._runs_loop)
        thread = self._thread
        try:
            return await self._result_of(job, partial(self._pool.submit_to, thread))
        except asyncio.CancelledError:
            thread.cancel(job)
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
        value, error = job.value, job.error
        job.drop_result()
        if job.abandoned:
            raise SessionDeleted
        if error is None:
            return value
        try:
            # a coroutine cannot raise StopIteration
            raise fault_of(error) if isinstance(error, StopIteration) else error
        finally:
            del error  # or it and this frame would refer to each other

    async def within(self, seconds: float, work: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of `work`, which runs in its own task. One that ignores its
        cancellation is left running.

        Raises: TimeoutError, and what `work` raises.
        """
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(consume_exception)
        try:
            await asyncio.wait([task], timeout=seconds)
        finally:
            if task.cancel():  # it has not ended
                self._pool.note_overdue(task)
        if not task.done():
            raise TimeoutError
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


def fault_of(error: BaseException) -> EnvironmentFault:
    """Return the fault with type, message and traceback of `error`, from the first frame of the
    author's code on."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if "/environments/runtime/" not in frame.filename] or frames
    trace = "".join(["Traceback (most recent call last):\n", *traceback.format_list(theirs)])
    text = text_of(error) + (ADVICE if _needs_main_thread(error) else "")
    if isinstance(error, ValidationError):
        trace += f"{type(error).__name__}: {text}"
    else:
        trace += "".join(traceback.format_exception_only(error))
    return EnvironmentFault(type(error).__name__, text, trace)


def _needs_main_thread(error: BaseException) -> bool:
    """Return whether Python refused signals outside of the main thread, also as a cause."""
    causes = (error, error.__cause__, error.__context__)
    return any(
        isinstance(cause, ValueError) and "only works in main thread" in str(cause)
        for cause in causes
    )


def text_of(error: BaseException) -> str:
    """Return the message of `error`, which for a ValidationError omits the input values.

    pydantic truncates those, and the mask does not find a truncated secret.
    """
    if not isinstance(error, ValidationError):
        return str(error)
    count = error.error_count()
    if count > MAX_PROBLEMS:
        return f"{count} problems"
    problems = error.errors(include_url=False, include_input=False)
    texts = [
        f"{'.'.join(map(str, problem['loc'])) or error.title}: {problem['msg']}"
        for problem in problems[:MAX_LISTED_PROBLEMS]
    ]
    if count > MAX_LISTED_PROBLEMS:
        texts.append(f"{count - MAX_LISTED_PROBLEMS} more")
    return "; ".join(texts)
