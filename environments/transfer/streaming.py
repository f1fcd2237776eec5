"""Streams a file that is made in pieces as the body of a response. Used by the export pages and the API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator

from django.db import connections

from environments.database.worker_threads import started_thread

Pieces = Generator[bytes, None, None]


async def streamed(pieces: Pieces, first: bytes | None = None) -> AsyncIterator[bytes]:
    """Yield the pieces, each made after the previous one is sent. Django would collect an ordinary iterator in memory.

    `first`: a piece that the caller has already taken. Everything runs on one thread, and therefore on one database
    connection, which is closed at the end even if the client has disconnected.
    """
    loop, thread = asyncio.get_running_loop(), await started_thread("export")
    try:
        if first is not None:
            yield first
        while (piece := await loop.run_in_executor(thread, next, pieces, None)) is not None:
            yield piece
    finally:
        thread.submit(_end, pieces)
        thread.shutdown(wait=False)


def _end(pieces: Pieces) -> None:
    try:
        pieces.close()
    finally:
        connections.close_all()
