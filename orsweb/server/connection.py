"""Connections: uvicorn's HTTP/1.1 protocol with a bounded header, answers in JSON, and a short way for agents.

uvicorn's httptools protocol bounds no header (200 MB were accepted) and answers malformed HTTP in plain text; the
subclass here bounds what it buffers and answers both in JSON. Requests of agents it gives to an Exchange.

Divergence from the references: URL and headers together have a limit (431); there they have none.
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

from environments.protocol.request import CONNECTION
from orsweb.server.exchange import Agents, Exchange

LINGER_SECONDS = 2.0
"""A refused client may go on sending for this long, so that it gets to read the answer instead of a reset."""
ENDLESS_PAGES = re.compile(rb"/events/|/api/episodes/\d+/events")
"""Event streams of pages, which end only when somebody ends them."""
AGENTS_METHODS = (b"POST", b"GET")


class JoinedTransport:
    """A transport that sends what is written in one turn of the loop at once.

    uvicorn writes a response's head and body apart, and uvloop sends each write by itself: two system calls, two
    packets and two wake-ups of the client where one does.
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
        """What is a whole answer need not wait for more."""
        self._transport.write(self._pending + data)
        self._pending = b""

    def _flush(self) -> None:
        if self._pending:
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
    """HTTP/1.1 whose header, URL and trailer are at most ORSWEB_MAX_HEADER_BYTES long.

    Bytes that the parser has taken without reporting a complete header or a piece of a body are bytes that it buffers:
    `_withheld` counts them, so memory stays below the limit and one read of the socket (256 KB), whatever is sent.
    """

    # uvicorn's own 30 attributes are as many as CPython 3.11 reads fast from a __dict__: more cost 1.4 µs a request.
    __slots__ = (
        "_agents",
        "_extensions",
        "_is_refused",
        "_is_too_long",
        "_limit",
        "_progressed",
        "_received",
        "_withheld",
    )

    def __init__(self, *args: Any, agents: Agents, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._agents = agents
        self._limit: int = settings.ORSWEB_MAX_HEADER_BYTES
        self._withheld = 0
        self._received = 0
        self._progressed = False
        self._is_too_long = False
        self._is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(JoinedTransport(transport, self.loop))  # type: ignore[arg-type]
        self._extensions = {CONNECTION: {"is_closed": transport.is_closing}}

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._received = self._withheld + len(data)
        self._progressed = False
        super().data_received(data)
        if self._progressed:
            self._withheld = 0
        elif self._received > self._limit and not self._is_refused:
            self._refuse_header()
        else:
            self._withheld = self._received

    def on_headers_complete(self) -> None:
        self._progressed = True
        # No header that ends in this read is longer than what was received; most are far below the limit.
        if self._received > self._limit and self._header_bytes() > self._limit:
            self._is_too_long = True
            raise ValueError("header too long")  # ends the parsing; httptools turns it into its own error
        self.scope["extensions"] = self._extensions  # type: ignore[typeddict-item]
        method = self.parser.get_method()
        if not (method in AGENTS_METHODS and self._is_ordinary() and self._open_exchange(method.decode("ascii"))):
            super().on_headers_complete()

    def _is_ordinary(self) -> bool:
        """Whether the request asks for nothing but an answer, and none is being given on this connection."""
        is_free = self.cycle is None or self.cycle.response_complete
        parser = self.parser
        return (
            is_free
            and not self.expect_100_continue
            and parser.get_http_version() == "1.1"
            and not parser.should_upgrade()
        )

    def _open_exchange(self, method: str) -> bool:
        """Whether the request is an agent's. Raises: httptools.HttpParserInvalidURLError."""
        url = httptools.parse_url(self.url)
        path = url.path.decode("ascii")
        path = unquote(path) if "%" in path else path
        if not self._agents.serves(method, path):
            return False
        scope: Any = self.scope
        scope.update(method=method, path=path, raw_path=url.path, query_string=url.query or b"")
        exchange = Exchange(self, self._agents, scope, keep_alive=self.parser.should_keep_alive())
        self.cycle = exchange  # type: ignore[assignment]  # has what is asked of one
        length = next((value for name, value in self.headers if name == b"content-length"), b"0")
        if not exchange.expect(length.decode("latin-1")):
            self._begin(exchange)
        return True

    def on_body(self, body: bytes) -> None:
        self._progressed = True
        exchange = self.cycle
        if not isinstance(exchange, Exchange):
            super().on_body(body)
        elif not exchange.has_begun and not exchange.take(body):
            self._begin(exchange)

    def on_message_complete(self) -> None:
        exchange = self.cycle
        if not isinstance(exchange, Exchange):
            super().on_message_complete()
        elif not exchange.has_begun:
            self._begin(exchange)

    def _begin(self, exchange: Exchange) -> None:
        exchange.has_begun = True
        self._start_asgi_task(exchange, self.app)  # type: ignore[arg-type]  # as above

    def send_400_response(self, msg: str) -> None:
        """The answer to what the parser refuses."""
        if self._is_too_long:
            self._refuse_header()
        else:
            self._refuse(HTTPStatus.BAD_REQUEST, msg)

    def shutdown(self) -> None:
        if self.cycle is not None and ENDLESS_PAGES.match(self.scope["raw_path"]):
            self.transport.close()
        else:
            super().shutdown()

    def _header_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _refuse_header(self) -> None:
        text = f"Request header is over {self._limit} bytes, the most that ORSWEB_MAX_HEADER_BYTES allows"
        self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text)

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        self._is_refused = True
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.close()  # an earlier, pipelined request is being answered: no room for a second answer
            return
        body = json.dumps({"detail": detail}).encode()
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)
