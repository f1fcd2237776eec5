"""One connection of a small HTTP/1.1 client for asyncio; `connection_pool.py` keeps such
connections open.

httptools parses, as in this server itself; docs/decisions/0022-hosts.md has the measurements that
led to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import httptools

MAX_BUFFERED_BYTES = 1024 * 1024
"""Unread bytes of a response after which the connection stops reading from the socket."""


class HttpError(Exception):
    """No complete response arrived; the message says why, after the URL."""


class NotConnected(HttpError):
    """The server cannot be reached, so the request was not sent."""


class ConnectionLost(HttpError):
    """The connection ended before the response was complete."""


class Silence(HttpError):
    """The server sent nothing for as long as it may."""


class ResponseTooLarge(HttpError):
    """The response has more bytes than are allowed."""


class OutboundConnection(asyncio.Protocol):
    """One connection, which carries one exchange at a time. Use it on one event loop only."""

    def __init__(self) -> None:
        self.is_open = True
        self.is_reusable = False
        """Whether the last response is complete and the server keeps the connection open."""
        self.expiry: asyncio.TimerHandle | None = None
        self.has_headers = False
        """Whether the status and the headers of the response have arrived."""
        self.on_end: Callable[[], None] | None = None
        """Called once when the response is complete or the connection is lost."""
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._error: HttpError | None = None
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.status = 0
        self.headers: dict[str, str] = {}
        self.is_complete = self.is_reusable = self.has_headers = False
        self._pieces: list[bytes] = []
        self._buffered = 0

    # --- asyncio ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._error = ConnectionLost(f"sent a response that is not HTTP ({error})")
            self.abort()
        if self._buffered > MAX_BUFFERED_BYTES and self._transport is not None:
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        ends_by_closing = not {"content-length", "transfer-encoding"} & self.headers.keys()
        if self.has_headers and ends_by_closing and exc is None and self._error is None:
            self.is_complete = True
        elif self._error is None:
            self._error = ConnectionLost(f"closed the connection{f' ({exc})' if exc else ''}")
        self._wake()

    def _wake(self) -> None:
        if self.on_end is not None and (self.is_complete or not self.is_open):
            on_end, self.on_end = self.on_end, None
            on_end()
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # --- httptools --------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self.has_headers = self.status >= 200

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._buffered += len(body)

    def on_message_complete(self) -> None:
        if self.status < 200:  # an interim response
            self.headers = {}
            return
        self.is_complete = True
        self.is_reusable = self._parser.should_keep_alive()

    # --- one exchange -----------------------------------------------------------------------------

    def send(self, request: bytes) -> None:
        """Send a request. The response of the one before must be complete."""
        assert self._transport is not None
        self._begin()
        self._transport.write(request)

    async def until_headers(self, seconds: float) -> None:
        """Wait for the status and the headers, at most `seconds` for each piece. Raises:
        HttpError."""
        while not self.has_headers:
            await self._wait(seconds)

    async def read(self, seconds: float) -> bytes:
        """Return the bytes that have arrived, after waiting for some; empty at the end. Raises:
        HttpError."""
        while not self._pieces:
            if self.is_complete:
                return b""
            await self._wait(seconds)
        return self.take()

    def take(self) -> bytes:
        """Return the bytes that have arrived and were not read; empty if there are none."""
        if not self._pieces:
            return b""
        data = b"".join(self._pieces) if len(self._pieces) > 1 else self._pieces[0]
        self._pieces = []
        if self._buffered > MAX_BUFFERED_BYTES and self._transport is not None:
            self._transport.resume_reading()
        self._buffered = 0
        return data

    async def _wait(self, seconds: float) -> None:
        if self._error is not None:
            raise self._error
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        timer = loop.call_later(seconds, _time_out, waiter)
        try:
            await waiter
        except TimeoutError:
            raise Silence(f"sent nothing for {seconds:g} s") from None
        finally:
            timer.cancel()

    def abort(self) -> None:
        """Close the connection without waiting."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()


def _time_out(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())
