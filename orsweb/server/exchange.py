"""One request of an agent and its response, on a connection of uvicorn, without ASGI messages.

For every request uvicorn creates a scope and an event, and passes two receives and two sends, which
costs more than the rest of a tool call. An Exchange replaces uvicorn's RequestResponseCycle: it has
the members that HttpToolsProtocol (0.54) uses, collects the body as it arrives and writes the whole
response at once. `connection.py` creates Exchanges and leaves everything else to uvicorn: pages,
websockets, HTTP/1.0, `Expect`, pipelined requests and other methods.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Protocol

import structlog

from environments.agents.http.handler import ProtocolHandler, too_large
from environments.agents.http.request import HttpRequest
from environments.agents.http.response import Headers, Response
from environments.errors import BrokenOff

log = structlog.get_logger(__name__)

MAX_UNCHECKED_BYTES = 16 * 1024
"""Largest body that is stored before the key of its request is checked."""
CLOSE = (b"connection", b"close")
CHUNKED = (b"transfer-encoding", b"chunked")


class Connection(Protocol):
    """The members of a connection that an Exchange uses."""

    transport: Any
    flow: Any
    server_state: Any

    def on_response_complete(self) -> None: ...


class UnusedEvent:
    """Replaces the event that uvicorn sets; nothing waits for it."""

    def set(self) -> None:
        pass


class Exchange:
    """Handles one request. uvicorn calls `run_asgi` when the body has arrived, or is refused."""

    __slots__ = (
        "_agents",
        "_body",
        "_connection",
        "_is_known",
        "_request",
        "body",
        "disconnected",
        "has_started",
        "keep_alive",
        "more_body",
        "owner",
        "response_complete",
        "scope",
        "size",
    )
    message_event = UnusedEvent()

    def __init__(
        self,
        connection: Connection,
        agents: ProtocolHandler,
        scope: dict[str, Any],
        *,
        keep_alive: bool,
    ) -> None:
        self._connection, self._agents, self.scope = connection, agents, scope
        self._body: list[bytes] = []
        self.size = 0
        self.owner = ""  # label of the API key, once it was checked
        self._is_known = False
        self._request: HttpRequest | None = None  # once a long body is announced or arrives
        self.body, self.more_body = b"", True
        self.keep_alive = keep_alive
        self.disconnected = self.response_complete = self.has_started = False

    @property
    def response_started(self) -> bool:
        """Whether the request is being answered."""
        return self.has_started

    def take(self, piece: bytes) -> bool:
        """Add a piece of the body. Returns False if the body is refused; then the exchange has to
        start."""
        self.size += len(piece)
        # most bodies arrive in one small piece, and are checked with the request; others before
        is_usual = self.size <= MAX_UNCHECKED_BYTES and not self._body
        if self.is_too_large or not (is_usual or self._may_send()):
            self._body.clear()
            return False
        self._body.append(piece)
        return True

    @property
    def is_too_large(self) -> bool:
        return self.size > self._agents.max_body_bytes

    def expect(self, length: str) -> bool:
        """Returns False if a body of this Content-Length is refused; then the exchange has to
        start."""
        if not length.isdecimal() or (size := int(length)) <= MAX_UNCHECKED_BYTES:
            return True
        if size > self._agents.max_body_bytes:
            self.size = size
        return not self.is_too_large and self._may_send()

    async def run_asgi(self, app: object) -> None:
        """Send the response. `app` is the ASGI application, which is not used."""
        try:
            response = await self._response()
            if isinstance(response.body, bytes):
                self._send(response.status_code, response.headers, response.body)
            elif not await self._stream(response.status_code, response.headers, response.body):
                return
        except BaseException as error:
            self._connection.transport.close()
            if not isinstance(error, Exception):
                raise
            if not isinstance(error, BrokenOff):
                log.exception("a response was not sent")
            return
        self.response_complete = True
        if not self.keep_alive:
            self._connection.transport.close()
        self._connection.on_response_complete()

    async def _response(self) -> Response:
        if self.is_too_large and self._may_send():
            return too_large(self.size, self._agents.max_body_bytes)
        request = self._request or HttpRequest(self.scope, _never)
        request.content = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        response = await self._agents.respond(request)
        self.owner = request.owner
        return response

    def _may_send(self) -> bool:
        """Return whether to read the body. Otherwise the response to the request without it says
        what is wrong."""
        if not self._is_known:
            self._request = HttpRequest(self.scope, _never)
            self._is_known = self._agents.may_send(self._request)
        return self._is_known

    def _send(self, status: int, headers: Headers, body: bytes) -> None:
        """Send the whole response with one write."""
        connection = self._connection
        if self.disconnected or connection.transport.is_closing():
            return
        head = self._head(status, headers)
        connection.transport.write_now(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body))

    async def _stream(
        self, status: int, headers: Headers, pieces: AsyncGenerator[bytes, None]
    ) -> bool:
        """Send the body piece by piece, as fast as the client reads. Returns whether all of it was
        sent."""
        transport, flow = self._connection.transport, self._connection.flow
        try:
            transport.write(self._head(status, (*headers, CHUNKED)) + b"\r\n")
            async for piece in pieces:
                if flow.write_paused and not self.disconnected:
                    await flow.drain()
                if self.disconnected:
                    return False
                transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                if transport.is_closing():
                    return False
            transport.write(b"0\r\n\r\n")
        finally:
            await pieces.aclose()  # so that the generator can clean up when its end was not reached
        return True

    def _head(self, status: int, headers: Headers) -> bytes:
        """Return the status line and headers, without the empty line that ends them."""
        if not self.keep_alive:
            headers = (*(pair for pair in headers if pair[0] != CLOSE[0]), CLOSE)
        return _encode_head(status, (*headers, *self._connection.server_state.default_headers))


async def _never() -> dict[str, Any]:
    raise AssertionError("the body has arrived, and the connection shows when it is lost")


@lru_cache(maxsize=256)
def _encode_head(status: int, headers: Headers) -> bytes:
    return b"".join(
        [b"HTTP/1.1 %d %b\r\n" % (status, HTTPStatus(status).phrase.encode()), *map(_line, headers)]
    )


def _line(header: tuple[bytes, bytes]) -> bytes:
    name, value = header
    if b"\r" in value or b"\n" in value:
        raise ValueError(f"The value of the header {name.decode('latin-1')} contains a line break")
    return b"%b: %b\r\n" % (name, value)
