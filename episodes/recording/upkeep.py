"""Upkeep: what a server does now and then beside recording, on one of the recorder's reader
threads.

Every two seconds it checks, with a query or two, whether statistics of tasks have to be counted
again, and whether blobs lost a reference. Every ten minutes it removes the episodes whose retention
period is over, and old entries of the security log. All of it is written in short transactions,
with pauses, and continues at the next start where a stop interrupts it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta

import structlog
from django.db import Error, connection
from django.utils import timezone

from environments import conf, security_log
from environments.database.worker_threads import Workers
from episodes.models import Removal
from episodes.removal.loose_blobs import Forget, are_there_any, delete_loose_blobs
from episodes.removal.pace import RemovalPace
from episodes.removal.retention import remove_expired
from episodes.rollups.recount import rebuild, stale

CHECK_SECONDS = 2.0
MAX_WAIT_SECONDS = 60.0
RETENTION_SECONDS = 600.0
"""Time between two rounds of retention."""
MAX_REMOVAL_SECONDS = 30.0
"""A removal that has removed nothing for so long was stopped; until then, nothing is counted for
it."""

log = structlog.get_logger(__name__)


class Upkeep:
    """Does what is due, as a task on the loop, until it is stopped."""

    def __init__(self, readers: Workers, forget: Forget) -> None:
        """`forget`: makes the recorder forget blobs, see `episodes/removal/loose_blobs.py`."""
        self._readers, self._forget = readers, forget
        self._stopped = threading.Event()
        self._retained = -RETENTION_SECONDS  # when retention was last checked
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Stop; what is under way ends with its transaction."""
        self._stopped.set()
        self._task.cancel()

    async def _run(self) -> None:
        wait = CHECK_SECONDS
        while True:
            try:
                for work in (self._remove_expired, self._recount, self._delete_blobs):
                    await self._readers.run(work)
                wait = CHECK_SECONDS
            except Error as error:  # the database is away, or busy for too long
                log.warning("upkeep_failed", error=type(error).__name__)
                wait = min(wait * 2, MAX_WAIT_SECONDS)
            await asyncio.sleep(wait)

    def _remove_expired(self) -> None:
        if time.monotonic() < self._retained + RETENTION_SECONDS:
            return
        total, count, pace = 0, 1, RemovalPace(connection.vendor)
        while count and not self._stopped.is_set():
            total += (count := remove_expired(conf.retention_days(), pace))
            self._stopped.wait(pace.pause_seconds if count else 0)
        while not self._stopped.is_set() and security_log.remove_old(conf.security_log_days()):
            pass
        self._retained = time.monotonic()
        if total:
            log.info("episodes_removed", episodes=total, reason="retention")

    def _recount(self) -> None:
        if _is_removing():
            return
        for environment in stale():
            if self._stopped.is_set():
                return
            began = time.monotonic()
            tasks = rebuild(environment, stop=self._stopped)
            if tasks:
                seconds = round(time.monotonic() - began, 2)
                log.info(
                    "statistics_recounted",
                    environment=environment.name,
                    tasks=tasks,
                    seconds=seconds,
                )

    def _delete_blobs(self) -> None:
        if are_there_any() and not _is_removing() and (count := delete_loose_blobs(self._forget)):
            log.info("blobs_deleted", blobs=count)


def _is_removing() -> bool:
    """Return whether episodes are being removed, which makes counting wait: it would have to be
    done again."""
    since = timezone.now() - timedelta(seconds=MAX_REMOVAL_SECONDS)
    return Removal.objects.filter(ended=None, updated__gt=since).exists()
