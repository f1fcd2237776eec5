"""Messages between the server and its worker processes: JSON values, each in a line of its own,
over a socket.

The server sends requests, `{"id": 7, "do": "run", "of": 3, "with": […], "key": …}`, and
cancellations, `{"cancel": 7}`. A worker answers in any order: `{"id": 7, "value": …}`, or
`"fault"`, `"refused"` or `"cancelled"` instead of the value.
docs/decisions/0040-worker-processes.md has the measurements behind the format.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import astuple
from typing import Any, cast

from environments.runtime.call_outcome import CallOutcome, Snapshot

Message = dict[str, Any]
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def packed(outcome: CallOutcome) -> list[Any]:
    """Return an outcome as a JSON value."""
    *fields, snapshot = astuple(outcome)
    return [*fields, snapshot and [b64encode(snapshot[0]).decode("ascii"), snapshot[1]]]


def unpacked(value: list[Any]) -> CallOutcome:
    """Return the outcome that `packed` made a JSON value of."""
    *fields, snapshot = value
    outcome = CallOutcome(*fields)
    if snapshot:
        outcome.snapshot = Snapshot(b64decode(snapshot[0]), snapshot[1])
    return outcome


class MessagePipe(asyncio.Protocol):
    """One end of a connection. Calls `on_message` for each message."""

    def __init__(self, on_message: Callable[[Message], None]) -> None:
        self._on_message = on_message
        self.ended = asyncio.Event()
        """Set when the connection is over."""
        self._rest: list[bytes] = []  # pieces of a line that has not ended
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if b"\n" not in data:
            self._rest.append(data)
            return
        *lines, rest = b"".join((*self._rest, data)).split(b"\n")
        self._rest = [rest] if rest else []
        for line in lines:
            self._on_message(json.loads(line))

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()

    def send(self, message: Message) -> None:
        """Send a message, unless the connection is closed. Raises: TypeError, ValueError if it is
        no JSON value."""
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.write(_encode(message).encode("ascii") + b"\n")

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
