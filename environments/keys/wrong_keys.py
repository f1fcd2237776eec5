"""Counts of unknown API keys by the address that sent them, so that nobody can try many.

An address that has sent too many has to wait. Its correct keys go on working, because several
clients may share an address and a key of 256 bits is not found by trying. Keys that were revoked or
have expired don't count: whole fleets send those.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

WINDOW_SECONDS = 60.0
"""Time after the first unknown key of an address at which it may send unknown keys again."""
MAX_ADDRESSES = 10_000
"""Addresses that are counted at once; of more, those whose last unknown key is the longest ago are
forgotten."""


@dataclass(slots=True)
class _Attempts:
    """The unknown keys of one address."""

    since: float
    """When the first of them came, on the clock."""
    count: int = 0


class WrongKeys:
    """Any thread may count. `clock` returns seconds that only rise."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, max_addresses: int = MAX_ADDRESSES
    ) -> None:
        self._clock, self._max_addresses = clock, max_addresses
        self._lock = threading.Lock()  # the count and the order of one address change together
        self._attempts: OrderedDict[str, _Attempts] = OrderedDict()

    def add(self, address: str, limit: int) -> int:
        """Count an unknown key. Return how many seconds the address has to wait; 0 if it has sent
        at most `limit`."""
        with self._lock:
            now = self._clock()
            attempts = self._attempts.pop(address, None)
            if attempts is None or now - attempts.since >= WINDOW_SECONDS:
                attempts = _Attempts(now)
            attempts.count += 1
            self._attempts[address] = attempts  # now the last of them
            if len(self._attempts) > self._max_addresses:
                self._attempts.popitem(last=False)
            return math.ceil(attempts.since + WINDOW_SECONDS - now) if attempts.count > limit else 0

    def forget(self) -> None:
        """Let every address try again."""
        with self._lock:
            self._attempts.clear()

    def __len__(self) -> int:
        """Return the number of addresses that are counted."""
        return len(self._attempts)
