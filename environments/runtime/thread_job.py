"""A call of an author's function on a thread: what `ThreadPool` and `SessionThread` run, and
callers await."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from environments.errors import SessionDeleted
from environments.fair_turns import KEY
from environments.runtime.author_errors import fault_of
from environments.runtime.crash_notes import CURRENT


class ThreadJob:
    """A function call: its caller awaits `result`, a thread does `work`, and then the server's loop
    calls `deliver`, which wakes the caller. The caller may be cancelled; `ended` is set once the
    thread has finished.

    The function often belongs to an instance that holds much memory, and a job may outlive the
    session. So a job drops its function when it has run, and the result or exception when that is
    taken or not needed: an exception refers to its frames, which refer to the job.
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

    def __init__(
        self, fn: Callable[..., Any], args: tuple[Any, ...], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.fn, self.args = fn, args
        self.future: asyncio.Future[None] = loop.create_future()
        self.started = self.ended = False
        self.abandoned = self.is_leased = False
        self.value: Any = None
        self.error: BaseException | None = None
        self._end: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None  # in a SessionThread
        self.note = CURRENT.get()
        self.key = KEY.get()

    def work(self) -> bool:
        """Run the function in a thread and store its result or exception.

        Return False when the job was abandoned while it ran, so that the thread is no longer
        needed.
        """
        self.started = True
        # while it waited for a thread
        if self.abandoned or (self.is_leased and self.future.cancelled()):
            return True
        if self.note is not None:
            self.note.enter_thread()
        CURRENT.set(self.note)
        KEY.set(self.key)
        try:
            self.value = self.fn(*self.args)
        except BaseException as error:  # the author's code, SystemExit included
            self.error = error
        self.drop_function()
        return not self.abandoned

    def deliver(self) -> None:
        """Wake the caller that awaits `result`; called on the server's loop."""
        self.ended = True
        if self.future.done():  # the caller was cancelled
            self.drop_result()
        else:
            self.future.set_result(None)
        if self._end is not None:
            self._end.set_result(None)

    async def result(self) -> Any:
        """Return what the function returned, once it has.

        Raises: what the function raised; SessionDeleted if its thread was abandoned.
        """
        await self.future
        value, error = self.value, self.error
        self.drop_result()
        if self.abandoned:
            raise SessionDeleted
        if error is None:
            return value
        try:
            # a coroutine cannot raise StopIteration
            raise fault_of(error) if isinstance(error, StopIteration) else error
        finally:
            del error  # or it and this frame would refer to each other

    async def await_value(self) -> None:
        """Await what the function returned on the loop of a session's thread, and store the result
        or the exception."""
        awaitable, self.value = self.value, None
        try:
            self.value = await awaitable
        except BaseException as error:  # the author's code, or our cancellation; both end here
            self.error = error
        if self.abandoned:
            self.drop_result()

    def drop_function(self) -> None:
        self.fn, self.args = _nothing, ()
        if self.abandoned:
            self.drop_result()

    def drop_result(self) -> None:
        self.value = self.error = None

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
