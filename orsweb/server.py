"""The uvicorn server as `manage.py serve` runs it: one process, a bounded request header, a stop that comes to an end.

uvicorn's httptools protocol bounds no header (200 MB were accepted) and answers malformed HTTP in plain text; the
subclass here bounds what it buffers and answers both in JSON.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import re
import resource
import signal
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from types import FrameType
from typing import Any

import uvicorn
from django.conf import settings
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from environments import wiring
from environments.protocol.request import CONNECTION

KEEP_ALIVE_SECONDS = 60
RESPONSES_SHARE = 2 / 3
"""Part of ORSWEB_SHUTDOWN_TIMEOUT in which running responses may end; `lifespan.DRAIN_SHARE` follows it."""
LINGER_SECONDS = 2.0
"""A refused client may go on sending for this long, so that it gets to read the answer instead of a reset."""
EXIT_SECONDS = 1.0
"""After the drain, threads that an author's code left hanging may hold up the exit for this long."""
ENDLESS_PAGES = re.compile(rb"/events/|/api/episodes/\d+/events")
"""Event streams of pages, which end only when somebody ends them."""

log = logging.getLogger("uvicorn.error")


class StartFailed(Exception):
    """The server could not start; the cause is what the lifespan raised."""


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
    __slots__ = ("_extensions", "_is_refused", "_is_too_long", "_limit", "_progressed", "_received", "_withheld")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
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
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._progressed = True
        super().on_body(body)

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


class Server(uvicorn.Server):
    """uvicorn, ending within ORSWEB_SHUTDOWN_TIMEOUT of the first signal whatever the hosted code does."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Raises: StartFailed."""
        log.disabled = True  # uvicorn tells a failure in words of its own; `serve` says it in one sentence
        try:
            await super().startup(sockets)
        except SystemExit as error:
            raise StartFailed from self.lifespan.state.pop("failure", error)
        finally:
            log.disabled = False
        # What was loaded stays for good: the collector need not look at it again, nor run after every 700 objects.
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 20, 50)
        if not self.should_exit:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log.addFilter(_is_no_cancellation)
        interrupting = asyncio.create_task(_interrupt_calls())
        await super().shutdown(sockets)
        interrupting.cancel()
        _exit_after(EXIT_SECONDS, status=0)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not self.should_exit:
            _exit_after(settings.ORSWEB_SHUTDOWN_TIMEOUT, status=1)
        super().handle_exit(sig, frame)


def run(application: Any, listeners: list[socket.socket], on_ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, then end the process with status 0. Raises: StartFailed."""
    raise_file_limit()
    config = uvicorn.Config(
        application,
        http=BoundedHttpProtocol,
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        ws_max_size=settings.ORSWEB_MAX_BODY_BYTES,  # a longer message ends its socket, before it is read to its end
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=settings.ORSWEB_SHUTDOWN_TIMEOUT * RESPONSES_SHARE,  # type: ignore[arg-type]  # awaited as float
    )
    # uvicorn raises the signals again that it has handled, which would end the process with their status.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _exit_quietly)
    Server(config, on_ready).run(listeners)


def raise_file_limit() -> None:
    """Connections and threads with loops of their own take file descriptors, of which many systems allow 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def listen(host: str, port: int) -> list[socket.socket]:
    """Bound sockets, one per address of `host`, all on one port; port 0 takes a free one. Raises: OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listeners: list[socket.socket] = []
    for family, _, _, _, address in found:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listeners.append(listener)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address[0], port, *address[2:]))
        port = listener.getsockname()[1]
    return listeners


async def _interrupt_calls() -> None:
    """Halfway through the time for responses begin to end what still runs: clients are told instead of cut off."""
    half_seconds = settings.ORSWEB_SHUTDOWN_TIMEOUT * RESPONSES_SHARE / 2
    await asyncio.sleep(half_seconds)
    if (service := wiring.current()) is not None:
        await service.drain(half_seconds)


def _exit_quietly(sig: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def _exit_after(seconds: float, *, status: int) -> None:
    """End the process then, unless it has ended by itself, whatever its threads do."""
    timer = threading.Timer(seconds, os._exit, [status])
    timer.daemon = True
    timer.start()


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """False for uvicorn's report, with its traceback, that it has cancelled a response at the end of its time."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))
