"""What one server of a database does beside recording: deriving figures from endings, and upkeep.

A server that has its database alone does so from its start to its end, one of several servers as
long as it leads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

import structlog
from django.conf import settings

from environments.database.worker_threads import Workers
from episodes.recording.upkeep import Upkeep
from episodes.removal.loose_blobs import Forget
from episodes.rollups.follower import Follower
from episodes.rollups.follower_process import FollowerProcess

CHECK_SECONDS = 0.1
"""Time between two looks at whether this server leads."""
MAX_FOLLOWER_SECONDS = 1.0
"""A stop waits this long for the follower, which continues from where it was at the next start."""

log = structlog.get_logger(__name__)


class LeaderDuties:
    """The follower and upkeep. Used on the loop, except for `wake`, `places` and `idle_seconds`."""

    def __init__(self) -> None:
        self._follower: FollowerProcess | Follower | None = None
        self._upkeep: Upkeep | None = None
        self._watch: asyncio.Task[None] | None = None
        self._follower_at = 0.0

    def start(
        self,
        readers: Workers,
        forget: Forget,
        leads: Callable[[], bool] | None,
        delay_seconds: float = 0.0,
    ) -> None:
        """Begin, at once or when `leads` returns true. `forget`: see
        `episodes/removal/loose_blobs.py`.

        `delay_seconds`: from now until the process of the follower may start, on a server that
        leads by then.
        """
        self._follower_at = time.monotonic() + delay_seconds
        if leads is None:
            self._begin(readers, forget)
        else:
            self._watch = asyncio.get_running_loop().create_task(
                self._follow_lead(readers, forget, leads)
            )

    def cease_upkeep(self) -> None:
        """Stop all but the follower, which goes on with what is being written."""
        if self._watch is not None:
            self._watch.cancel()
        if self._upkeep is not None:
            self._upkeep.stop()

    async def stop(self) -> None:
        """Stop the follower too."""
        self.cease_upkeep()
        await self._cease()

    def wake(self) -> None:
        """Note that something was committed."""
        if (follower := self._follower) is not None:
            follower.wake()

    def places(self) -> Mapping[str, int]:
        """Return the number of the last ending that each part has followed; empty if another server
        follows."""
        follower = self._follower
        return follower.places() if follower is not None else {}

    def idle_seconds(self) -> float:
        """Return how long ago each part last followed something, or found nothing to follow: the
        longest of them."""
        follower = self._follower
        return follower.idle_seconds() if follower is not None else 0.0

    def _begin(self, readers: Workers, forget: Forget) -> None:
        self._upkeep = Upkeep(readers, forget)
        delay_seconds = max(0.0, self._follower_at - time.monotonic())
        self._follower = (
            FollowerProcess(delay_seconds) if settings.ORSWEB_FOLLOWER == "process" else Follower()
        )
        self._follower.start()

    async def _cease(self) -> None:
        upkeep, self._upkeep = self._upkeep, None
        follower, self._follower = self._follower, None
        if upkeep is not None:
            upkeep.stop()
        if follower is not None:
            await asyncio.to_thread(follower.stop, MAX_FOLLOWER_SECONDS)

    async def _follow_lead(
        self, readers: Workers, forget: Forget, leads: Callable[[], bool]
    ) -> None:
        """Begin and cease as this server begins and ceases to lead, until cancelled.

        Two servers may follow for a moment. What both follow is written once
        (`episodes/rollups/part_runner.py`).
        """
        while True:
            if leads() and self._follower is None:
                log.info("this server leads")
                self._begin(readers, forget)
            elif not leads() and self._follower is not None:
                log.warning("this server does not lead any more")
                await self._cease()
            await asyncio.sleep(CHECK_SECONDS)
