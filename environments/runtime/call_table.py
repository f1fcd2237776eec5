"""The running and finished tool calls of sessions. A call outlives the connection of the request
that started it.

A client rejoins a call by its task_id, which is unique within a session. A call is an orphan when
it lost all its readers (the requests that wait for its result) before the result was delivered. A
client that repeats the request without knowing the task_id adopts the orphan, so the tool does not
run twice.

Divergences from the references: ids are per session; an unknown id from a client starts a call
under that id; a used id never starts another call.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from environments.errors import InvalidRequest
from environments.limits import ReturnErrors
from environments.runtime.call_outcome import CallOutcome, CallResult
from environments.runtime.crash_notes import CallNote, NotedCall, hash_of
from environments.runtime.records import RecalledCall
from environments.wire import JSONObject, value_json

MAX_TASK_ID_CHARACTERS = 255
LOSS_ITERATIONS = 2
"""Iterations of the event loop within which it notices the reset of a connection that came before a
request."""


class RunningCall(NamedTuple):
    """A call that runs, for those who watch the episode."""

    arrived_at: float
    """By time.monotonic()."""
    tool: str
    """Without secrets."""


class Call:
    """One call of a session. `result` is None while it runs."""

    __slots__ = (
        "_has_left",
        "_waiters",
        "arguments",
        "arrived_at",
        "finished_at",
        "input_digest",
        "input_json",
        "is_delivered",
        "note",
        "readers",
        "result",
        "task",
        "task_id",
        "tool",
    )

    def __init__(self, task_id: str, tool: str, arguments: JSONObject) -> None:
        self.task_id, self.tool, self.arguments = task_id, tool, arguments
        self.input_json = ""  # as it is recorded, while the call runs
        self.input_digest = b""  # of that, if it was computed
        self.arrived_at = time.monotonic()
        self.result: CallResult | None = None
        self.readers = 0
        self.note: CallNote | None = None  # that it runs, or that its result has not been sent
        self.is_delivered = False
        self.finished_at = 0.0
        self.task: asyncio.Task[None] | None = None  # the owner's reference keeps the task alive
        self._waiters: list[asyncio.Future[None]] | None = None
        self._has_left: Callable[[], bool] | None = None

    def join(self, has_left: Callable[[], bool] | None = None) -> None:
        """Add a reader, to be removed by `Calls.leave`. `has_left` returns True when it is gone but
        not yet removed."""
        self.readers += 1
        self._has_left = has_left

    def leave(self) -> None:
        """Remove one reader of the call."""
        self.readers -= 1
        if self.is_delivered:
            self.forget_note()
        if not self.readers:
            self._has_left = None  # it refers to the reader's request
            if self.is_delivered:
                # only an undelivered call is searched for by its arguments
                self.arguments = {}

    def forget_note(self) -> None:
        """Delete the note of a call that nobody will repeat."""
        if self.note is not None:
            self.note.forget()
            self.note = None

    @property
    def arguments_json(self) -> str:
        """The arguments as JSON, or a note that they can't be recorded."""
        try:
            return value_json(self.arguments)
        except TypeError as error:  # nested too deeply; the call must be answered nevertheless
            return value_json({"not recorded": str(error)})

    def matches(self, tool: str, arguments: JSONObject) -> bool:
        """Return whether the call was started with this tool and these arguments; in JSON 1, 1.0
        and true are different.
        """
        return (
            self.tool == tool
            and self.arguments == arguments
            and value_json(self.arguments) == value_json(arguments)
        )

    @property
    def is_lost(self) -> bool:
        """Return whether the only reader is gone although no write to it has failed yet."""
        return self.readers == 1 and self._has_left is not None and self._has_left()

    def finish(self, result: CallResult) -> None:
        """Set the result and wake everyone who waits for it."""
        self.result, self.task, self.input_json = result, None, ""
        for waiter in self._waiters or ():
            _wake(waiter)
        self._waiters = None

    async def wait(self, seconds: float) -> bool:
        """Wait until the call has finished, at most `seconds`; return whether it has."""
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
    """The calls of one session by task_id; None once a call's result was removed from memory."""

    __slots__ = ("_by_id", "_orphans", "lost", "running", "streaming")

    def __init__(self) -> None:
        # that ran when an earlier server died, and are not made again
        self.lost: list[NotedCall] = []
        self._by_id: dict[str, Call | None] = {}
        self._orphans: list[Call] = []
        self.running: set[Call] = set()
        # answered by a stream, whose reader may be lost after the call has ended
        self.streaming: set[Call] = set()

    def is_used(self, task_id: str) -> bool:
        return task_id in self._by_id

    def note_used(self, task_id: str) -> None:
        """Note the id of a call that an earlier server has recorded."""
        self._by_id[task_id] = None

    def add_orphan(self, call: Call) -> None:
        """Add a finished call whose result was perhaps not sent."""
        self._by_id[call.task_id] = call
        self._orphans.append(call)

    def find(self, task_id: str) -> Call | None:
        """Return the call with this id, while it runs or its result is in memory."""
        return self._by_id.get(task_id)

    def start(self, task_id: str, tool: str, arguments: JSONObject) -> Call:
        """Add a new running call."""
        call = Call(task_id, tool, arguments)
        self._by_id[task_id] = call
        self.running.add(call)
        return call

    def take_lost(self, call: Call) -> bool:
        """Return whether the call ran when an earlier server died; true only once for each call."""
        digest = hash_of(call.input_json)
        for note in self.lost:
            if (note.what, note.input_hash) == (call.tool, digest):
                self.lost.remove(note)
                return True
        return False

    async def adopt_orphan(self, tool: str, arguments: JSONObject) -> Call | None:
        """Return the oldest call of the same request that has lost its readers, if there is one.

        The reset of a connection and the repeated request may reach the event loop in the same
        iteration, in either order. So while a call of the same request still has readers, wait the
        iterations in which a reset is noticed.
        """
        if not (self._orphans or self.running or self.streaming):
            return None
        for _ in range(LOSS_ITERATIONS):
            call = self._find_lost(tool, arguments)
            if call is not None or not any(self._same_requests(tool, arguments)):
                return call
            await asyncio.sleep(0)
        return self._find_lost(tool, arguments)

    def _find_lost(self, tool: str, arguments: JSONObject) -> Call | None:
        # calls rejoined by their id have a reader again, or their result has been delivered
        self._orphans = [call for call in self._orphans if not (call.readers or call.is_delivered)]
        for call in self._orphans:
            if call.matches(tool, arguments):
                self._orphans.remove(call)
                return call
        # a reader may be gone although `leave` was not called for it yet
        return next((call for call in self._same_requests(tool, arguments) if call.is_lost), None)

    def _same_requests(self, tool: str, arguments: JSONObject) -> Iterator[Call]:
        """Return the calls of the same request that are not completely answered."""
        return (call for call in (*self.running, *self.streaming) if call.matches(tool, arguments))

    def leave(self, call: Call) -> None:
        """Remove a reader. Without another one, an undelivered call becomes an orphan."""
        call.leave()
        if not call.readers:
            self.streaming.discard(call)
        is_lost = not call.readers and not call.is_delivered
        if is_lost and self.find(call.task_id) is call and call not in self._orphans:
            self._orphans.append(call)

    def forget(self, call: Call) -> None:
        """Remove the result from memory; the id stays used."""
        call.forget_note()
        if self._by_id.get(call.task_id) is call:
            self._by_id[call.task_id] = None
        if call in self._orphans:
            self._orphans.remove(call)


