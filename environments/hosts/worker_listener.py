"""Takes the connections of worker processes on other machines."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Iterator
from typing import cast

import structlog

from environments.hosts.node_launcher import notice_loss
from environments.hosts.worker_messages import MessagePipe

log = structlog.get_logger(__name__)

HEADER_SECONDS = 10.0
MAX_HEADER_BYTES = 200


class WorkerConnections:
    """The two connections of one process on another machine: for messages, and for its output.

    Keep this object as long as the process: connections are closed with the last reference to their
    writers.
    """

    def __init__(self, pipe: MessagePipe) -> None:
        self._pipe = pipe
        self.token = secrets.token_urlsafe(32)
        self.messages: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when messages can be sent."""
        self.output: asyncio.Future[asyncio.StreamReader] = (
            asyncio.get_running_loop().create_future()
        )
        self._writers: list[asyncio.StreamWriter] = []

    def take(
        self, purpose: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Use a connection for its purpose, or return False if nobody waits for it."""
        if purpose == "output" and not self.output.done():
            self.output.set_result(reader)
        elif purpose == "messages" and not self.messages.done():
            transport = cast(asyncio.Transport, writer.transport)
            transport.set_protocol(self._pipe)
            self._pipe.connection_made(transport)
            self.messages.set_result(None)
        else:
            return False
        self._writers.append(writer)
        return True

    def close(self) -> None:
        """Close both connections."""
        for writer in self._writers:
            writer.close()


class WorkerListener:
    """A port of this machine that lets in only processes that are expected. Used on one event
    loop."""

    def __init__(self) -> None:
        self._connections: dict[str, WorkerConnections] = {}
        self._server: asyncio.Server | None = None

    async def open(self, address: str) -> tuple[str, int]:
        """Listen at an address of this machine. Return it with the port. Raises: OSError."""
        if self._server is None:
            self._server = await asyncio.start_server(
                self._meet, address, 0, limit=MAX_HEADER_BYTES
            )
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    @contextlib.contextmanager
    def expecting(self, pipe: MessagePipe) -> Iterator[WorkerConnections]:
        """Let one process in while the block runs, and connect it to `pipe`."""
        connections = WorkerConnections(pipe)
        self._connections[connections.token] = connections
        try:
            yield connections
        finally:
            del self._connections[connections.token]

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hand a connection to the process that expects it, or close it."""
        try:
            async with asyncio.timeout(HEADER_SECONDS):
                header = await reader.readline()
            purpose, _, token = header.decode("ascii").strip().partition(" ")
        # ValueError: a longer line, or one that is not ASCII
        except (TimeoutError, ValueError, OSError):
            purpose = token = ""  # nosec B105 # nobody expects it
        connections = self._connections.get(token)
        if connections is None or not connections.take(purpose, reader, writer):
            log.warning(
                "refused a connection to the port of worker processes",
                of=writer.get_extra_info("peername"),
            )
            writer.close()
            return
        notice_loss(writer.get_extra_info("socket"))

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
