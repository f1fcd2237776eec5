"""A few threads on which Django renders pages, each with a permanent database connection. Wraps Django's handler.

Django starts two threads for every request and opens a database connection on the first, which together take as long as
a short page. Many threads at once also keep the event loop from running, so that agents and players wait. Therefore
requests wait for one of these threads as long as pages are being finished. If none is, they get threads of their own,
and so do event streams, which may last for hours.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from asgiref.sync import ThreadSensitiveContext

THREADS = 4
PATIENCE_SECONDS = 1.0
"""Time without a finished page after which the threads count as stuck; a page may wait for an environment's setup."""
STREAMS = "/events"
"""End of the paths of event streams: `/events/` of the pages, and that of an episode in the API."""

App = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


def is_stream(path: str) -> bool:
    """Return whether the path is that of an event stream."""
    return path.rstrip("/").endswith(STREAMS)


class PageThreads:
    """Gives each request one of the threads, the most recently used first."""

    def __init__(self, app: App, threads: int = THREADS, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._app, self._threads, self._patience = app, threads, patience_seconds
        self._free = [ThreadPoolExecutor(1, f"page-{number}") for number in range(threads)]
        self._waiting: deque[asyncio.Future[ThreadPoolExecutor]] = deque()
        self._done = 0
        """Number of pages that these threads have finished."""

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        thread = None if is_stream(scope["path"]) else await self._next_free()
        if thread is None:
            await self._app(scope, receive, send)
            return
        try:
            async with ThreadSensitiveContext(executor=thread):
                await self._app(scope, receive, send)
        finally:
            self._give_back(thread)

    async def _next_free(self) -> ThreadPoolExecutor | None:
        """Wait for a free thread. None: the threads are stuck."""
        if self._free:
            return self._free.pop()
        turn: asyncio.Future[ThreadPoolExecutor] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            while not turn.done():
                done = self._done
                await asyncio.wait([turn], timeout=self._patience)
                if not turn.done() and done == self._done and self._waiting.index(turn) < self._threads:
                    self._waiting.remove(turn)
                    return None
        except asyncio.CancelledError:
            if turn.done():
                self._give_back(turn.result())
            else:
                self._waiting.remove(turn)
            raise
        return turn.result()

    def _give_back(self, thread: ThreadPoolExecutor) -> None:
        """Free the thread once it has finished its work, which may go on after the client has left."""
        loop = asyncio.get_running_loop()
        thread.submit(lambda: loop.call_soon_threadsafe(self._take_back, thread))

    def _take_back(self, thread: ThreadPoolExecutor) -> None:
        self._done += 1
        if self._waiting:
            self._waiting.popleft().set_result(thread)
        else:
            self._free.append(thread)
