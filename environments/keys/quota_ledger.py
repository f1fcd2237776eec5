"""The clock of the quotas: begins their minutes, and keeps what was recorded on a day over a restart.

Recorded bytes are counted in memory. Once a second the ledger writes those that have changed, of keys with a quota of
them; a kill loses the count of the last second.
"""

from __future__ import annotations

import asyncio
import time

import structlog
from django.db import Error

from environments import conf
from environments.database.worker_threads import Workers
from environments.keys.agent_key import EVERYBODY
from environments.keys.keyring import ring
from environments.models import RecordedBytes
from environments.runtime.quotas import DAY_SECONDS, NO_LIMIT

TICK_SECONDS = 1.0
MAX_WRITE_SECONDS = 2.0
"""How long a stop waits for the last write."""

Count = tuple[str, int, int]
"""Label of a key, the day, and the bytes."""

log = structlog.get_logger(__name__)


class QuotaLedger:
    """Runs on the service's loop, between `start` and `stop`."""

    def __init__(self) -> None:
        self._workers = Workers(1, "quotas")
        self._written: dict[str, Count] = {}
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read what was recorded today, and begin to count. Raises: django.db.Error."""
        EVERYBODY.usage.apply(conf.quotas())
        counted = await self._workers.run(_read)
        for usage in ring.usages:
            usage.day, usage.bytes = counted.get(usage.label, (0, 0))
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Write what has changed since the last tick."""
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
            await self._write()

    async def _write(self) -> None:
        counts = [
            (usage.label, usage.day, usage.bytes)
            for usage in ring.usages
            if usage.quotas.bytes != NO_LIMIT and usage.bytes
        ]
        changed = [count for count in counts if self._written.get(count[0]) != count]
        if not changed:
            return
        try:
            await self._workers.run(_store, changed)
        except Error as error:  # the next tick tries again
            log.debug("recorded_bytes_not_written", error=type(error).__name__)
        else:
            self._written.update({count[0]: count for count in changed})


def _read() -> dict[str, tuple[int, int]]:
    """Return the day and the bytes of each key for which something was recorded today."""
    today = int(time.time()) // DAY_SECONDS
    rows = RecordedBytes.objects.filter(day=today).values_list("label", "day", "count")
    return {label: (day, count) for label, day, count in rows}


def _store(counts: list[Count]) -> None:
    RecordedBytes.objects.bulk_create(
        [RecordedBytes(label=label[:200], day=day, count=count) for label, day, count in counts],
        update_conflicts=True,
        unique_fields=["label"],
        update_fields=["day", "count"],
    )
