"""Whether the server can be used: the checks of `/ready`, each with its value and its limit.

The database and the disk are checked at most once a second, by one thread at a time, so a database
that hangs blocks a single thread, however many probes ask.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import Error, connection

from environments.runtime.service import SessionService
from environments.service import get_record
from episodes.rollups.progress import newest_end

MAX_AGE_SECONDS = 1.0
"""Age up to which a look at the database and the disk is used again."""
MAX_DATABASE_SECONDS = 2.0
"""Time in which the database has to answer."""


@dataclass(frozen=True, slots=True)
class ReadyCheck:
    name: str
    value: float | None
    """What was measured; None if it could not be."""
    limit: float
    unit: str
    is_minimum: bool = False
    """Whether the value has to be at least the limit; otherwise at most."""

    @property
    def is_met(self) -> bool:
        if self.value is None:
            return False
        return self.value >= self.limit if self.is_minimum else self.value <= self.limit

    def as_json(self) -> dict[str, Any]:
        value = round(self.value, 4) if self.value is not None else None
        limit = {"minimum" if self.is_minimum else "maximum": self.limit}
        return {"ok": self.is_met, "value": value, **limit, "unit": self.unit}


@dataclass(frozen=True, slots=True)
class _Place:
    """The state of the database and the disk."""

    database_seconds: float | None
    """How long the database took to accept a connection and to answer; None if it did not."""
    free_bytes: int | None
    newest_end: int | None = None
    """The number of the newest ending that figures can count; None if the database did not say."""


class Readiness:
    """The checks, on one event loop."""

    def __init__(self) -> None:
        self._looking: asyncio.Task[_Place] | None = None
        self._looked_at = 0.0
        self._newest_end = 0

    async def checks(self, service: SessionService) -> list[ReadyCheck]:
        """Return the checks, which take at most MAX_DATABASE_SECONDS."""
        place = await self._look()
        is_draining, load = service.load().is_draining, get_record().load(self._newest_end)
        return [
            ReadyCheck("stopping", float(is_draining), 0, "1 while the server stops"),
            ReadyCheck(
                "database",
                place.database_seconds,
                MAX_DATABASE_SECONDS,
                "seconds until it answered",
            ),
            ReadyCheck(
                "queue",
                load.queued,
                settings.ORSWEB_READY_MAX_QUEUE,
                "calls that wait to be recorded",
            ),
            ReadyCheck(
                "commit_lag",
                load.oldest_seconds,
                settings.ORSWEB_READY_MAX_COMMIT_LAG,
                "seconds that the oldest waits",
            ),
            ReadyCheck(
                "disk",
                place.free_bytes,
                settings.ORSWEB_READY_MIN_FREE_BYTES,
                "bytes that are free",
                is_minimum=True,
            ),
            ReadyCheck(
                "follower",
                load.follower_seconds,
                settings.ORSWEB_READY_MAX_FOLLOWER_LAG,
                "seconds since all figures followed the record",
            ),
        ]

    async def newest_end(self) -> int:
        """Return the number of the newest ending in the database, of whichever server; while the
        database is away, that of the last look.
        """
        await self._look()
        return self._newest_end

    async def database_answers(self) -> bool:
        """Return whether the database answers in time. Takes at most MAX_DATABASE_SECONDS."""
        seconds = (await self._look()).database_seconds
        return seconds is not None and seconds <= MAX_DATABASE_SECONDS

    async def _look(self) -> _Place:
        loop = asyncio.get_running_loop()
        is_old = time.monotonic() - self._looked_at > MAX_AGE_SECONDS
        if (
            self._looking is None
            or self._looking.get_loop() is not loop
            or (self._looking.done() and is_old)
        ):
            self._looked_at = time.monotonic()
            self._looking = loop.create_task(asyncio.to_thread(_look_at_place))
        await asyncio.wait([self._looking], timeout=MAX_DATABASE_SECONDS)
        place = self._looking.result() if self._looking.done() else _Place(None, None)
        if place.newest_end is not None:
            self._newest_end = place.newest_end
        return place


READINESS = Readiness()


def _look_at_place() -> _Place:
    free_bytes, start = _free_bytes(), time.monotonic()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM django_migrations")
            cursor.fetchone()
        seconds = time.monotonic() - start
        return _Place(seconds, free_bytes, newest_end())
    except Error:
        return _Place(None, free_bytes)
    finally:
        connection.close()


def _free_bytes() -> int | None:
    """Return the free space of the data directory or of the database's, whichever has less."""
    places = [Path(settings.DATA_DIR)]
    if connection.vendor == "sqlite":
        places.append(Path(str(connection.settings_dict["NAME"])).resolve().parent)
    try:
        return min(shutil.disk_usage(place).free for place in places)
    except OSError:
        return None
