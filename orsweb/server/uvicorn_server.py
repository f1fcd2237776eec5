"""uvicorn as `manage.py serve` runs it: one process, our own connection class, and a shutdown that
ends in time."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from django.conf import settings

from environments.agents.http.handler import ProtocolHandler
from environments.errors import BrokenOff
from environments.keys.keyring import ring
from environments.runtime.service import SessionService
from environments.service import get_record, service_or_none, store_reports
from orsweb.server.client_limits import AddressLimit, Deadlines
from orsweb.server.connection import BoundedHttpProtocol, WebSocketProtocol
from orsweb.server.heartbeat import Heartbeat
from orsweb.server.paced_listener import PacedListener
from orsweb.server.responses_of_revoked_keys import RevokedKeys
from orsweb.server.succession import RELOAD

KEEP_ALIVE_SECONDS = 60
CALLS_SHARE = 7 / 12
"""Share of ORSWEB_SHUTDOWN_TIMEOUT in which running calls may end, while the server answers other
requests."""
RESPONSES_SHARE = 1 / 6
"""Share in which further responses may end after that; `lifespan.DRAIN_SHARE` follows it."""
HAND_OVER_SECONDS = 0.5
"""Time in which running calls may end before the next server takes over, which repeats those that
don't: requests that come meanwhile are refused, and `ors-sdk` gives most of them up after 3 s."""
TICKS_A_SECOND = 10
"""uvicorn's ticks by which it counts seconds."""
FORCE_CHECK_SECONDS = 0.1
"""Time between two checks whether Ctrl-C was repeated while calls end."""
UNRECORDED_STATUS = 1
"""Exit status of a server that could not record calls that were played. The supervisor ends with 1,
too."""
MAX_EXIT_SECONDS = 1.0
"""Time after the drain for which hung threads of an author's code may delay the exit."""

log = logging.getLogger("uvicorn.error")


class StartFailed(Exception):
    """The server could not start; `__cause__` is the exception of the lifespan."""


