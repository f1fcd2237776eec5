"""Limits how many entries failures make in the security log.

The first failure of an address is an entry of its own. Those that follow within a minute become one
entry with a count, so that nobody fills the disk by guessing: at most two entries a minute for an
address, and for at most MAX_BURSTS addresses at a time; all others share one entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from environments.security_log.event import FAILURES, Event

BURST = timedelta(seconds=60)
"""Time for which further failures of an address are counted together."""
MAX_BURSTS = 100
"""Addresses with failures that are counted at the same time, for all kinds together."""
MAX_NAMED = 5
"""Texts that the entry of several failures quotes."""
MANY = "many addresses"


@dataclass(slots=True)
class Burst:
    """Failures of one kind from one address since `began`, without the first, which has been
    written."""

    began: datetime
    latest: Event
    first: datetime | None = None
    count: int = 0
    whats: dict[str, None] = field(default_factory=dict)
    whos: dict[str, None] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        self.latest, self.first = event, self.first or event.at
        self.count += event.count
        for texts, text in ((self.whats, event.what), (self.whos, event.who)):
            if text and len(texts) < MAX_NAMED:
                texts[text] = None

    def as_event(self, address: str) -> Event:
        """Return all of them as one event."""
        what, who = ", ".join(self.whats), ", ".join(self.whos)
        whole = replace(
            self.latest, at=self.first or self.began, until=self.latest.at, count=self.count
        )
        return replace(whole, address=address, what=what, who=who)


class Bursts:
    """Counts failures that follow one another. One thread uses it."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], Burst] = {}

    def take(self, event: Event) -> Event | None:
        """Return the event if it is an entry of its own; None if it is counted for a later one."""
        if event.kind not in FAILURES:
            return event
        key = (event.kind, event.address)
        if key not in self._open and len(self._open) >= MAX_BURSTS:
            key = (event.kind, MANY)
            self._open.setdefault(key, Burst(event.at, event))
        if key in self._open:
            self._open[key].add(event)
            return None
        self._open[key] = Burst(event.at, event)
        return event

    def ended(self, now: datetime | None) -> Iterator[Event]:
        """Yield the entries of the bursts that are over at `now`, or of all for None, and forget
        these bursts."""
        for key, burst in list(self._open.items()):
            if now is None or now - burst.began >= BURST:
                del self._open[key]
                if burst.count:
                    yield burst.as_event(key[1])
