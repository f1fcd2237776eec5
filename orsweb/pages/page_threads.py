"""A few threads on which Django renders pages, each with a permanent database connection. Wraps
Django's handler.

Django starts two threads for every request and opens a database connection on the first, which
together take as long as a short page. The event loop waits for each thread to start, and many
threads at once keep it from running, so that agents and players wait. Therefore requests wait for
one of these threads as long as pages are being finished. If none is, further threads start, up to
MAX_THREADS, and end with their pages.

An event stream occupies its thread only until its response begins. Streams have a thread of their
own, because many clients may open some at once: pages don't wait for them, and agents share the
interpreter with one of them at a time. That thread rests before each of its queries. Otherwise
every call of an agent meanwhile would take twice as long, as both threads get half of the
interpreter.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from asgiref.sync import ThreadSensitiveContext
from django.db import connection

from environments.database.worker_threads import started_thread

THREADS = 4
STREAM_THREADS = 1
MAX_THREADS = 64
PATIENCE_SECONDS = 1.0
"""Time without a finished page after which the threads count as stuck; a page may wait for an
environment's setup."""
STREAM_REST_SECONDS = 0.005
"""Time that an event stream waits before each query while it opens."""
STREAMS = "/events"
"""End of the paths of event streams: `/events/` of the pages, and that of an episode in the API."""

App = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


def is_stream(path: str) -> bool:
    """Return whether the path is that of an event stream."""
    return path.rstrip("/").endswith(STREAMS)


class PageThreads:
    """Gives each request one of the threads."""

    def __init__(
        self, app: App, threads: int = THREADS, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self._app = app
        self._pages = FreeThreads("page", threads, MAX_THREADS, patience_seconds)
        self._streams = FreeThreads(
            "stream", STREAM_THREADS, STREAM_THREADS, patience_seconds, _rest_before_queries
        )

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if not is_stream(scope["path"]):
            thread = await self._pages.take()
            try:
                async with ThreadSensitiveContext(executor=thread):
                    await self._app(scope, receive, send)
            finally:
                self._pages.give_back(thread)
            return

        thread = await self._streams.take()
        has_begun = False

        async def send_on(message: dict[str, Any]) -> None:
            nonlocal has_begun
            if not has_begun:
                has_begun = True
                self._streams.give_back(thread)
            await send(message)

        try:
            # Django closes the response at last on the same thread, between what others do there.
            async with ThreadSensitiveContext(executor=thread):
                await self._app(scope, receive, send_on)
        finally:
            if not has_begun:
                self._streams.give_back(thread)


class FreeThreads:
    """Threads that requests take and give back, the most recently used first."""

    def __init__(
        self,
        name: str,
        usual: int,
        most: int,
        patience_seconds: float,
        prepare: Callable[[], object] = lambda: None,
    ) -> None:
        """`most`: as many there are while `usual` ones are stuck; `prepare`: what each calls
        first."""
        self._name, self._usual, self._most, self._patience = name, usual, most, patience_seconds
        self._prepare = prepare
        self._free: list[ThreadPoolExecutor] = []
        self._waiting: deque[asyncio.Future[ThreadPoolExecutor]] = deque()
        self._starting: set[asyncio.Task[None]] = set()
        self._count = 0
        """Number of threads, those that are starting included."""
        self._done = 0
        """Number of requests that have given their thread back."""
        self._is_watched = False

    async def take(self) -> ThreadPoolExecutor:
        """Wait for a free thread."""
        if self._free:
            return self._free.pop()
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[ThreadPoolExecutor] = loop.create_future()
        self._waiting.append(turn)
        if self._count < self._usual:
            self._start()
        if self._usual < self._most and not self._is_watched:
            self._is_watched = True
            loop.call_later(self._patience, self._watch, self._done)
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it came at the same moment
                self.give_back(turn.result())
            raise

    def _watch(self, count: int) -> None:
        """Start threads for those who wait longest if no request has ended since `count` had."""
        self._is_watched = bool(self._waiting)
        if not self._is_watched:
            return
        if count == self._done:
            for _ in range(min(self._usual, len(self._waiting), self._most - self._count)):
                self._start()
        asyncio.get_running_loop().call_later(self._patience, self._watch, self._done)

    def _start(self) -> None:
        self._count += 1
        task = asyncio.get_running_loop().create_task(self._started())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _started(self) -> None:
        try:
            thread = await started_thread(self._name, self._prepare)
        except BaseException:
            self._count -= 1
            raise
        self._hand_on(thread)

    def give_back(self, thread: ThreadPoolExecutor) -> None:
        """Free the thread once it has finished its work, which may go on after the client has
        left."""
        loop = asyncio.get_running_loop()
        thread.submit(lambda: loop.call_soon_threadsafe(self._take_back, thread))

    def _take_back(self, thread: ThreadPoolExecutor) -> None:
        self._done += 1
        self._hand_on(thread)

    def _hand_on(self, thread: ThreadPoolExecutor) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.cancelled():
                turn.set_result(thread)
                return
        if self._count > self._usual:
            self._count -= 1
            thread.shutdown(wait=False)
        else:
            self._free.append(thread)


def _rest_before_queries() -> None:
    connection.execute_wrappers.append(_rest)


def _rest(execute: Callable[..., Any], *args: Any) -> Any:
    time.sleep(STREAM_REST_SECONDS)
    return execute(*args)
