"""PageThreads: a few threads on which pages are made, each with a database connection that it keeps. Wraps Django.

Django starts two threads for every request and opens the database on the first, which together takes as long as a short
page. Requests beyond the threads there are, and streams, which may last for hours, go that way still.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from asgiref.sync import ThreadSensitiveContext

THREADS = 8
STREAMS = "/events"
"""End of their paths: the pages' `/events/`, and the API's of an episode."""

App = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


class PageThreads:
    """Each request has a thread of its own while it lasts; the one that was used last is taken first."""

    def __init__(self, app: App, threads: int = THREADS) -> None:
        self._app = app
        self._free = [ThreadPoolExecutor(1, f"page-{number}") for number in range(threads)]

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if not self._free or scope["path"].rstrip("/").endswith(STREAMS):
            await self._app(scope, receive, send)
            return
        thread = self._free.pop()
        try:
            async with ThreadSensitiveContext(executor=thread):
                await self._app(scope, receive, send)
        finally:
            thread.submit(
                self._free.append, thread
            )  # free once it has done what it was given: the client may have left
