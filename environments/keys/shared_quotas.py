"""What keys with quotas use on other servers of the database, which each of them sends every second.

A key may be over a quota for about a second, when its clients come to several servers at once.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from environments.quotas import NO_LIMIT, KeyUsage

KEYS_IN_TEXT = 8
"""Their labels have at most 200 characters, so a text has less than 7,000 bytes."""
MAX_SILENCE_SECONDS = 5.0
"""A server that sends nothing about a key for so long uses nothing, or is dead."""

Send = Callable[[Iterable[str]], None]
KeyCounts = tuple[int, int, int]
"""Live sessions, running calls, and requests since the last look."""
NOTHING: KeyCounts = (0, 0, 0)


@dataclass(slots=True)
class _RemoteUse:
    """What a key used on one other server at the moment `at`."""

    sessions: int
    calls: int
    at: float


@dataclass(slots=True)
class _Key:
    """One key, on this server and on others."""

    last_counts: KeyCounts = NOTHING
    """What this server sent last."""
    requests: int = 0
    """Requests of the minute at the last look, those of others included."""
    remote_requests: int = 0
    """Requests of others since then."""
    others: dict[int, _RemoteUse] = field(default_factory=dict)
    """By the id of the server."""


class SharedQuotas:
    """Used on the event loop, but for `hear`."""

    def __init__(self, server: int, usages: Callable[[], Iterable[KeyUsage]], send: Send) -> None:
        """`server`: the id of this one; `usages` returns what keys use here.

        `send` sends texts to the other servers; it blocks, and may raise django.db.Error.
        """
        self._server, self._usages = server, usages
        self.send = send
        self._loop = asyncio.get_running_loop()
        self._keys: dict[str, _Key] = defaultdict(_Key)

    def hear(self, text: str) -> None:
        """Take in a text from another server. For any thread."""
        server, key_counts = json.loads(text)
        self._loop.call_soon_threadsafe(self._learn, server, key_counts)

    def is_used_elsewhere(self, label: str) -> bool:
        """Return whether another server said lately that the key uses it."""
        return label in self._keys and bool(self._keys[label].others)

    def texts(self) -> list[str]:
        """Return what to send: the keys that use something, and those that no longer do. Once a
        second."""
        now, reports = time.monotonic(), list[tuple[str, *KeyCounts]]()
        for usage in self._usages():
            quotas = usage.quotas
            if quotas.sessions == quotas.calls == quotas.requests == quotas.bytes == NO_LIMIT:
                continue
            key = self._keys[usage.label]
            key.others = {
                server: use
                for server, use in key.others.items()
                if now < use.at + MAX_SILENCE_SECONDS
            }
            _count_others(usage, key)
            requests = usage.requests_used
            # fewer than before: a new minute has started
            before = key.requests if requests >= key.requests else 0
            new_requests = max(0, requests - before - key.remote_requests)
            key.requests, key.remote_requests = requests, 0
            counts = usage.sessions.taken, usage.calls.taken, new_requests
            if counts != NOTHING or key.last_counts != NOTHING:
                reports.append((usage.label, *counts))
            key.last_counts = counts
        parts = (
            reports[start : start + KEYS_IN_TEXT] for start in range(0, len(reports), KEYS_IN_TEXT)
        )
        return [json.dumps([self._server, part], ensure_ascii=False) for part in parts]

    def _learn(self, server: int, key_counts: Iterable[tuple[str, int, int, int]]) -> None:
        usages = {usage.label: usage for usage in self._usages()}
        for label, sessions, calls, requests in key_counts:
            if (usage := usages.get(label)) is not None:
                key = self._keys[label]
                key.others[server] = _RemoteUse(sessions, calls, time.monotonic())
                _count_others(usage, key)
                usage.requests_left -= requests
                key.remote_requests += requests


def _count_others(usage: KeyUsage, key: _Key) -> None:
    usage.sessions.elsewhere = sum(other.sessions for other in key.others.values())
    usage.calls.elsewhere = sum(other.calls for other in key.others.values())
