"""What an API key may use, and what it uses now. Live play and the doors for agents count here, and
check before they act.

Everything is an integer in memory: a request within its quotas costs a few additions and
comparisons, and waits for nothing. Only `environments/keys/quota_clock.py` knows the database.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace

from environments.errors import OverQuota

WINDOW_SECONDS = 60.0
DAY_SECONDS = 86_400
NO_LIMIT = 0
"""Value of a quota without a limit."""
MAX_QUOTA = 10**15
UNLIMITED = 2**62
"""What is compared where there is no limit."""
MAX_WAITING = 1000
"""Calls of one key that may wait for their turn. Each holds the body of its request."""
BYTES_GRACE = 2
"""Open sessions may record until this multiple of the quota of bytes; then their episodes end."""

DESCRIPTIONS: Mapping[str, str] = {
    "requests": "requests a minute",
    "sessions": "live sessions",
    "calls": "tool calls at the same time",
    "steps": "tool calls of an episode",
    "seconds": "seconds of an episode",
    "bytes": "recorded bytes a day (UTC)",
}
"""Each quota with what it limits."""


@dataclass(frozen=True, slots=True)
class Quotas:
    """The limits of one key; 0: no limit."""

    requests: int = NO_LIMIT
    sessions: int = NO_LIMIT
    calls: int = NO_LIMIT
    steps: int = NO_LIMIT
    seconds: int = NO_LIMIT
    bytes: int = NO_LIMIT

    def replaced(self, values: Mapping[str, int]) -> Quotas:
        """Return these quotas with other values for some."""
        names = [field.name for field in fields(self) if field.name in values]
        return replace(self, **{name: values[name] for name in names})


class Places:
    """A number of places to take at the same time. Those who wait get one in order of arrival."""

    __slots__ = ("_queue", "elsewhere", "limit", "taken")

    def __init__(self, limit: int = UNLIMITED) -> None:
        self.limit, self.taken = limit, 0
        self.elsewhere = 0
        """Places that are taken on other servers."""
        self._queue: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def enter(self) -> bool:
        """Take a place; return False if none is free, or others wait for it."""
        if self.taken + self.elsewhere >= self.limit or self._queue:
            return False
        self.taken += 1
        return True

    async def wait_to_enter(self, seconds: float) -> bool:
        """Wait for a place and take it; return False if none has become free in that time."""
        turn = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            async with asyncio.timeout(seconds):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # it got the place at the same moment
                self.leave()
            with suppress(ValueError):
                self._queue.remove(turn)
            if isinstance(error, TimeoutError):
                return False
            raise
        return True

    def leave(self) -> None:
        """Give the place up."""
        self.taken -= 1
        if self._queue:
            self.hand_on()

    def hand_on(self) -> None:
        """Give free places to those who wait."""
        while self._queue and self.taken + self.elsewhere < self.limit:
            turn = self._queue.popleft()
            if not turn.done():
                self.taken += 1
                turn.set_result(None)


class KeyUsage:
    """What one key uses now, and its quotas.

    Used on the event loop. Other threads read it, and count requests; two that count at once may
    count as one.
    """

    __slots__ = (
        "_next_window",
        "_quotas",
        "_started",
        "bytes",
        "calls",
        "day",
        "label",
        "max_bytes",
        "max_steps",
        "requests_left",
        "sessions",
    )

    def __init__(self, label: str = "", quotas: Quotas | None = None) -> None:
        self.label = label
        self.sessions, self.calls = Places(), Places()
        self.bytes, self.day = 0, 0
        self._next_window: list[asyncio.Future[None]] = []
        self._started = time.monotonic()
        self.requests_left = UNLIMITED
        self._quotas = Quotas()
        self.apply(quotas or Quotas())

    @property
    def quotas(self) -> Quotas:
        return self._quotas

    @property
    def whose(self) -> str:
        return f"the API key {self.label!r}" if self.label else "clients without an API key"

    def apply(self, quotas: Quotas) -> None:
        """Put `quotas` in force. What is used stays counted."""
        self._renew_window()
        request_count = self.requests_used
        self._quotas = quotas
        self.requests_left = (quotas.requests or UNLIMITED) - request_count
        self.sessions.limit = quotas.sessions or UNLIMITED
        self.calls.limit = quotas.calls or UNLIMITED
        self.max_steps, self.max_bytes = quotas.steps or UNLIMITED, quotas.bytes or UNLIMITED

    @property
    def used(self) -> Mapping[str, int]:
        """What is used now, by quota; those of an episode are counted for each."""
        return {
            "requests": self.requests_used,
            "sessions": self.sessions.taken + self.sessions.elsewhere,
            "calls": self.calls.taken + self.calls.elsewhere,
            "bytes": self.bytes if self.day == int(time.time()) // DAY_SECONDS else 0,
        }

    # --- requests ---------------------------------------------------------------------------------

    @property
    def requests_used(self) -> int:
        """Requests since the beginning of the present minute."""
        if time.monotonic() - self._started >= WINDOW_SECONDS:
            return 0
        return max(0, (self._quotas.requests or UNLIMITED) - self.requests_left)

    def check_requests(self) -> None:
        """Check a request that was counted and for which none was left. Raises: OverQuota."""
        self._renew_window()
        if self.requests_left >= 0:
            return
        wait = WINDOW_SECONDS - (time.monotonic() - self._started)
        raise self._over("requests", f"send the next one in {max(1, math.ceil(wait))} s", wait)

    async def wait_for_requests(self, seconds: float) -> None:
        """Wait until a request that was counted may be answered, at most `seconds`. Raises:
        OverQuota."""
        until = time.monotonic() + seconds
        self._renew_window()
        while self.requests_left < 0:
            window = asyncio.get_running_loop().create_future()
            self._next_window.append(window)
            await asyncio.wait([window], timeout=max(0.0, until - time.monotonic()))
            if not window.done():
                self._next_window.remove(window)
                self.check_requests()
                return
            self.requests_left -= 1

    def renew(self) -> None:
        """Begin a new minute if the present one is over, and hand on places of a raised limit.

        Called every second.
        """
        self._renew_window()
        self.sessions.hand_on()
        self.calls.hand_on()

    def _renew_window(self) -> None:
        now = time.monotonic()
        if now - self._started >= WINDOW_SECONDS:
            self._started = now
            self.requests_left = self._quotas.requests or UNLIMITED
            if self._next_window:
                waiting, self._next_window = self._next_window, []
                waiting[0].get_loop().call_soon_threadsafe(_wake, waiting)

    # --- recorded bytes ---------------------------------------------------------------------------

    def record(self, count: int, now: float) -> None:
        """Count bytes that are recorded at the time `now`, in seconds since the epoch."""
        if (day := int(now) // DAY_SECONDS) != self.day:
            self.day, self.bytes = day, 0
        self.bytes += count

    def check_bytes(self) -> None:
        """Raises: OverQuota if no more may be recorded today."""
        if self.bytes < self.max_bytes:
            return
        now = time.time()
        if int(now) // DAY_SECONDS == self.day:
            then = f"{self.bytes:,} were recorded today, and it starts again at midnight UTC"
            raise self._over("bytes", then, DAY_SECONDS - now % DAY_SECONDS)

    # --- sessions and calls -----------------------------------------------------------------------

    async def enter_session(self, seconds: float) -> None:
        """Take the place of a session, after waiting for one at most `seconds`. Raises:
        OverQuota."""
        self.check_bytes()
        if not (self.sessions.enter() or await self.sessions.wait_to_enter(seconds)):
            raise self._over(
                "sessions", f"none ended within {seconds:g} s, so delete one, then try again"
            )

    def enter_call(self) -> bool:
        """Take the place of a call; return False if it has to wait for its turn."""
        return self.requests_left >= 0 and self.calls.enter()

    async def wait_to_enter_call(self, seconds: float) -> None:
        """Wait for the turn of a call, at most `seconds`, and take its place. Raises: OverQuota."""
        until = time.monotonic() + seconds
        await self.wait_for_requests(seconds)
        if not (self.calls.enter() or await self.calls.wait_to_enter(until - time.monotonic())):
            raise self._over(
                "calls", f"none ended within {seconds:g} s, so wait for one, then call again"
            )

    def check_queue(self) -> None:
        """Raises: OverQuota if too many calls wait for their turn."""
        if self.calls.waiting + len(self._next_window) >= MAX_WAITING:
            name = "calls" if self.calls.waiting else "requests"
            raise self._over(
                name,
                f"{MAX_WAITING:,} tool calls wait for their turn, so call again when some "
                "have ended",
            )

    def limit_of_steps(self, calls: int) -> str:
        """Return why an episode with so many calls ends now; empty if it may go on."""
        if calls >= self.max_steps:
            return self._rule("steps")
        if self.bytes >= BYTES_GRACE * self.max_bytes:
            rule = self._rule("bytes")
            return (
                f"{rule}, and {self.bytes:,} were recorded today; open sessions may record "
                f"{BYTES_GRACE} times as many"
            )
        return ""

    def limit_of_time(self) -> str:
        """Return why an episode ends whose time is over."""
        return self._rule("seconds")

    def _rule(self, name: str) -> str:
        """Return a quota as a sentence that may go on."""
        return (
            f"{DESCRIPTIONS[name]} are limited to {getattr(self._quotas, name):,} for {self.whose}"
        )

    def _over(self, name: str, then: str, retry_seconds: float = 2.0) -> OverQuota:
        """Return the error about a quota; `then` is what to do."""
        rule = self._rule(name)
        return OverQuota(f"{rule[0].upper()}{rule[1:]}; {then}", retry_seconds)


def _wake(waiting: list[asyncio.Future[None]]) -> None:
    for window in waiting:
        if not window.done():
            window.set_result(None)
