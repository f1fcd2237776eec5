"""The uvicorn server as `manage.py serve` runs it: one process, connections of our own, a stop that comes to an end."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from django.conf import settings

from environments.service import service_or_none
from orsweb.server.connection import BoundedHttpProtocol
from orsweb.server.exchange import Agents

KEEP_ALIVE_SECONDS = 60
RESPONSES_SHARE = 2 / 3
"""Part of ORSWEB_SHUTDOWN_TIMEOUT in which running responses may end; `lifespan.DRAIN_SHARE` follows it."""
EXIT_SECONDS = 1.0
"""After the drain, threads that an author's code left hanging may hold up the exit for this long."""

log = logging.getLogger("uvicorn.error")


class StartFailed(Exception):
    """The server could not start; the cause is what the lifespan raised."""


class UvicornServer(uvicorn.Server):
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


def run(application: Any, agents: Agents, listeners: list[socket.socket], on_ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, then end the process with status 0. Raises: StartFailed."""
    raise_file_limit()
    config = uvicorn.Config(
        application,
        http=partial(BoundedHttpProtocol, agents=agents),  # type: ignore[arg-type]  # called as a class is
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        ws_per_message_deflate=False,  # takes longer than all else on the loop that a player's turn needs
        ws_max_size=settings.ORSWEB_MAX_BODY_BYTES,  # a longer message ends its socket, before it is read to its end
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=settings.ORSWEB_SHUTDOWN_TIMEOUT * RESPONSES_SHARE,  # type: ignore[arg-type]  # awaited as float
    )
    # uvicorn raises the signals again that it has handled, which would end the process with their status.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _exit_quietly)
    UvicornServer(config, on_ready).run(listeners)


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
    if (service := service_or_none()) is not None:
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
