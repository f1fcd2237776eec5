"""Which server has a session, as requests of any server ask, and how this one takes over the
sessions of dead ones.

A session that another server has left is opened again as after a restart of this one
(`environments/runtime/session_return.py`), or its episode ends as interrupted. That happens at the
session's next request; the leader takes over what nobody has asked for.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog
from django.db import Error

from environments.cluster.leases import Leases, lease_of
from environments.cluster.membership import (
    LOCKS,
    STARTING,
    DatabaseTaken,
    DeclaredDead,
    Membership,
    Peer,
    fresh_connection,
    stop_at_once,
)
from environments.database.worker_threads import until_there
from environments.errors import SessionExists
from environments.runtime.incident_reports import LeftBehind, read_left_behind
from environments.runtime.quotas import KeyUsage
from environments.runtime.records import OpenEpisode
from environments.runtime.service import SessionService
from environments.runtime.session_request import SessionRequest

MAX_ROUTES = 100_000
"""Sessions of other servers that are remembered; when there are more, all are forgotten."""
REPORT_SECONDS = 0.4
"""How long to wait for a supervisor's report on a server that died while calls ran: one of them may
have killed it."""
REPORT_CHECK_SECONDS = 0.05
LEFT_SECONDS = 15.0
"""Time between two looks of the leader at whether dead servers have left sessions."""
LOOKS_PER_SEARCH = 40
"""At one in so many looks, the leader also searches for running episodes whose sessions have no
lease."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterCounts:
    """What has happened between this server and others since it was started."""

    passed_on: Counter[str] = field(default_factory=Counter)
    """Requests that were passed on, by what came of it: answered, moved (the session was not there
    any more), no answer (the server was lost), or given up. What has moved or was lost is tried
    again and counts again."""
    taken_over: Counter[str] = field(default_factory=Counter)
    """Sessions that were taken over from dead servers: going on, or closed."""


