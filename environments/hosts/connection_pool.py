"""A small HTTP/1.1 client for asyncio: a pool of connections to one server, and exchanges over
them.

It does what calls of remote environments need: JSON requests, responses that arrive in pieces, TLS,
and limits on silence and size. It sends no cookies, follows no redirects and uses no proxies.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self

from environments.hosts.http_connection import NotConnected, OutboundConnection, ResponseTooLarge

CONNECT_SECONDS = 10.0
IDLE_SECONDS = 4.0
"""How long an idle connection is kept. Servers close theirs after 5 s or more (uvicorn's default is
the shortest), and a request that crosses with that is lost."""
END_SECONDS = 1.0
"""How long to wait for the end of a response with complete content, to reuse its connection."""


class ConnectionPool:
    """Connections to one server. Use it on one event loop only."""

    def __init__(self, host: str, port: int, *, is_secure: bool, path: str = "") -> None:
        """`path`: the Unix socket of a server on this machine, instead of its host and port."""
        self._host, self._port, self._is_secure, self._path = host, port, is_secure, path
        self._idle: list[OutboundConnection] = []
        self._context: ssl.SSLContext | None = None

    def exchange(
        self, request: bytes, seconds: float, first_seconds: float | None = None
    ) -> OutboundExchange:
        """Return a context manager that sends `request` and holds its connection.

        `seconds` is the longest silence: the time for which nothing may arrive. `first_seconds`:
        another limit until the response begins.
        """
        return OutboundExchange(self, request, seconds, first_seconds or seconds)

    async def acquire(self) -> OutboundConnection:
        """Return a connection that is idle, or a new one. Raises: NotConnected."""
        while self._idle:
            connection = self._idle.pop()
            if connection.expiry is not None:
                connection.expiry.cancel()
            if connection.is_open:
                return connection
        return await self._connect()

    async def _connect(self) -> OutboundConnection:
        if self._is_secure and self._context is None:
            # reads the certificates: 20 ms
            self._context = await asyncio.to_thread(ssl.create_default_context)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                if self._path:
                    _, connection = await loop.create_unix_connection(
                        OutboundConnection, self._path
                    )
                else:
                    _, connection = await loop.create_connection(
                        OutboundConnection, self._host, self._port, ssl=self._context
                    )
        except TimeoutError:
            raise NotConnected(
                f"can't be reached: no connection within {CONNECT_SECONDS:g} s"
            ) from None
        except OSError as error:
            if isinstance(error, ssl.SSLError):
                reason = f"TLS failed ({error.reason or error})"
            elif isinstance(error, ConnectionRefusedError):
                reason = "connection refused"
            else:
                reason = (error.strerror or str(error) or type(error).__name__).rstrip(".")
            raise NotConnected(f"can't be reached: {reason}") from error
        return connection

    def release(self, connection: OutboundConnection, *, has_result: bool) -> None:
        """Take a connection back, and keep it if it is reusable.

        `has_result`: only the end of the response is missing, so wait a moment for it.
        """
        loop = asyncio.get_running_loop()
        if connection.is_open and connection.is_reusable:
            connection.expiry = loop.call_later(IDLE_SECONDS, self._expire, connection)
            self._idle.append(connection)
        elif connection.is_open and has_result and not connection.is_complete:
            connection.expiry = loop.call_later(END_SECONDS, connection.abort)
            connection.on_end = partial(self._release_complete, connection)
        else:
            connection.abort()

    def _release_complete(self, connection: OutboundConnection) -> None:
        if connection.expiry is not None:
            connection.expiry.cancel()
        self.release(connection, has_result=False)

    def _expire(self, connection: OutboundConnection) -> None:
        with suppress(ValueError):
            self._idle.remove(connection)
        connection.abort()

    def close(self) -> None:
        """Close the idle connections."""
        for connection in self._idle:
            if connection.expiry is not None:
                connection.expiry.cancel()
            connection.abort()
        self._idle = []


class OutboundExchange:
    """One request and its response, which may be read in pieces.

    Its connection is closed if the response is not read whole, unless `has_result` is set to true.
    """

    __slots__ = ("_connection", "_first_seconds", "_pool", "_request", "_seconds", "has_result")

    def __init__(
        self, pool: ConnectionPool, request: bytes, seconds: float, first_seconds: float
    ) -> None:
        self._pool, self._request = pool, request
        self._seconds, self._first_seconds = seconds, first_seconds
        self.has_result = False

    async def __aenter__(self) -> Self:
        self._connection = await self._pool.acquire()
        try:
            self._connection.send(self._request)
            await self._connection.until_headers(self._first_seconds)
        except BaseException:
            self._connection.abort()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pool.release(self._connection, has_result=self.has_result)

    @property
    def status(self) -> int:
        return self._connection.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the response by their names in lower case."""
        return self._connection.headers

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def read(self) -> bytes:
        """Return the next bytes of the body; empty at its end. Raises: HttpError."""
        return await self._connection.read(self._seconds)

    async def read_all(self, max_bytes: int) -> bytes:
        """Return the rest of the body. Raises: HttpError, ResponseTooLarge for more than
        `max_bytes`."""
        pieces, size = [], 0
        while piece := await self.read():
            pieces.append(piece)
            size += len(piece)
            if size > max_bytes:
                raise ResponseTooLarge(f"sent more than {max_bytes:,} bytes")
        return b"".join(pieces)
