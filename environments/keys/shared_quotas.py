"""What keys with quotas use on other servers of the database, as these tell once a second.

A key may be over a quota for about a second, when its clients come to several servers at once.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from environments.runtime.quotas import NO_LIMIT, KeyUsage

KEYS_IN_TEXT = 8
"""Their labels have at most 200 characters, so a text has less than 7,000 bytes."""
MAX_SILENCE_SECONDS = 5.0
"""A server that tells nothing about a key for so long uses nothing, or is dead."""

Send = Callable[[Iterable[str]], None]
Used = tuple[int, int, int]
"""Live sessions, running calls, and requests since the last look."""
NOTHING: Used = (0, 0, 0)


@dataclass(slots=True)
class _Told:
    """What one other server has told of one key."""

    sessions: int
    calls: int
    at: float


@dataclass(slots=True)
class _Key:
    """One key, on this server and on others."""

    last: Used = NOTHING
    """What was told to others."""
    requests: int = 0
    """Requests of the minute at the last look, those of others included."""
    heard: int = 0
    """Requests of others since then."""
    others: dict[int, _Told] = field(default_factory=dict)


class SharedQuotas:
    """Used on the event loop, but for `hear`."""

    def __init__(self, server: int, usages: Callable[[], Iterable[KeyUsage]], send: Send) -> None:
        """`server`: the id of this one; `usages` returns what keys use here.

        `send` tells texts to the others, blocks, and may raise django.db.Error.
        """
        self._server, self._usages = server, usages
        self.send = send
        self._loop = asyncio.get_running_loop()
        self._keys: dict[str, _Key] = defaultdict(_Key)

    def hear(self, text: str) -> None:
        """Take in what another server tells. For any thread."""
        server, used = json.loads(text)
        self._loop.call_soon_threadsafe(self._learn, server, used)

    def is_used_elsewhere(self, label: str) -> bool:
        """Return whether another server has told lately that it is used by the key."""
        return label in self._keys and bool(self._keys[label].others)

    def texts(self) -> list[str]:
        """Return what has to be told: the keys that use something, and those that do not any more.
        Once a second."""
        now, told = time.monotonic(), list[tuple[str, *Used]]()
        for usage in self._usages():
            quotas = usage.quotas
            if quotas.sessions == quotas.calls == quotas.requests == quotas.bytes == NO_LIMIT:
                continue
            key = self._keys[usage.label]
            key.others = {
                server: one
                for server, one in key.others.items()
                if now < one.at + MAX_SILENCE_SECONDS
            }
            _count_others(usage, key)
            used = self._used(usage, key)
            if used != NOTHING or key.last != NOTHING:
                told.append((usage.label, *used))
            key.last = used
        parts = (told[start : start + KEYS_IN_TEXT] for start in range(0, len(told), KEYS_IN_TEXT))
        return [json.dumps([self._server, part], ensure_ascii=False) for part in parts]

    def _used(self, usage: KeyUsage, key: _Key) -> Used:
        requests = usage.requests_used
        before = key.requests if requests >= key.requests else 0  # else a new minute has started
        new = max(0, requests - before - key.heard)
        key.requests, key.heard = requests, 0
        return usage.sessions.taken, usage.calls.taken, new

    def _learn(self, server: int, used: Iterable[tuple[str, int, int, int]]) -> None:
        usages = {usage.label: usage for usage in self._usages()}
        for label, sessions, calls, requests in used:
            if (usage := usages.get(label)) is not None:
                key = self._keys[label]
                key.others[server] = _Told(sessions, calls, time.monotonic())
                _count_others(usage, key)
                usage.requests_left -= requests
                key.heard += requests


def _count_others(usage: KeyUsage, key: _Key) -> None:
    usage.sessions.elsewhere = sum(other.sessions for other in key.others.values())
    usage.calls.elsewhere = sum(other.calls for other in key.others.values())
