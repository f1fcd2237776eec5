"""The clock of the quotas: begins their minutes, and keeps what was recorded on a day over a
restart.

Recorded bytes are counted in memory. Once a second the clock adds what is new to their rows, of
keys with a quota of them; a kill loses the count of the last second. Several servers of one
database add to the same row, and each learns from it what the others have recorded, also when it
has nothing to add.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import structlog
from django.db import Error, connection, transaction

from environments import conf
from environments.database.worker_threads import Workers
from environments.keys.agent_key import EVERYBODY
from environments.keys.keyring import ring
from environments.keys.shared_quotas import SharedQuotas
from environments.models import RecordedBytes
from environments.quotas import DAY_SECONDS, NO_LIMIT, KeyUsage

TICK_SECONDS = 1.0
MAX_WRITE_SECONDS = 2.0
"""How long a stop waits for the last write."""

Count = tuple[str, int, int]
"""Label of a key, the day, and bytes."""

_ADD = """
    INSERT INTO environments_recordedbytes AS r (label, day, count) VALUES (%s, %s, %s)
    ON CONFLICT (label) DO UPDATE SET day = CASE WHEN excluded.day > r.day THEN excluded.day ELSE r.day END, count =
        CASE WHEN excluded.day > r.day THEN excluded.count WHEN excluded.day = r.day THEN r.count + excluded.count
        ELSE r.count END
    RETURNING day, count
"""
"""Around midnight, another server may count the next day already."""

log = structlog.get_logger(__name__)


class QuotaClock:
    """Runs on the service's loop, between `start` and `stop`."""

    def __init__(self) -> None:
        self._workers = Workers(1, "quotas")
        self._stored: dict[str, tuple[int, int]] = {}
        """Label -> the day and its bytes, as this server knows them from the row."""
        self._is_writing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._shared: SharedQuotas | None = None

    async def start(self, shared_quotas: SharedQuotas | None) -> None:
        """Read what was recorded today, and begin to count. Raises: django.db.Error.

        `shared_quotas`: what keys use on other servers of the database.
        """
        self._shared = shared_quotas
        EVERYBODY.usage = KeyUsage(quotas=conf.quotas())
        self._stored = await self._workers.run(_read)
        for usage in ring.usages:
            usage.day, usage.bytes = self._stored.get(usage.label, (0, 0))
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Write what is new since the last tick."""
        if self._task is not None:
            self._task.cancel()
        try:
            async with asyncio.timeout(MAX_WRITE_SECONDS):
                await self._write()
        except TimeoutError:
            log.warning("recorded bytes were not written")
        self._workers.close()

    async def _run(self) -> None:
        """Tick until cancelled."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            for usage in ring.usages:
                usage.renew()
            await asyncio.shield(self._write())  # what was added and not noted would be added again
            if self._shared is not None and (texts := self._shared.texts()):
                with suppress(Error):  # the database is away; the next tick sends newer counts
                    await self._workers.run(self._shared.send, texts)

    async def _write(self) -> None:
        async with self._is_writing:
            now = time.time()
            for usage in ring.usages:
                if self._grows_elsewhere(usage):
                    usage.record(0, now)  # begins the count of today
            new = [
                (usage, usage.day, usage.bytes)
                for usage in ring.usages
                if usage.quotas.bytes != NO_LIMIT
                and (usage.bytes > self._known(usage) or self._grows_elsewhere(usage))
            ]
            if not new:
                return
            try:
                counts = [
                    (usage.label[:200], day, count - self._known(usage))
                    for usage, day, count in new
                ]
                totals = await self._workers.run(_add, counts)
            except Error as error:  # the next tick tries again
                log.debug("recorded_bytes_not_written", error=type(error).__name__)
                return
            for (usage, day, count), (row_day, row_count) in zip(new, totals, strict=True):
                total = row_count if row_day == day else count
                self._stored[usage.label] = day, total
                if usage.day == day:
                    usage.bytes += total - count  # what other servers recorded

    def _grows_elsewhere(self, usage: KeyUsage) -> bool:
        return self._shared is not None and self._shared.is_used_elsewhere(usage.label)

    def _known(self, usage: KeyUsage) -> int:
        """Return the bytes of its day that the row held when it was last read or written."""
        day, count = self._stored.get(usage.label, (usage.day, 0))
        return count if day == usage.day else 0


def _read() -> dict[str, tuple[int, int]]:
    """Return the day and the bytes of each key for which something was recorded today."""
    today = int(time.time()) // DAY_SECONDS
    rows = RecordedBytes.objects.filter(day=today).values_list("label", "day", "count")
    return {label: (day, count) for label, day, count in rows}


def _add(counts: list[Count]) -> list[tuple[int, int]]:
    """Add bytes to the rows of keys, in the order in which every server locks them; return what
    each holds then: the day and its bytes.
    """
    totals = {}
    with transaction.atomic(), connection.cursor() as cursor:
        for label, day, count in sorted(counts):
            cursor.execute(_ADD, [label, day, count])
            totals[label] = cursor.fetchone()
    return [totals[label] for label, _, _ in counts]
