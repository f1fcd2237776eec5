"""Calls: the running and finished calls of sessions. A call outlives the connection that asked for it.

A client rejoins by task_id, which is per session. A call whose every reader was lost before the end was written is
an orphan; the client's repeat, which knows no task_id yet, adopts it instead of running the tool again.

Divergences from the references: ids are per session; an unknown id from a client starts a call under that id; an id
once used never runs again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

from environments.runtime.outcome import CallResult
from environments.wire import JSONObject, value_json

LOSS_TURNS = 2
"""Turns of the event loop after which a reset that came before a request is known."""


class Call:
    """One call of a session. `result` is None while it runs."""

    __slots__ = (
        "_has_left",
        "_waiters",
        "arguments",
        "finished_at",
        "is_delivered",
        "readers",
        "result",
        "task",
        "task_id",
        "tool",
    )

    def __init__(self, task_id: str, tool: str, arguments: JSONObject) -> None:
        self.task_id, self.tool, self.arguments = task_id, tool, arguments
        self.result: CallResult | None = None
        self.readers = 0
        self.is_delivered = False
        self.finished_at = 0.0
        self.task: asyncio.Task[None] | None = None  # the owner's reference keeps the task alive
        self._waiters: list[asyncio.Future[None]] | None = None
        self._has_left: Callable[[], bool] | None = None

    def join(self, has_left: Callable[[], bool] | None = None) -> None:
        """A reader has come; `Calls.leave` when it has gone. `has_left` tells so before it could."""
        self.readers += 1
        self._has_left = has_left

    def part(self) -> None:
        """A reader has gone."""
        self.readers -= 1
        if not self.readers:
            self._has_left = None  # it holds the reader's request

    def asked(self, tool: str, arguments: JSONObject) -> bool:
        """Whether the request was this very one; in JSON 1, 1.0 and true are different."""
        return self.tool == tool and self.arguments == arguments and value_json(self.arguments) == value_json(arguments)

    @property
    def is_lost(self) -> bool:
        """Whether the only reader is known to be gone, though nothing has been written that would have failed."""
        return self.readers == 1 and self._has_left is not None and self._has_left()

    def finish(self, result: CallResult) -> None:
        self.result, self.task = result, None
        for waiter in self._waiters or ():
            _wake(waiter)
        self._waiters = None

    async def wait(self, seconds: float) -> bool:
        """Whether the call has finished, after at most `seconds`."""
        if self.result is not None:
            return True
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        if self._waiters is None:
            self._waiters = []
        self._waiters.append(waiter)
        timer = loop.call_later(seconds, _wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            if self._waiters is not None:
                self._waiters.remove(waiter)
        return self.result is not None


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Calls:
    """The calls of one session, by task_id. None: the id was used and its result has left memory."""

    __slots__ = ("_by_id", "_orphans", "running", "told")

    def __init__(self) -> None:
        self._by_id: dict[str, Call | None] = {}
        self._orphans: list[Call] = []
        self.running: set[Call] = set()
        self.told: set[Call] = set()  # those that have a stream: its reader may be lost after the call has ended

    def is_used(self, task_id: str) -> bool:
        return task_id in self._by_id

    def find(self, task_id: str) -> Call | None:
        """The call, while it runs or lingers."""
        return self._by_id.get(task_id)

    def start(self, task_id: str, tool: str, arguments: JSONObject) -> Call:
        call = Call(task_id, tool, arguments)
        self._by_id[task_id] = call
        self.running.add(call)
        return call

    async def adopt(self, tool: str, arguments: JSONObject) -> Call | None:
        """The oldest call that was the same request and lost its readers.

        A reset and the repeat that follows it may reach the loop in one turn, in either order: while the same request
        is still being answered, the loop gets the turns in which it learns of the reset.
        """
        for _ in range(LOSS_TURNS):
            call = self._lost(tool, arguments)
            if call is not None or not any(self._twins(tool, arguments)):
                return call
            await asyncio.sleep(0)
        return self._lost(tool, arguments)

    def _lost(self, tool: str, arguments: JSONObject) -> Call | None:
        # those that were rejoined by their id meanwhile have a reader, or their result has reached one
        self._orphans = [call for call in self._orphans if not (call.readers or call.is_delivered)]
        for call in self._orphans:
            if call.asked(tool, arguments):
                self._orphans.remove(call)
                return call
        # the loss of a reader may be known before it is told
        return next((call for call in self._twins(tool, arguments) if call.is_lost), None)

    def _twins(self, tool: str, arguments: JSONObject) -> Iterator[Call]:
        """Calls that were the same request and are not answered yet, or not told to the end."""
        return (call for call in (*self.running, *self.told) if call.asked(tool, arguments))

    def leave(self, call: Call) -> None:
        """A reader has gone, after the end (`is_delivered`) or before it."""
        call.part()
        if not call.readers:
            self.told.discard(call)
        is_lost = not call.readers and not call.is_delivered
        if is_lost and self.find(call.task_id) is call and call not in self._orphans:
            self._orphans.append(call)

    def forget(self, call: Call) -> None:
        """Drop the result; the id stays used."""
        if self._by_id.get(call.task_id) is call:
            self._by_id[call.task_id] = None
        if call in self._orphans:
            self._orphans.remove(call)


class Lingering:
    """Finished calls of all sessions, oldest first: kept for a time, and for less when they are large together."""

    def __init__(self, linger_seconds: float, max_bytes: int) -> None:
        self._linger_seconds, self._max_bytes = linger_seconds, max_bytes
        self._queue: deque[tuple[Call, Calls]] = deque()
        self._bytes = 0

    def add(self, call: Call, calls: Calls, now: float) -> None:
        call.finished_at = now
        self._queue.append((call, calls))
        self._bytes += _size(call)
        if self._bytes > self._max_bytes:
            self.sweep(now)

    def sweep(self, now: float) -> None:
        while self._queue:
            call, calls = self._queue[0]
            if call.finished_at > now - self._linger_seconds and self._bytes <= self._max_bytes:
                return
            self._queue.popleft()
            self._bytes -= _size(call)
            calls.forget(call)


def _size(call: Call) -> int:
    return len(call.result.data) if call.result else 0
