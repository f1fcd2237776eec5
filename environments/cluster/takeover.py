"""Which server has a session, and how this server takes over the sessions of dead ones.

A session that another server has left is opened again as after a restart of this one
(`environments/runtime/sessions_after_restart.py`), or its episode ends as interrupted. That happens at the
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
from django.http import HttpRequest, HttpResponse

from environments.cluster.leases import Leases
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
from environments.cluster.passed_requests import PASSED_ON
from environments.cluster.remote_page import page_of, scope_of
from environments.database.worker_threads import until_there
from environments.errors import SessionExists
from environments.quotas import KeyUsage
from environments.runtime.incident_reports import LeftBehind, read_left_behind
from environments.runtime.records import OpenEpisode
from environments.runtime.service import SessionService
from environments.runtime.session_request import SessionRequest

MAX_ROUTES = 100_000
"""Most remembered sessions of other servers; when there are more, all are forgotten."""
REPORT_SECONDS = 0.4
"""How long to wait for a supervisor's report on a server that died while calls ran: one of them may
have killed it."""
REPORT_CHECK_SECONDS = 0.05
LEFT_SECONDS = 15.0
"""Interval at which the leader checks whether dead servers have left sessions."""
LOOKS_PER_SEARCH = 40
"""At every so many checks, the leader also searches for running episodes without a lease."""

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
        self._leases, self._service = leases, service
        self._record, self._usage_of = record, usage_of
        self._routes: dict[str, int] = {}  # servers of sessions that others have
        # sessions that have a lease, and will be opened by a request
        self._claimed: set[str] = set()
        self._taking: dict[str, asyncio.Task[None]] = {}
        self._checking: asyncio.Task[None] | None = None
        self._taking_left: asyncio.Task[None] | None = None
        self._sweep: asyncio.Task[None] | None = None

    async def open(self, sids: Collection[str], remains: LeftBehind) -> None:
        """Go on with these sessions of earlier servers; `remains`: what the process before left."""
        self._service.share_sessions(self)
        await self._go_on(sids, remains, stores_reports=True)
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
        while True:
            if sid in self._taking:
                await asyncio.shield(self._taking[sid])
            owner = self._routes.get(sid)
            if owner is None:
                owner = await (self._leases.claim(sid) if is_new else self._leases.find(sid))
                if owner is None or owner == self.membership.id:
                    if self._taking_left is not None:
                        await asyncio.shield(self._taking_left)
                    if is_new:
                        self._claimed.add(sid)
                    return None
                if len(self._routes) >= MAX_ROUTES:
                    self._routes.clear()
                self._routes[sid] = owner
            if peer := self.membership.peers.get(owner):
                return peer
            await self.check_peers()
            if owner not in self.membership.peers:
                self._routes.pop(sid, None)
                await self._take_over(sid, owner)

    def page_from(self, server: int, request: HttpRequest) -> HttpResponse | None:
        """Return the page of another server, for views on the threads of pages; None if that is
        this one, is gone or does not answer, or the request was passed on already."""
        peer = self.membership.peers.get(server)
        if peer is None or PASSED_ON in scope_of(request):
            return None
        return page_of(peer, request)

    def forget_place(self, sid: str) -> None:
        """Ask the database where the session is when it is needed again."""
        self._routes.pop(sid, None)

    async def claim(self, sid: str, opening: str) -> None:
        """Take the session for this server. Raises: SessionExists if another server has it."""
        if sid in self._claimed and not opening:
            return
        if await self._leases.claim(sid, opening) != self.membership.id:
            raise SessionExists

    def release(self, sid: str) -> None:
        """Give up a session of this server that has ended, or was not opened."""
        self._claimed.discard(sid)
        self._leases.release(sid)

    def settle_claim(self, sid: str) -> None:
        """Note that the request has been answered which was to open the session."""
        self._claimed.discard(sid)
        if not self._service.is_live(sid):
            self.release(sid)

    async def check_peers(self) -> None:
        """Read which servers live; callers at the same time share the answer. The database may be
        away."""
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

    # --- taking over ------------------------------------------------------------------------------

    async def _take_over(self, sid: str, dead: int) -> None:
        """Take over one session of a server that is dead; concurrent requests wait for the same."""
        if sid not in self._taking:
            task = self._taking[sid] = asyncio.get_running_loop().create_task(self._take(sid, dead))
            task.add_done_callback(lambda _: self._taking.pop(sid, None))
        await asyncio.shield(self._taking[sid])

    async def _take(self, sid: str, dead: int) -> None:
        # before the lease is taken: afterwards, a successor may have overwritten it
        remains = await self._remains_of(self.membership.directory_of(dead))
        if await self._leases.take(sid):
            await self._go_on([sid], remains, stores_reports=False)

    async def _remains_of(self, directory: Path | None) -> LeftBehind:
        if directory is None:
            return LeftBehind()
        remains = await asyncio.to_thread(read_left_behind, directory)
        seconds = 0.0
        while remains.running and not remains.reports and seconds < REPORT_SECONDS:
            await asyncio.sleep(REPORT_CHECK_SECONDS)
            seconds += REPORT_CHECK_SECONDS
            remains = await asyncio.to_thread(read_left_behind, directory)
        return remains

    async def _go_on(
        self, sids: Collection[str], remains: LeftBehind, *, stores_reports: bool
    ) -> None:
        """Go on with the sessions, which are this server's now, or else end their episodes."""
        # nobody else has them now, so they wait for a database that is away
        closed_count, episodes, requests = await until_there(
            lambda: self._recover(sids, remains, stores_reports=stores_reports)
        )
        self._service.take_over([*episodes, *requests], self._usage_of)
        survivors = {episode.session_id for episode in episodes}
        survivors |= {request.sid for request in requests}
        for sid in {*sids} - survivors:
            self.release(sid)
        count = len(episodes) + len(requests)
        self.counts.taken_over.update({"going on": count, "closed": closed_count})
        if closed_count or count:
            log.warning(
                "sessions were taken over",
                going_on=count,
                closed=closed_count,
                death=remains.death or None,
            )

    async def _recover(
        self, sids: Collection[str], remains: LeftBehind, *, stores_reports: bool
    ) -> tuple[int, list[OpenEpisode], list[SessionRequest]]:
        """Return the number of closed episodes, those that go on, and what opens the sessions
        without an environment, of which nothing is on record."""
        names = [each.name for each in self._service.registry if each.comes_back]
        closed_count, episodes = await self._record.recover(
            remains, names, sids, stores_reports=stores_reports
        )
        others = {*sids} - {episode.session_id for episode in episodes}
        openings = await self._leases.openings(others) if others else {}
        recorded_sids = await self._record.recorded_sessions(openings) if openings else ()
        requests = [
            SessionRequest.from_opening(sid, opening)
            for sid, opening in openings.items()
            if sid not in recorded_sids
        ]
        return closed_count, episodes, requests

    async def _sweep_left(self) -> None:
        """As the leader, take over what dead servers left and no request asked for; until
        cancelled."""
        # servers of which only sessions without an episode are left
        searched_servers: Collection[int] = ()
        for look in itertools.count(1):
            await asyncio.sleep(LEFT_SECONDS)
            if not self.membership.is_leader:
                continue
            dead = await self._leases.left_by()
            is_due = look % LOOKS_PER_SEARCH == 0 or {*dead}.difference(searched_servers)
            if is_due and await self._take_all_left():
                self._leases.drop(dead)
                searched_servers = dead

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
        sids = await self._leases.take_left(sids)
        if new_sids := [sid for sid in sids if not self._service.is_live(sid)]:
            await self._go_on(new_sids, LeftBehind(), stores_reports=False)


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
