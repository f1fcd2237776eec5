"""Queues events of any thread, and writes them on one: as lines of `orsweb.security`, and most of
them also as rows.

What comes faster than it can be written is counted and dropped. While the database is away, the
lines are still written, and the latest rows wait for it. A process that is killed loses the events
of its last second.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

import structlog
from django.db import Error, connections, transaction
from django.utils import timezone

from environments.database.storable import storable
from environments.database.write_pauses import give_way
from environments.errors import shorten
from environments.models import SecurityEvent
from environments.security_log.actor import current_actor
from environments.security_log.event import FAILURES, LINES, Event
from environments.security_log.failure_bursts import Bursts

WRITE_SECONDS = 1.0
"""Time between two writes."""
MAX_QUEUED = 10_000
"""Events of either sort that wait to be written: failures, and all others, which no flood of
failures displaces."""
MAX_BATCH = 500
REMOVED_AT_ONCE = 1_000
MAX_TEXT = 2_000
"""Characters of a text that are kept until it is masked and cut to what a row holds: a path may
have 60,000."""

CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Characters with which a text could look like several lines of the log."""

Clean = Callable[[str], str]
"""Masks the secrets in a text."""

log = structlog.get_logger("orsweb.security")
own_log = structlog.get_logger(__name__)


class SecurityLog:
    """The events of this process on their way to the log and the database."""

    def __init__(self) -> None:
        self._failures: deque[Event] = deque()
        self._others: deque[Event] = deque()
        self._rows: deque[SecurityEvent] = deque(maxlen=MAX_QUEUED)
        self._bursts = Bursts()
        self._dropped = 0
        self._clean: Clean = str
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, event: Event) -> None:
        """Queue the event, or write it now if no thread of this process writes and no event loop
        would be blocked."""
        queue = self._failures if event.kind in FAILURES else self._others
        if len(queue) >= MAX_QUEUED:
            self._dropped += 1
        elif self._thread is None and not _is_on_a_loop():
            self._write([event])
        else:
            queue.append(event)

    def start(self, clean: Clean) -> None:
        """Start the thread. `clean` masks secrets in what is written."""
        self._clean = clean
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name="security", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what is queued and end the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopping.set()
            thread.join(2 * WRITE_SECONDS)

    def _run(self) -> None:
        while not self._stopping.wait(WRITE_SECONDS):
            self._work(is_last=False)
        self._work(is_last=True)
        connections.close_all()

    def _work(self, *, is_last: bool) -> None:
        try:
            events = self._due(is_last=is_last)
            if events or self._rows:
                self._write(events)
            if self._rows:  # the database is away
                connections.close_all()
        except Exception:  # the outermost frame of the thread, which has to go on
            own_log.exception("the security log was not written")

    def _due(self, *, is_last: bool) -> list[Event]:
        now = timezone.now()
        due = list[Event]() if is_last else list(self._bursts.ended(now))
        for queue in (self._others, self._failures):
            for _ in range(len(queue)):
                if event := self._bursts.take(queue.popleft()):
                    due.append(event)
        if is_last:
            due += self._bursts.ended(None)
        if lost_count := self._dropped:
            self._dropped -= lost_count  # other threads may have dropped more meanwhile
            detail = "More happened than could be written."
            due.append(Event("events_lost", now, detail=detail, count=lost_count))
        return due

    def _write(self, events: Sequence[Event]) -> None:
        for event in events:
            row = self._row_of(event)
            fields = {
                name: value
                for name in ("who", "address", "what", "detail")
                if (value := getattr(row, name))
            }
            if row.count > 1:
                fields["count"] = row.count
            write_line = log.warning if row.kind in FAILURES else log.info
            write_line(row.kind, **fields)
            if row.kind not in LINES:
                self._rows.append(row)
        while self._rows:
            batch = [self._rows[number] for number in range(min(MAX_BATCH, len(self._rows)))]
            if not _store(batch):
                return
            for _ in batch:
                self._rows.popleft()

    def _row_of(self, event: Event) -> SecurityEvent:
        def text(value: str, limit: int) -> str:
            return shorten(CONTROLS.sub(" ", storable(self._clean(value))), limit)

        return SecurityEvent(
            at=event.at,
            until=event.until,
            kind=event.kind,
            who=text(event.who, 200),
            address=text(event.address, 64),
            what=text(event.what, 300),
            detail=text(event.detail, 500),
            count=event.count,
        )


def _store(rows: Iterable[SecurityEvent]) -> bool:
    """Store the rows; return False if the database is away."""
    try:
        # within one of a command, it is a savepoint, so an error harms nothing else
        with transaction.atomic():
            SecurityEvent.objects.bulk_create(rows)
    except Error as error:
        own_log.warning("the security log waits for the database", error=type(error).__name__)
        return False
    return True


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def remove_old(days: int) -> int:
    """Remove up to REMOVED_AT_ONCE of the rows that are older than `days`, and return their number;
    0 keeps all."""
    if not days:
        return 0
    old = SecurityEvent.objects.filter(at__lt=timezone.now() - timedelta(days=days))
    ids = list(old.order_by("at").values_list("pk", flat=True)[:REMOVED_AT_ONCE])
    count, _ = SecurityEvent.objects.filter(pk__in=ids).delete()
    give_way()
    return count


_log = SecurityLog()
start = _log.start
stop = _log.stop


def note(
    kind: str,
    what: str = "",
    *,
    who: str | None = None,
    address: str | None = None,
    detail: str = "",
) -> None:
    """Note an event of one of the KINDS. `who` and `address` default to those of the current actor.

    No argument may be a secret. Never waits in a server.
    """
    if who is None or address is None:
        actor = current_actor()
        who = actor.name if who is None else who
        address = actor.address if address is None else address
    _log.take(
        Event(
            kind,
            timezone.now(),
            who[:MAX_TEXT],
            address[:MAX_TEXT],
            what[:MAX_TEXT],
            detail[:MAX_TEXT],
        )
    )
