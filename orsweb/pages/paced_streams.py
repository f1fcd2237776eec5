"""Opens event streams and sockets of a client that has many of them one after another, with rests
between.

To open one takes several queries and milliseconds of Python. While hundreds opened without a rest,
each call of an agent waited for the interpreter. The first few of a client open at once. Each
further one waits for its turn, behind those of clients that have fewer.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Any

from environments import conf
from environments.runtime.switch_interval import restore_switch_interval, shorten_switch_interval
from orsweb.pages.page_threads import is_stream

AT_ONCE = 8
"""Streams and sockets that a client may have open before further ones wait for a turn."""
REST_SECONDS = 0.1
"""Time after a turn in which the next one has not begun: about ten times what a turn takes."""
CREDENTIALS = (b"x-api-key", b"authorization", b"cookie")
"""Headers that tell clients behind one address apart. They have not been checked yet."""

App = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


class StreamTurns:
    """The streams of all clients, and whose turn it is to open one. Used from one event loop."""

    def __init__(self, at_once: int = AT_ONCE, rest_seconds: float = REST_SECONDS) -> None:
        self._at_once, self._rest_seconds = at_once, rest_seconds
        self._streams: Counter[Hashable] = Counter()  # of each client, open and waiting
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []  # a heap
        self._arrivals = itertools.count()
        self._is_free = True

    @asynccontextmanager
    async def stream(self, client: Hashable) -> AsyncIterator[Callable[[], None]]:
        """Wait until `client` may open another stream, which lasts as long as the context. Yields
        what to call as soon as it is open."""
        self._streams[client] += 1
        number = self._streams[client]
        is_paced = number > self._at_once
        try:
            if is_paced:
                await self._take_turn(number)
            is_opening = True
            shorten_switch_interval()

            def end_opening(rest_seconds: float) -> None:
                nonlocal is_opening
                if is_opening:
                    is_opening = False
                    restore_switch_interval()
                    if is_paced:
                        asyncio.get_running_loop().call_later(rest_seconds, self._hand_on)

            try:
                yield lambda: end_opening(self._rest_seconds)
            finally:
                end_opening(0.0)  # if its client left before
        finally:
            self._streams[client] -= 1
            if not self._streams[client]:
                del self._streams[client]

    async def _take_turn(self, number: int) -> None:
        """Wait for a turn, for a stream that is the `number`-th of its client."""
        if self._is_free:
            self._is_free = False
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (number, next(self._arrivals), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it came at the same moment
                self._hand_on()
            raise

    def _hand_on(self) -> None:
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.cancelled():
                turn.set_result(None)
                return
        self._is_free = True


class PacedStreams:
    """Lets requests for event streams and sockets wait until they may open. Wraps an ASGI
    application."""

    def __init__(self, app: App, turns: StreamTurns) -> None:
        self._app, self._turns = app, turns

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http" and not is_stream(scope["path"]):
            await self._app(scope, receive, send)
            return
        address, _ = scope.get("client") or ("", 0)
        credentials = tuple(pair for pair in scope["headers"] if pair[0] in CREDENTIALS)
        async with self._turns.stream((conf.network_of(address), credentials)) as note_open:

            async def send_on(message: dict[str, Any]) -> None:
                note_open()
                await send(message)

            await self._app(scope, receive, send_on)