class Ownership:
    """Used on the event loop, from `open` to `close`."""

    def __init__(
        self,
        membership: Membership,
        leases: Leases,
        service: SessionService,
        record: Any,
        usage_of: Callable[[str], KeyUsage],
    ) -> None:
        """`usage_of` returns what the key with a label uses."""
        self.membership = membership
        self.counts = ClusterCounts()
        self._leases, self._service, self._record, self._usage_of = (
            leases,
            service,
            record,
            usage_of,
        )
        self._routes: dict[str, int] = {}  # servers of sessions that others have, by their leases
        # leases that were made for requests which will open their sessions
        self._claimed: set[str] = set()
        self._taking: dict[str, asyncio.Task[None]] = {}
        self._checking: asyncio.Task[None] | None = None
        self._taking_left: asyncio.Task[None] | None = None
        self._sweep: asyncio.Task[None] | None = None

    async def open(self, taken: Collection[str], left: LeftBehind) -> None:
        """Go on with the sessions `taken` from servers before this one; `left` is what the process
        before it left."""
        self._service.share_sessions(self)
        await self._go_on(taken, left, stores_reports=True)
        self._sweep = asyncio.get_running_loop().create_task(self._sweep_left())

    def close(self) -> None:
        """Give up what was released. Blocks."""
        if self._sweep is not None:
            self._sweep.cancel()
        self._leases.close()

    # --- for requests -----------------------------------------------------------------------------

    async def place_of(self, sid: str, *, is_new: bool = False) -> Peer | None:
        """Return which other server has the session; None: this one has it, or none.

        `is_new`: this server gets it unless another one has it. Waits until sessions of dead
        servers are taken over.
        """
        lease = lease_of(sid)
        while True:
            if lease in self._taking:
                await asyncio.shield(self._taking[lease])
            owner = self._routes.get(lease)
            if owner is None:
                owner = await (self._leases.claim(lease) if is_new else self._leases.find(lease))
                if owner is None or owner == self.membership.id:
                    if self._taking_left is not None:
                        await asyncio.shield(self._taking_left)
                    if is_new:
                        self._claimed.add(lease)
                    return None
                self._remember(lease, owner)
            if peer := self.membership.peers.get(owner):
                return peer
            await self.check_peers()
            if owner not in self.membership.peers:
                self._routes.pop(lease, None)
                await self._take_over(sid, lease, owner)

    def forget_place(self, sid: str) -> None:
        """Ask the database where the session is when it is needed again."""
        self._routes.pop(lease_of(sid), None)

    async def claim(self, sid: str, opening: str) -> None:
        """Take the session for this server. Raises: SessionExists if another server has it."""
        lease = lease_of(sid)
        if opening:
            owner = await self._leases.open(lease, opening)
        else:
            owner = (
                self.membership.id if lease in self._claimed else await self._leases.claim(lease)
            )
        if owner != self.membership.id:
            raise SessionExists

    def release(self, sid: str) -> None:
        """Give up a session of this server that has ended, or was not opened."""
        lease = lease_of(sid)
        self._claimed.discard(lease)
        self._leases.release(lease)

    def settle_claim(self, sid: str) -> None:
        """Note that the request has been answered which was to open the session."""
        self._claimed.discard(lease_of(sid))
        if not self._service.is_live(sid):
            self.release(sid)

    async def check_peers(self) -> None:
        """See which servers live; callers share one look. The database may be away."""
        if self._checking is None or self._checking.done():
            self._checking = asyncio.get_running_loop().create_task(self._renew())
        await asyncio.shield(self._checking)

    async def _renew(self) -> None:
        try:
            await asyncio.to_thread(self.membership.renew)
        except DeclaredDead:
            stop_at_once()
        except (DatabaseTaken, Error) as error:  # the lifespan's own look will say so
            log.debug("peers_not_read", error=type(error).__name__)

    def _remember(self, lease: str, owner: int) -> None:
        if len(self._routes) >= MAX_ROUTES:
            self._routes.clear()
        self._routes[lease] = owner

    # --- taking over ------------------------------------------------------------------------------

    async def _take_over(self, sid: str, lease: str, dead: int) -> None:
        """Take over one session of a server that is dead; concurrent requests wait for the same."""
        if lease not in self._taking:
            task = self._taking[lease] = asyncio.get_running_loop().create_task(
                self._take(sid, lease, dead)
            )
            task.add_done_callback(lambda _: self._taking.pop(lease, None))
        await asyncio.shield(self._taking[lease])

    async def _take(self, sid: str, lease: str, dead: int) -> None:
        # before the lease is taken: afterwards, a successor may have overwritten it
        left = await self._left_by(self.membership.directory_of(dead))
        if await self._leases.take(lease):
            await self._go_on([sid], left, stores_reports=False)

    async def _left_by(self, directory: Path | None) -> LeftBehind:
        if directory is None:
            return LeftBehind()
        left = await asyncio.to_thread(read_left_behind, directory)
        waited = 0.0
        while left.running and not left.reports and waited < REPORT_SECONDS:
            await asyncio.sleep(REPORT_CHECK_SECONDS)
            waited += REPORT_CHECK_SECONDS
            left = await asyncio.to_thread(read_left_behind, directory)
        return left

    async def _go_on(
        self, sids: Collection[str], left: LeftBehind, *, stores_reports: bool
    ) -> None:
        """Go on with those of the sessions, which are this server's now, that can, and end the
        others' episodes."""
        # nobody else has them now, so they wait for a database that is away
        closed, going_on, unbound = await until_there(
            lambda: self._recover(sids, left, stores_reports=stores_reports)
        )
        self._service.take_over([*going_on, *unbound], self._usage_of)
        for sid in {*sids} - {one.session_id for one in going_on} - {one.sid for one in unbound}:
            self.release(sid)
        count = len(going_on) + len(unbound)
        self.counts.taken_over.update({"going on": count, "closed": closed})
        if closed or count:
            log.warning(
                "sessions were taken over", going_on=count, closed=closed, death=left.death or None
            )

    async def _recover(
        self, sids: Collection[str], left: LeftBehind, *, stores_reports: bool
    ) -> tuple[int, list[OpenEpisode], list[SessionRequest]]:
        """Return how many episodes were closed, those that go on, and what opens the sessions
        without an episode."""
        names = [hosted.name for hosted in self._service.registry if hosted.comes_back]
        closed, going_on = await self._record.recover(
            left, names, sids, stores_reports=stores_reports
        )
        others = {*sids} - {one.session_id for one in going_on}
        return closed, going_on, await self._unbound(others) if others else []

    async def _unbound(self, sids: Collection[str]) -> list[SessionRequest]:
        """Return what opens those of the sessions again that had no environment yet, so that
        nothing is on record."""
        kept = await self._leases.openings([lease_of(sid) for sid in sids])
        recorded = await self._record.recorded_sessions(sids) if kept else ()
        found = [(sid, kept.get(lease_of(sid))) for sid in sids if sid not in recorded]
        return [SessionRequest.from_opening(sid, opening) for sid, opening in found if opening]

    async def _sweep_left(self) -> None:
        """Take over, as the leader, what dead servers have left and no request has asked for; until
        cancelled."""
        searched: Collection[int] = ()  # servers of which only sessions without an episode are left
        for look in itertools.count(1):
            await asyncio.sleep(LEFT_SECONDS)
            if not self.membership.is_leader:
                continue
            dead = await self._leases.left_by()
            if (
                look % LOOKS_PER_SEARCH == 0 or {*dead}.difference(searched)
            ) and await self._take_all_left():
                self._leases.drop(dead)
                searched = dead

    async def _take_all_left(self) -> bool:
        """Return whether all sessions were looked at."""
        try:
            async for sids in self._record.running_sessions():
                # requests wait for the sessions of one page at most
                self._taking_left = asyncio.get_running_loop().create_task(self._take_left(sids))
                await asyncio.wait([self._taking_left])
                self._taking_left = None
        except Error as error:  # the database is away
            log.debug("left_sessions_not_taken", error=type(error).__name__)
            return False
        return True

    async def _take_left(self, sids: Collection[str]) -> None:
        try:
            taken = [
                sid for sid in await take_left(self._leases, sids) if not self._service.is_live(sid)
            ]
            if taken:
                await self._go_on(taken, LeftBehind(), stores_reports=False)
        except Error as error:
            log.debug("left_sessions_not_taken", error=type(error).__name__)


@asynccontextmanager
async def starting_alone(membership: Membership | None) -> AsyncIterator[None]:
    """Let one of several servers at a time run the block. Raises: django.db.Error."""
    lock = fresh_connection("default")

    def acquire() -> None:
        with lock.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s, %s)", [LOCKS, STARTING])

    try:
        if membership is not None:
            await asyncio.to_thread(acquire)
        yield
    finally:
        await asyncio.to_thread(lock.close)


async def take_left(leases: Leases, sids: Collection[str]) -> list[str]:
    """Take those of the sessions that servers which have ended have left, or that have no lease;
    return their ids."""
    by_lease = {lease_of(sid): sid for sid in sids}
    return [by_lease[lease] for lease in await leases.take_left(by_lease)]
