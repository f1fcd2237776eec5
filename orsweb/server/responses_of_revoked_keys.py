"""Ends responses that go on after their API key was revoked, expired, rotated or restricted.

Running calls of such a key are answered at once, but a slow client could still read a long response
to its end. Downloads and event streams of pages and of the API check their readers themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

from environments import conf, security_log
from orsweb.server.exchange import Exchange

LATE_SECONDS = 8.0
"""Time that a response has to end: the sessions of the key end too, and their clients get the
reason."""


class RevokedKeys:
    """Ends the responses of a server's open `connections`; those with an Exchange are of agents."""

    def __init__(self, connections: Iterable[Any]) -> None:
        self._connections, self._loop = connections, asyncio.get_running_loop()

    def note(self, owners: set[str]) -> None:
        """Note that the keys with these labels were revoked, rotated or restricted. Called on the
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
