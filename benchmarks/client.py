"""A very cheap HTTP client that checks its answers. It has to be cheap because the server runs on
the same machine.

A script is a generator that yields the bytes of a request and receives the whole answer and its
duration. A `Connection` plays one script over one keep-alive connection, without a task, a future
or a parser per request.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Generator
from dataclasses import dataclass, field
from time import perf_counter
from typing import cast

Answer = tuple[bytes, float]
"""Status line, headers and body as they arrived; seconds from the write of the request to the last
byte."""

Script = Generator[bytes, Answer, None]


def _seconds() -> array[float]:
    return array("d")


@dataclass
class Tally:
    """The counts of all connections of a load. Requests are counted if they end while
    `is_measuring`; errors always."""

    is_measuring: bool = False
    is_playing: bool = True
    """Agents start no further episode once this is false."""
    answered: int = 0
    calls: array[float] = field(default_factory=_seconds)
    naps: array[float] = field(default_factory=_seconds)
    pings: array[float] = field(default_factory=_seconds)
    errors: int = 0
    first_error: str = ""

    def add(self, durations: array[float], seconds: float) -> None:
        if self.is_measuring:
            durations.append(seconds)

    def fail(self, what: str) -> None:
        self.errors += 1
        self.first_error = self.first_error or what


class Connection(asyncio.Protocol):
    """Plays `script`; `ended` is set when the script or the connection has ended.

    With `interval`, each request is due that many seconds after the previous one was due. The
    duration of a request that is delayed by a late answer counts from when it was due, so a stall
    of the server is not hidden.
    """

    def __init__(self, script: Script, tally: Tally, interval: float = 0.0) -> None:
        self._script, self._tally, self._interval = script, tally, interval
        self._partial = b""
        self._since = 0.0
        self._is_closing = False
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._since = perf_counter()
        self._transport.write(next(self._script))

    def data_received(self, data: bytes) -> None:
        if self._partial:
            data = self._partial + data
        if not is_complete(data):
            self._partial = data
            return
        self._partial = b""
        now = perf_counter()
        self._count(data)
        try:
            request = self._script.send((data, now - self._since))
        except StopIteration:
            self.close()
            return
        self._write(request, now)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_closing:
            self._tally.fail(
                f"the server closed a connection ({exc or 'end of stream'}) after "
                f"{self._partial[:200]!r}"
            )
        self.ended.set()

    def close(self) -> None:
        self._is_closing = True
        self._transport.abort()

    def _count(self, answer: bytes) -> None:
        if not answer.startswith(b"HTTP/1.1 200 "):
            self._tally.fail(f"not 200: {answer[:500]!r}")
        if self._tally.is_measuring:
            self._tally.answered += 1

    def _write(self, request: bytes, now: float) -> None:
        if not self._interval:
            self._since = now
            self._transport.write(request)
            return
        self._since += self._interval
        asyncio.get_running_loop().call_later(max(0.0, self._since - now), self._write_due, request)

    def _write_due(self, request: bytes) -> None:
        # timers fire up to a millisecond late, for which the server is not responsible
        if (now := perf_counter()) - self._since < 0.002:
            self._since = now
        if not self._is_closing:
            self._transport.write(request)


def is_complete(answer: bytes) -> bool:
    """Return whether the bytes are a whole response: of the declared length, or chunked and ending
    with the empty chunk.
    """
    head_end = answer.find(b"\r\n\r\n")
    if head_end < 0:
        return False
    head = answer[: head_end + 2].lower()
    at = head.find(b"\r\ncontent-length:")
    if at >= 0:
        return len(answer) >= head_end + 4 + int(head[at + 17 : head.index(b"\r\n", at + 17)])
    return answer.endswith(b"\r\n0\r\n\r\n")
