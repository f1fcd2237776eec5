"""Ends answers that go on after their API key was revoked, has expired, got another text, or may do
less.

Running calls of such a key are answered at once, but a client that reads slowly would read a long
answer to its end. The downloads and event streams of pages and of the API check by themselves
whether their readers may go on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

from environments import conf, security_log
from orsweb.server.exchange import Exchange

LATE_SECONDS = 8.0
"""Time that an answer has to end: the sessions of the key end too, and their clients are told
why."""


class LostKeys:
    """Watches the answers of a server. `connections` are open; those with an Exchange are of
    agents."""

    def __init__(self, connections: Iterable[Any]) -> None:
        self._connections, self._loop = connections, asyncio.get_running_loop()

    def note(self, owners: set[str]) -> None:
        """Note that keys with these labels may do less now, or have another text. Called on the
        keyring's thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._watch, owners)

    def _watch(self, owners: set[str]) -> None:
        answers = list[tuple[Any, Exchange]]()
        for connection in self._connections:
            cycle = getattr(connection, "cycle", None)
            if isinstance(cycle, Exchange) and cycle.owner in owners:
                answers.append((connection, cycle))
        if answers:
            self._loop.call_later(LATE_SECONDS, self._end, answers)

    def _end(self, answers: list[tuple[Any, Exchange]]) -> None:
        for connection, answer in answers:
            is_unread = connection.transport.get_write_buffer_size() > 0
            if connection.cycle is answer and (is_unread or not answer.response_complete):
                connection.abort()
                scope = answer.scope
                address = conf.address_of(connection.client[0] if connection.client else "", "")
                security_log.note(
                    "cut_off",
                    f"{scope['method']} {scope['path'][:100]}",
                    who=answer.owner,
                    address=address,
                    detail="The key was lost meanwhile.",
                )
