"""Turns at a limited resource that go round by key: of several waiting keys, each gets its turn
after the others.

With first come, first served, a key that asks a thousand times would make every other key wait for
all of that. The sandbox gives its places in such turns, and so does the pool of threads
(`environments/runtime/threads.py`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

CHECK_SECONDS = 0.25
"""Interval at which a thread that waits for a turn checks whether it still needs one."""

KEY: ContextVar[str] = ContextVar("key", default="")
"""Who plays the session whose code runs: the label of an API key, or `@` and a person."""


class RoundRobin(Generic[T]):
    """Items that wait, by key. They are taken from one key after the other; of one key, the oldest
    first."""

    def __init__(self) -> None:
        self._by_key: OrderedDict[str, deque[T]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, key: str, item: T) -> None:
        self._by_key.setdefault(key, deque()).append(item)
        self._count += 1

    def take(self) -> T:
        """Remove and return the next item. Raises: KeyError if none waits."""
        key, items = self._by_key.popitem(last=False)
        item = items.popleft()
        self._count -= 1
        if items:
            self._by_key[key] = items  # behind the other keys
        return item

    def discard(self, key: str, item: T) -> None:
        """Remove an item, if it waits."""
        items = self._by_key.get(key)
        if items is None or item not in items:
            return
        items.remove(item)
        self._count -= 1
        if not items:
            del self._by_key[key]


class FairTurns:
    """A number of places for threads, which wait for them in turns by key."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: RoundRobin[threading.Event] = RoundRobin()
        self._lock = threading.Lock()
        """Invariant: if anyone waits, no place is free."""

    def acquire(self, key: str, gives_up: Callable[[], bool]) -> bool:
        """Wait for a place and take it. Return False if `gives_up` returned True before."""
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            turn = threading.Event()
            self._waiting.put(key, turn)
        while not turn.wait(CHECK_SECONDS):
            if gives_up():
                with self._lock:
                    self._waiting.discard(key, turn)
                    return turn.is_set()  # it got a place meanwhile
        return True

    def release(self) -> None:
        """Give the place to the next thread that waits."""
        with self._lock:
            if self._waiting:
                self._waiting.take().set()
            else:
                self._free += 1


@dataclass(slots=True)
class Place:
    """A place that was taken."""

    turns: FairTurns
    is_held: bool = True

    def give_back(self) -> None:
        """Give the place to the next thread that waits, once."""
        if self.is_held:
            self.is_held = False
            self.turns.release()
