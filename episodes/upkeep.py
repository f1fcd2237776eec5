"""Upkeep: sees that the statistics of tasks follow the definitions in force. Made and stopped by the recorder.

It looks every other second, which is a query of the environments, and recounts on one of the recorder's reader threads
(`recount.py`). A recount that a stop cut short is due again at the next start.
"""

from __future__ import annotations

import asyncio
import threading
import time

import structlog
from django.db import Error

from environments.workers import Workers
from episodes.recount import rebuild, stale

LOOK_SECONDS = 2.0
LONGEST_WAIT_SECONDS = 60.0

log = structlog.get_logger(__name__)


class Upkeep:
    """Runs on the loop until it is stopped."""

    def __init__(self, readers: Workers) -> None:
        self._readers = readers
        self._stopped = threading.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """A recount that is under way ends with its transaction."""
        self._stopped.set()
        self._task.cancel()

    async def _run(self) -> None:
        wait = LOOK_SECONDS
        while True:
            try:
                await self._readers.run(self._recount)
                wait = LOOK_SECONDS
            except Error as error:  # the database is away, or busy for too long
                log.warning("statistics_not_recounted", error=type(error).__name__)
                wait = min(wait * 2, LONGEST_WAIT_SECONDS)
            await asyncio.sleep(wait)

    def _recount(self) -> None:
        for environment in stale():
            if self._stopped.is_set():
                return
            began = time.monotonic()
            tasks = rebuild(environment, stop=self._stopped)
            if tasks:
                seconds = round(time.monotonic() - began, 2)
                log.info("statistics_recounted", environment=environment.name, tasks=tasks, seconds=seconds)
