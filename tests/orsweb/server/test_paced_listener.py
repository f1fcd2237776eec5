"""Connections that come together are accepted with rests between."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import ExitStack

import uvloop

from orsweb.server.paced_listener import MAX_AT_ONCE, REST_SECONDS, PacedListener

CLIENTS = 100
MIN_SECONDS = (CLIENTS / MAX_AT_ONCE - 1) * REST_SECONDS / 2
"""uvloop's timers may fire a millisecond early. Its own server takes a few milliseconds for all."""


def test_the_loop_rests_between_connections_that_come_together() -> None:
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=CLIENTS))
        listener.setblocking(False)
        for _ in range(CLIENTS):
            stack.enter_context(socket.create_connection(listener.getsockname()))
        assert uvloop.run(_seconds_to_accept(listener)) >= MIN_SECONDS


async def _seconds_to_accept(listener: socket.socket) -> float:
    made: list[asyncio.BaseTransport] = []
    all_made = asyncio.Event()

    class Connection(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.append(transport)
            if len(made) == CLIENTS:
                all_made.set()

    began = time.monotonic()
    server = PacedListener(listener, Connection)
    async with asyncio.timeout(30):
        await all_made.wait()
    seconds = time.monotonic() - began
    server.close()
    await server.wait_closed()
    for transport in made:
        transport.close()
    return seconds