class UvicornServer(uvicorn.Server):
    """uvicorn's server, which tells its supervisor that it lives and when it stops."""

    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[], None], heartbeat: Heartbeat
    ) -> None:
        super().__init__(config)
        self._on_ready, self._heartbeat = on_ready, heartbeat
        self._deadlines: asyncio.Task[None] | None = None  # kept, or it could be collected
        self._handing_over: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._exiting = asyncio.Event()
        self.exit_status = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the server. Raises: StartFailed."""
        self._loop = asyncio.get_running_loop()
        log.disabled = True  # uvicorn logs a failure; `serve` prints it as one sentence instead
        try:
            await super().startup([])
        except SystemExit as error:
            raise StartFailed from self.lifespan.state.pop("failure", error)
        finally:
            log.disabled = False
        connection: Any = self.config.http_protocol_class
        protocol = partial(
            connection,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        self.servers = [PacedListener(listener, protocol) for listener in sockets or []]  # type: ignore[misc]  # like one
        # Loaded objects stay for good: the collector need not scan them again.
        gc.collect()
        gc.freeze()
        log.addFilter(_is_not_broken_off)
        self._heartbeat.start(store_reports)
        if not self.should_exit:
            self._loop.add_signal_handler(RELOAD, self._begin_to_hand_over)
            deadlines = Deadlines(self.server_state.connections, settings.ORSWEB_CLIENT_TIMEOUT)
            self._deadlines = asyncio.create_task(deadlines.run())
            ring.listen(RevokedKeys(self.server_state.connections).note)
            self._on_ready()

    async def main_loop(self) -> None:
        """Tick once a second, and when the server is asked to exit. uvicorn ticks ten times as
        often, which is most of what a server does at rest."""
        tick = 0
        while not await self.on_tick(tick):
            tick += TICKS_A_SECOND
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._exiting.wait(), 1.0)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log.addFilter(_is_not_cancellation)
        if (service := service_or_none()) is None:
            await super().shutdown(sockets)
        else:
            await self._settle(service)
            draining = asyncio.create_task(
                service.drain(settings.ORSWEB_SHUTDOWN_TIMEOUT * RESPONSES_SHARE / 2)
            )
            await super().shutdown(sockets)
            draining.cancel()
        # calls that were played but not recorded: the database was away, or Ctrl-C was repeated
        if service_or_none() is None:
            has_unrecorded = bool(self.lifespan.state.get("has_unrecorded"))
        else:
            has_unrecorded = bool(get_record().load(0).queued)
        self.exit_status = UNRECORDED_STATUS if has_unrecorded else 0
        # whatever its threads do, the process ends after a moment
        timer = threading.Timer(MAX_EXIT_SECONDS, os._exit, [self.exit_status])
        timer.daemon = True
        timer.start()

    async def _settle(self, service: SessionService) -> None:
        """Let running calls end, unless the signal is repeated. Clients go on being answered, above
        all their pings: ors-sdk 0.1.0 gives its calls up 13 s after a ping was not answered.
        """
        limit = settings.ORSWEB_SHUTDOWN_TIMEOUT * CALLS_SHARE
        seconds = limit if self._handing_over is None else min(limit, HAND_OVER_SECONDS)
        settling = asyncio.create_task(service.settle(seconds))
        while not settling.done() and not self.force_exit:
            await asyncio.wait([settling], timeout=FORCE_CHECK_SECONDS)
        settling.cancel()

    def _begin_to_hand_over(self) -> None:
        if self._handing_over is None:
            self._handing_over = asyncio.create_task(self._hand_over())

    async def _hand_over(self) -> None:
        """Serve on until the next server can go on with every session, for a limited time, then
        stop."""
        if (service := service_or_none()) is not None:
            await service.until_survivors(settings.ORSWEB_RELOAD_WAIT)
        self._heartbeat.stop()
        self.should_exit = True
        self._exiting.set()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._heartbeat.stop()
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._exiting.set)


def run(
    application: Any,
    agents: ProtocolHandler,
    listeners: list[socket.socket],
    on_ready: Callable[[], None],
    heartbeat: Heartbeat | None = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C, then end the process: with status 0, or UNRECORDED_STATUS.
    Raises: StartFailed.

    `heartbeat`: how the server tells its supervisor that it lives.
    """
    addresses = AddressLimit(settings.ORSWEB_MAX_CONNECTIONS_PER_ADDRESS, raise_file_limit())
    config = uvicorn.Config(
        application,
        http=partial(BoundedHttpProtocol, agents=agents, addresses=addresses),  # type: ignore[arg-type]  # called like a class
        ws=WebSocketProtocol,
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        # it takes longer than everything else that a player's turn needs on the loop
        ws_per_message_deflate=False,
        # a longer message closes its socket before it is read completely
        ws_max_size=settings.ORSWEB_MAX_BODY_BYTES,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=settings.ORSWEB_SHUTDOWN_TIMEOUT * RESPONSES_SHARE,  # type: ignore[arg-type]  # awaited as float
    )
    heartbeat = heartbeat or Heartbeat()
    server = UvicornServer(config, on_ready, heartbeat)

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(server.exit_status)

    # uvicorn raises the signals that it has handled again, which would end the process with their
    # status.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    try:
        server.run(listeners)
    finally:
        heartbeat.end()
    raise SystemExit(server.exit_status)


def raise_file_limit() -> int:
    """Raise the limit of file descriptors, often 1,024, because connections and threads with loops
    need many.

    Return the new limit.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return sys.maxsize if hard == resource.RLIM_INFINITY else hard


def _is_not_broken_off(record: logging.LogRecord) -> bool:
    """Return False for uvicorn's log entry, with a traceback, about a response that was broken off
    on purpose."""
    return not (record.exc_info and isinstance(record.exc_info[1], BrokenOff))


def _is_not_cancellation(record: logging.LogRecord) -> bool:
    """Return False for uvicorn's log entry, with a traceback, about a response that it cancelled at
    its time limit."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))