class LingeringCalls:
    """Finished calls of all sessions whose results are still in memory, oldest first.

    A result is removed after `linger_seconds`, or earlier when all of them together exceed
    `max_bytes`.
    """

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
        """Remove results that are too old or exceed the memory limit."""
        while self._queue:
            call, calls = self._queue[0]
            if call.finished_at > now - self._linger_seconds and self._bytes <= self._max_bytes:
                return
            self._queue.popleft()
            self._bytes -= _size(call)
            calls.forget(call)


def _size(call: Call) -> int:
    return len(call.result.data) if call.result else 0


def checked_task_id(task_id: str | None) -> str:
    """Return the client's task_id; empty if it sent none. Raises: InvalidRequest."""
    if task_id and len(task_id) > MAX_TASK_ID_CHARACTERS:
        raise InvalidRequest(
            f"task_id has {len(task_id)} characters; at most {MAX_TASK_ID_CHARACTERS} are allowed"
        )
    return task_id or ""


def recalled_call(task_id: str, record: RecalledCall, errors: ReturnErrors) -> Call:
    """Return the finished call whose step is on record."""
    outcome = CallOutcome(
        record.status, record.output_json, error=record.error, reason=record.reason
    )
    call = Call(task_id, "", {})
    call.finish(outcome.result(errors))
    return call


def unknown_task_id() -> Call:
    """Return a finished call whose stream consists of the error only, without a task_id event."""
    call = Call("", "", {})
    call.finish(CallResult("error", "unknown task_id"))
    return call
