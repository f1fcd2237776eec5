"""uvicorn's HTTP/1.1 protocol with limits for clients, errors in JSON, and a direct route for
agents.

uvicorn's httptools protocol does not limit headers (it accepted 200 MB), answers malformed HTTP in
plain text or not at all, and logs a line for each such request. The subclass here limits what it
buffers, answers these errors in JSON and notes them in the security log, which counts repeats. It
passes requests of agents to an Exchange.

Divergence from the references: URL and headers together are limited (431), and so is the number of
connections of an address (429). Requests have to be HTTP/1.0 or 1.1 (505) with one Host (400) and
no transfer coding but chunked (501).
"""

from __future__ import annotations

import asyncio
import json
import re
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

import httptools
from django.conf import settings
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from environments import security_log
from environments.agents.http.handler import ProtocolHandler
from environments.agents.http.request import CONNECTION
from orsweb.server.client_limits import AddressLimit, Waiting
from orsweb.server.exchange import Exchange
from orsweb.server.path_prefix import inner_path

LINGER_SECONDS = 2.0
"""Time for which a refused client may go on sending, so that it can read the response before the
connection closes."""
UNUSED_SECONDS = 1.0
"""Time for which a server that stops waits for the first request of a connection, which may be
under way."""
MAX_REFUSED = 32
"""Connections beyond the limit that get an answer; further ones are closed at once."""
ENDLESS_STREAMS = re.compile(r"/events/|/api/episodes/\d+/events|/mcp/")
"""Paths whose responses to GET are event streams that do not end by themselves."""
AGENT_METHODS = (b"POST", b"GET")
HTTP_VERSIONS = ("1.0", "1.1")
MAX_QUOTED = 100
UNREAD_VERSION = "0.0"
"""What the parser reports before it has read a version."""


