"""Accepts a few connections at a time, with a pause after each few.

A loop that accepts hundreds of connections never waits, so the recorder's thread gets the
interpreter only every 5 ms: while 600 clients connected, a call of an agent took 150 ms.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

MAX_AT_ONCE = 4
REST_SECONDS = 0.002
"""Time between MAX_AT_ONCE connections and the next ones."""
FAILED_SECONDS = 1.0
"""Pause after a connection that could not be accepted, mostly because too many files are open."""


class PacedListener:
    """Accepts connections on a listening socket until closed; has the methods of a server that
    uvicorn calls."""

    def __init__(self, listener: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> None:
        """`protocol`: makes what a new connection talks to."""
        self._listener, self._protocol = listener, protocol
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[object]] = set()
        self._is_closed = False
        self._listen()

    def _listen(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(MAX_AT_ONCE):
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return  # none is left, or its client has gone
            except OSError:
                self._rest(FAILED_SECONDS)
                raise  # the event loop logs it
            connection.setblocking(False)
            task = self._loop.create_task(
                self._loop.connect_accepted_socket(self._protocol, connection)
            )
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)
        self._rest(REST_SECONDS)

    def _rest(self, seconds: float) -> None:
        self._loop.remove_reader(self._listener)
        self._loop.call_later(seconds, self._listen)

    def close(self) -> None:
        self._is_closed = True
        self._loop.remove_reader(self._listener)

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._opening)
