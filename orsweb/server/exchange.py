"""Exchange: one request of an agent and its answer on a connection of uvicorn's, without ASGI messages in between.

uvicorn makes of every request a scope, an event, two receives and two sends, which cost more than the rest of a tool
call. An Exchange stands in the place of its RequestResponseCycle: it has the members that HttpToolsProtocol (0.54)
asks of one, takes the body as it comes and writes the whole answer at once. Driven by `connection.py`, which leaves to
uvicorn what is out of the ordinary: pages, websockets, HTTP/1.0, `Expect`, pipelined requests, other methods.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Protocol

import structlog

from environments.protocol.handler import too_large
from environments.protocol.request import HttpRequest
from environments.protocol.response import Headers, Response

log = structlog.get_logger(__name__)

CLOSE = (b"connection", b"close")
CHUNKED = (b"transfer-encoding", b"chunked")


@dataclass(frozen=True)
class Agents:
    """What is an agent's request, and how it is answered."""

    serves: Callable[[str, str], bool]
    """Whether a method and a path are."""
    respond: Callable[[HttpRequest], Awaitable[Response]]
    """To a request whose body is there."""
    refuse_host: Callable[[HttpRequest], Response | None]
    """The answer to one whose `Host` is not allowed, for which its body need not be there."""
    most_body_bytes: int


class Connection(Protocol):
    """What an Exchange uses of its connection."""

    transport: Any
    flow: Any
    server_state: Any

    def on_response_complete(self) -> None: ...


class Unheard:
    """Stands where uvicorn expects an event; nobody waits for it."""

    def set(self) -> None:
        pass


class Exchange:
    """See the module. `begin` when the body is there; `run_asgi` is what uvicorn calls to run it."""

    __slots__ = (
        "_agents",
        "_body",
        "_connection",
        "_scope",
        "_size",
        "body",
        "disconnected",
        "has_begun",
        "keep_alive",
        "more_body",
        "response_complete",
    )
    message_event = Unheard()

    def __init__(self, connection: Connection, agents: Agents, scope: dict[str, Any], *, keep_alive: bool) -> None:
        self._connection, self._agents, self._scope = connection, agents, scope
        self._body: list[bytes] = []
        self._size = 0
        self.body, self.more_body = b"", True
        self.keep_alive = keep_alive
        self.disconnected = self.response_complete = self.has_begun = False

    def take(self, piece: bytes) -> bool:
        """A piece of the body. Whether there is room for more: when not, begin."""
        self._size += len(piece)
        # Most bodies come in one piece; of others from a foreign host no more is kept than that.
        if self.is_too_large or (len(self._body) == 1 and self._refuse_host() is not None):
            self._body.clear()
            return False
        self._body.append(piece)
        return True

    @property
    def is_too_large(self) -> bool:
        return self._size > self._agents.most_body_bytes

    def expect(self, length: str) -> bool:
        """Whether there is room for a body of this Content-Length: when not, begin."""
        if length.isdecimal() and int(length) > self._agents.most_body_bytes:
            self._size = int(length)
        return not self.is_too_large

    async def run_asgi(self, app: object) -> None:
        """Answer. `app` is uvicorn's and not used."""
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
            log.exception("an answer was not sent")
            return
        self._complete()

    async def _response(self) -> Response:
        if self.is_too_large:
            return self._refuse_host() or too_large(str(self._size), self._agents.most_body_bytes)
        request = HttpRequest(self._scope, _never)
        request.content = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        return await self._agents.respond(request)

    def _refuse_host(self) -> Response | None:
        return self._agents.refuse_host(HttpRequest(self._scope, _never))

    def _send(self, status: int, headers: Headers, body: bytes) -> None:
        """All of it by one write."""
        connection = self._connection
        if self.disconnected or connection.transport.is_closing():
            return
        head = self._head(status, headers)
        connection.transport.write_now(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body))

    async def _stream(self, status: int, headers: Headers, pieces: AsyncGenerator[bytes, None]) -> bool:
        """Piece by piece, as fast as the client reads. Whether all of it was sent."""
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
            await pieces.aclose()  # so that it can tell whether its end was reached
        return True

    def _head(self, status: int, headers: Headers) -> bytes:
        """Status line and headers, without the empty line."""
        if not self.keep_alive:
            headers = (*(pair for pair in headers if pair[0] != CLOSE[0]), CLOSE)
        return b"".join([_encoded(status, headers), *map(_line, self._connection.server_state.default_headers)])

    def _complete(self) -> None:
        self.response_complete = True
        if not self.keep_alive:
            self._connection.transport.close()
        self._connection.on_response_complete()


async def _never() -> dict[str, Any]:
    raise AssertionError("the body is there, and the connection tells when it is lost")


@lru_cache(maxsize=256)
def _encoded(status: int, headers: Headers) -> bytes:
    return b"".join([b"HTTP/1.1 %d %b\r\n" % (status, HTTPStatus(status).phrase.encode()), *map(_line, headers)])


def _line(header: tuple[bytes, bytes]) -> bytes:
    name, value = header
    if b"\r" in value or b"\n" in value:
        raise ValueError(f"A line's end in the value of the header {name.decode('latin-1')}")
    return b"%b: %b\r\n" % (name, value)