class JoinedTransport:
    """A transport that sends everything written in one iteration of the event loop together.

    uvicorn writes the head and the body of a response separately, and uvloop sends each write by
    itself: two system calls, two packets and two wake-ups of the client, where one is enough.
    """

    __slots__ = ("_loop", "_pending", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._pending = b""

    def write(self, data: bytes) -> None:
        if self._pending:
            self._transport.write(self._pending + data)
            self._pending = b""
        else:
            self._pending = data
            self._loop.call_soon(self._flush)

    def write_now(self, data: bytes) -> None:
        """Send at once; for a complete response, which need not wait for further writes."""
        self._transport.write(self._pending + data)
        self._pending = b""

    def _flush(self) -> None:
        if self._pending and not self._transport.is_closing():  # the client may have gone since
            self._transport.write(self._pending)
        self._pending = b""

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def write_eof(self) -> None:
        self._flush()
        self._transport.write_eof()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class BoundedHttpProtocol(HttpToolsProtocol):
    """HTTP/1.1 with URL, headers and trailers limited to ORSWEB_MAX_HEADER_BYTES.

    The parser buffers the bytes for which it has not yet reported complete headers or a piece of a
    body. `_withheld` counts them, so the memory stays below the limit plus one read of the socket
    (256 KB), whatever the client sends.
    """

    # CPython 3.11 reads up to 30 attributes fast from a __dict__, which uvicorn's own fill: more
    # cost 1.4 µs a request.
    __slots__ = (
        "_addresses",
        "_agents",
        "_body_bytes",
        "_extensions",
        "_header_problem",
        "_is_counted",
        "_is_refused",
        "_last_answer",
        "_limit",
        "_progressed",
        "_received",
        "_withheld",
    )

    def __init__(
        self, *args: Any, agents: ProtocolHandler, addresses: AddressLimit, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._agents, self._addresses = agents, addresses
        self._is_counted = False
        self._body_bytes = 0  # of the request that uvicorn's own cycle receives
        self._limit: int = settings.ORSWEB_MAX_HEADER_BYTES
        self._withheld = 0
        self._received = 0
        self._progressed = False
        self._header_problem: tuple[HTTPStatus, str] | None = None
        self._is_refused = False
        self._last_answer = b""  # to what cannot be read, while earlier requests are being answered
        self._is_stopping = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(JoinedTransport(transport, self.loop))  # type: ignore[arg-type]
        self._extensions = {CONNECTION: {"is_closed": transport.is_closing}}
        self._is_counted = True
        excess = self._addresses.add(self._address)
        if excess > MAX_REFUSED:
            self._is_refused = True
            self.abort()
        elif excess:
            self._refuse(HTTPStatus.TOO_MANY_REQUESTS, self._addresses.refusal(self._address))

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    def connection_lost(self, exc: Exception | None) -> None:
        self._release()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        self._release()  # the connection of a player, who has logged in, is another object
        super().handle_websocket_upgrade()

    def _release(self) -> None:
        if self._is_counted:
            self._is_counted = False
            self._addresses.release(self._address)

    def waiting(self) -> Waiting | None:
        """Return what the client has to do next; None while it waits for this server."""
        cycle, scope = self.cycle, self.scope
        if unread := self.transport.get_write_buffer_size():
            return Waiting(self, unread_bytes=unread)
        if cycle is None or (cycle.response_complete and cycle.scope is not scope):
            return Waiting(scope)  # the rest of a header
        if cycle.scope is not scope or self.timeout_keep_alive_task is not None:
            return None  # a request behind another one that is being answered, or none at all
        if cycle.response_complete:
            return Waiting(scope)  # the rest of a body that was refused
        if isinstance(cycle, Exchange):
            return None if cycle.has_started else Waiting(scope, cycle.size)
        if cycle.more_body and not self.flow.read_paused:
            return Waiting(scope, self._body_bytes)
        return None

    def abort(self) -> None:
        """Close the connection without waiting for the client to read what was written."""
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived. Replaces uvicorn's method, which logs a line for each malformed
        request."""
        if self._is_refused:
            return
        self._received = self._withheld + len(data)
        self._progressed = False
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():  # otherwise the request is answered as an ordinary one
                self.handle_websocket_upgrade()
        except httptools.HttpParserError as error:
            self._refuse(*(self._header_problem or self._parser_problem(error)))
        if self._progressed:
            self._withheld = 0
        elif self._received > self._limit and not self._is_refused:
            self._refuse(*self._too_long())
        else:
            self._withheld = self._received

    def on_headers_complete(self) -> None:
        self._progressed = True
        self._header_problem = self._problem_of_header()
        if self._header_problem is not None:
            # stops the parser; httptools converts it to its own error
            raise ValueError(self._header_problem[1])
        self.scope["extensions"] = self._extensions  # type: ignore[typeddict-item]
        method = self.parser.get_method()
        if not (
            method in AGENT_METHODS
            and self._is_ordinary()
            and self._open_exchange(method.decode("ascii"))
        ):
            self._body_bytes = 0
            super().on_headers_complete()
            if self._is_stopping and self.cycle is not None:
                self.cycle.keep_alive = False

    def _problem_of_header(self) -> tuple[HTTPStatus, str] | None:
        """Return the status and the sentence that refuse a request whose header has arrived; None
        if it is right."""
        # headers cannot be longer than what was received, so they are only measured above the limit
        if self._received > self._limit:
            sizes = [len(name) + len(value) + 4 for name, value in self.headers]
            if len(self.url) + sum(sizes) > self._limit:
                return self._too_long()
        version = self.parser.get_http_version()
        if version not in HTTP_VERSIONS:
            return _unknown_version(version)
        names = [name for name, _ in self.headers]
        hosts = names.count(b"host")
        if hosts > 1 or (hosts == 0 and version == "1.1"):
            return HTTPStatus.BAD_REQUEST, f"The request has {hosts} Host headers; send exactly one"
        if b"transfer-encoding" in names:
            values = [value for name, value in self.headers if name == b"transfer-encoding"]
            coding = b", ".join(values).decode("latin-1").strip()
            if coding.lower() != "chunked":
                text = (
                    f"The transfer coding {coding[:MAX_QUOTED]!r} is not supported; use chunked or "
                    "Content-Length"
                )
                return HTTPStatus.NOT_IMPLEMENTED, text
        return None

    def _parser_problem(self, error: httptools.HttpParserError) -> tuple[HTTPStatus, str]:
        """Return the status and the sentence for a request that the parser refuses."""
        version = self.parser.get_http_version()
        if version not in (*HTTP_VERSIONS, UNREAD_VERSION):
            return _unknown_version(version)
        if isinstance(error, httptools.HttpParserCallbackError):  # from httptools.parse_url
            return HTTPStatus.BAD_REQUEST, "The address in the request line cannot be read"
        return HTTPStatus.BAD_REQUEST, f"The request is not valid HTTP: {error}"

    def _is_ordinary(self) -> bool:
        """Return whether the request is plain HTTP/1.1 and no other request is being answered on
        this connection."""
        is_free = self.cycle is None or self.cycle.response_complete
        parser = self.parser
        return (
            is_free
            and not self.expect_100_continue
            and parser.get_http_version() == "1.1"
            and not parser.should_upgrade()
        )

    def _open_exchange(self, method: str) -> bool:
        """Open an Exchange if the request is an agent's; return whether it is.

        Raises: httptools.HttpParserInvalidURLError.
        """
        url = httptools.parse_url(self.url)
        path = url.path.decode("ascii")
        path = inner_path(unquote(path) if "%" in path else path, self._agents.path_prefix)
        if not self._agents.serves(method, path, self.headers):
            return False
        scope: Any = self.scope
        scope.update(method=method, path=path, raw_path=url.path, query_string=url.query or b"")
        exchange = Exchange(
            self,
            self._agents,
            scope,
            keep_alive=self.parser.should_keep_alive() and not self._is_stopping,
        )
        self.cycle = exchange  # type: ignore[assignment]  # has the members that are used of one
        length = dict(self.headers).get(b"content-length", b"0")
        if not exchange.expect(length.decode("latin-1")):
            self._start(exchange)
        return True

    def on_body(self, body: bytes) -> None:
        self._progressed = True
        exchange = self.cycle
        if not isinstance(exchange, Exchange):
            self._body_bytes += len(body)
            super().on_body(body)
        elif not exchange.has_started and not exchange.take(body):
            self._start(exchange)

    def on_message_complete(self) -> None:
        cycle = self.cycle
        if not isinstance(cycle, Exchange):
            super().on_message_complete()
        elif not cycle.has_started:
            self._start(cycle)
        if cycle is not None:
            cycle.more_body = False

    def _start(self, exchange: Exchange) -> None:
        exchange.has_started = True
        self._start_asgi_task(exchange, self.app)  # type: ignore[arg-type]  # an Exchange replaces the cycle

    def shutdown(self) -> None:
        """Close the connection after the response to its request, or after its first request if it
        has had none."""
        scope = self.scope
        if self.cycle is None and not self._is_refused:
            self._is_stopping = True
            self.loop.call_later(UNUSED_SECONDS, self._close_unused)
        elif (
            self.cycle is not None
            and scope["method"] == "GET"
            and ENDLESS_STREAMS.match(inner_path(scope["path"], self._agents.path_prefix))
        ):
            self.transport.close()
        else:
            super().shutdown()

    def _close_unused(self) -> None:
        if self.cycle is None:
            self.transport.close()

    def _too_long(self) -> tuple[HTTPStatus, str]:
        text = (
            f"The request header has more than {self._limit} bytes, the limit set by "
            "ORSWEB_MAX_HEADER_BYTES"
        )
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        """Read nothing more from the client, answer when earlier requests have been answered, and
        close."""
        self._is_refused = True
        security_log.note(
            "request_refused", who="", address=self._address, detail=f"{status.value} {detail}"
        )
        body = json.dumps({"detail": detail}).encode()
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self._last_answer = head.encode() + body
        cycle = self.cycle
        if cycle is None or not cycle.more_body:  # what is refused begins a request
            if cycle is None or cycle.response_complete:
                self._answer_last()
        elif cycle.response_complete:  # the rest of a body that is not needed
            self.transport.close()
        elif cycle.response_started:
            self._last_answer, cycle.keep_alive = b"", False
        else:
            cycle.disconnected = True
            cycle.message_event.set()
            if self.pipeline and self.pipeline[0][0] is cycle:  # others are answered before it
                self.pipeline.popleft()
            else:
                self._answer_last()

    def on_response_complete(self) -> None:
        if self._last_answer and not self.pipeline:
            self._answer_last()
        else:
            super().on_response_complete()

    def _answer_last(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(self._last_answer)
            self.transport.write_eof()
            self.loop.call_later(LINGER_SECONDS, self.transport.close)


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's websocket protocol, which answers every handshake. BoundedHttpProtocol has read its
    request.

    uvicorn's own keeps a connection open without a word if `websockets` cannot read the handshake:
    a body, a line of more than 8 KB, more than 128 headers. That connection would be in none of the
    limits of `client_limits.py`.
    """

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        problem = self.conn.handshake_exc
        if problem is None or self.handshake_initiated or self.transport.is_closing():
            return
        detail = f"The request for a websocket is not valid: {problem.__cause__ or problem}"
        address = self.client[0] if self.client else ""
        security_log.note("request_refused", who="", address=address, detail=f"400 {detail}")
        response = self.conn.reject(400, json.dumps({"detail": detail}))
        response.headers["Content-Type"] = "application/json"
        self.transport.write(response.serialize())
        self.transport.close()


def _unknown_version(version: str) -> tuple[HTTPStatus, str]:
    return HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, f"HTTP/{version} is not supported; use HTTP/1.1"
