"""Client limits: the connections of an address, and the time for which a connection may make no
progress.

A client that sends nothing, sends a header or a body byte by byte, or does not read its response
would keep a connection and memory for ever. `Deadlines` checks all connections every second and
ends those. It compares their state with that of the last check, so it costs a request nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from environments import conf

log = structlog.get_logger(__name__)

CHECK_SECONDS = 1.0
CONNECTIONS_AT_ONCE = 50
MIN_BODY_BYTES_PER_SECOND = 500
"""Slowest average rate of a body, after the first `ORSWEB_CLIENT_TIMEOUT` seconds."""
MAX_FILES_OF_ADDRESS = 3 / 4
"""Share of the files that the process may open which the connections of one address may take."""
MAX_FILES = 7 / 8
"""Share that all connections together may take."""


class AddressLimit:
    """Counts the open connections of each address, or network of IPv6, refused ones included.

    An address may have `maximum` of them, and all together leave some of the `files` that this
    process may open for others, such as modules and databases.
    """

    def __init__(self, maximum: int, files: int) -> None:
        self._maximum = max(1, min(maximum, int(files * MAX_FILES_OF_ADDRESS)))
        self._total_maximum = max(1, int(files * MAX_FILES))
        self._is_by_files = self._maximum < maximum
        self._open: Counter[str] = Counter()
        self._total = 0

    def add(self, address: str) -> int:
        """Count a new connection, to be removed with `release`. Return how many there are beyond
        those allowed."""
        name = conf.network_of(address)
        self._open[name] += 1
        self._total += 1
        return max(self._open[name] - self._maximum, self._total - self._total_maximum, 0)

    def release(self, address: str) -> None:
        name = conf.network_of(address)
        self._total -= 1
        self._open[name] -= 1
        if self._open[name] <= 0:
            del self._open[name]

    def refusal(self, address: str) -> str:
        """Return the sentence for a connection beyond those allowed."""
        files = "the number of files that the server may open (ulimit -n)"
        if self._open[conf.network_of(address)] <= self._maximum:
            return (
                f"There are {self._total_maximum} open connections, the limit set by {files}; try "
                "again later"
            )
        limit = files if self._is_by_files else "ORSWEB_MAX_CONNECTIONS_PER_ADDRESS"
        return (
            f"{address} has {self._maximum} open connections, the limit set by {limit}; close some "
            "of them"
        )


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a connection waits for its client to do."""

    request: object
    """Another object for each request."""
    received_bytes: int | None = None
    """Bytes of a body received so far; None if the client should do something else than send a
    body."""
    unread_bytes: int = 0
    """Bytes of a response that the client has not read; any change of it is enough."""


class LimitedConnection(Protocol):
    """The members of a connection that Deadlines uses."""

    def waiting(self) -> Waiting | None: ...

    def abort(self) -> None: ...


class Deadlines:
    """Ends connections whose clients keep the server waiting for too long."""

    def __init__(self, connections: Iterable[Any], limit_seconds: float) -> None:
        self._connections, self._limit = connections, limit_seconds
        self._seen: dict[LimitedConnection, tuple[Waiting, float]] = {}

    async def run(self) -> None:
        """Check the connections until cancelled."""
        while True:
            await asyncio.sleep(min(CHECK_SECONDS, self._limit / 4))
            await self._check(time.monotonic())

    async def _check(self, now: float) -> None:
        before, self._seen = self._seen, {}
        count = 0
        connections = [item for item in self._connections if hasattr(item, "waiting")]
        for number, connection in enumerate(connections, 1):
            if number % CONNECTIONS_AT_ONCE == 0:
                await asyncio.sleep(0)  # thousands take longer than an agent should wait
            waiting = connection.waiting()
            if waiting is None:
                continue
            was, since = before.get(connection, (waiting, now))
            if was.request is not waiting.request or was.unread_bytes != waiting.unread_bytes:
                since = now
            late_seconds = now - since - self._limit
            size = waiting.received_bytes
            if late_seconds > 0 and (
                size is None or size < late_seconds * MIN_BODY_BYTES_PER_SECOND
            ):
                connection.abort()
                count += 1
            else:
                self._seen[connection] = waiting, since
        if count:
            log.info("slow connections ended", connections=count, limit_seconds=self._limit)
