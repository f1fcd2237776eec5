"""A stream that notices what `live.py` announces, and takes its turn among the other streams.

One announcement wakes hundreds of streams, which would all write at once while agents wait. So each
goes on in another iteration of the event loop, and others are answered in between. After some of
them the loop rests, because a loop that never waits lets the threads that record have the
interpreter only every few milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, TypeVar

from django_eventstream.event import Event
from django_eventstream.views import Listener, get_listener_manager

from environments.database.worker_threads import Workers

Result = TypeVar("Result")

READERS = 2
WORK_SECONDS = 0.0005
REST_SECONDS = 0.002
MAX_PENDING = 10
"""Events that wait for a client that reads slowly; of more, the newest remain."""


class Listening(Listener):  # type: ignore[misc]  # it has no types
    """A context in which what is announced on `channel` is noticed."""

    def __init__(self, channel: str) -> None:
        super().__init__()
        self.channels = {channel}
        self._news: deque[Event] = deque(maxlen=MAX_PENDING)

    async def __aenter__(self) -> Listening:
        self.assign_loop()
        get_listener_manager().add_listener(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        get_listener_manager().remove_listener(self)

    def wake_threadsafe(self) -> None:
        """Take over what is queued. Called with the lock of the manager, which the event loop then
        need not take."""
        [events] = self.channel_items.values()
        self.channel_items.clear()
        self.loop.call_soon_threadsafe(self._hear, events)

    def _hear(self, events: list[Event]) -> None:
        if not self._news:
            turns_of(self.loop).add(self.aevent.set)
        self._news += events

    async def news(self, seconds: float) -> list[Event]:
        """Return what was announced since the last call; wait up to `seconds` for it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.aevent.wait()
        self.aevent.clear()
        news = list(self._news)
        self._news.clear()
        return news


class Turns:
    """What goes on, one after another, with rests between. Used from one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], Any]] = deque()
        self._worked_since = 0.0

    def add(self, go_on: Callable[[], Any]) -> None:
        self._waiting.append(go_on)
        if len(self._waiting) == 1:
            self._worked_since = self._loop.time()
            self._loop.call_soon(self._next)

    async def turn_after(self, work: asyncio.Future[Result]) -> Result:
        """Return the result of what others wait for too, when it is the caller's turn.

        They would all go on in one iteration if they awaited it themselves.
        """
        is_next = asyncio.Event()
        work.add_done_callback(lambda _: self.add(is_next.set))
        await is_next.wait()
        return work.result()

    def _next(self) -> None:
        self._waiting[0]()
        self._waiting.popleft()
        if not self._waiting:
            return
        if self._loop.time() - self._worked_since < WORK_SECONDS:
            self._loop.call_soon(self._next)
        else:
            self._loop.call_later(REST_SECONDS, self._begin)

    def _begin(self) -> None:
        self._worked_since = self._loop.time()
        self._next()


@lru_cache(maxsize=1)
def turns_of(loop: asyncio.AbstractEventLoop) -> Turns:
    return Turns(loop)


@cache
def stream_readers() -> Workers:
    """Return the threads that read for all streams. They end with the process."""
    return Workers(READERS, "events")
