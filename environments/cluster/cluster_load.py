"""The servers that share a database, for operators: which live, which leads, and how many sessions
each has."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import InterfaceError, OperationalError

from environments.cluster.membership import LEADING, LOCKS
from environments.cluster.takeover import Ownership

MAX_DEAD = 10
"""Most ended servers in the list: first those whose sessions wait, then the latest."""
_LIST = """
    WITH leader AS (
        SELECT own.objid::bigint AS id FROM pg_locks AS lead JOIN pg_locks AS own USING (pid)
        WHERE lead.locktype = 'advisory' AND lead.classid = %(locks)s AND lead.objid = %(leading)s
          AND lead.objsubid = 2 AND lead.granted
          AND lead.database = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND own.locktype = 'advisory' AND own.classid = %(locks)s AND own.objsubid = 2
          AND own.database = lead.database
    ), leases AS (SELECT server_id, count(*) AS sessions FROM environments_sessionlease GROUP BY server_id)
    SELECT s.id, s.address, s.machine, s.pid, s.started, s.ended, coalesce(leases.sessions, 0),
           s.id IN (SELECT id FROM leader)
    FROM environments_clusterserver AS s LEFT JOIN leases ON leases.server_id = s.id
    WHERE s.ended IS NULL OR s.ended > now() - interval '1 day' OR leases.sessions > 0
    ORDER BY s.ended IS NOT NULL, leases.sessions IS NULL AND s.ended IS NOT NULL, s.ended DESC, s.id
"""


@dataclass(frozen=True, slots=True)
class ListedServer:
    """One of the servers; a restarted process is another one."""

    id: int
    address: str
    """Where other servers reach it."""
    machine: str
    """Name of its machine."""
    pid: int
    started: datetime
    ended: datetime | None
    """When it stopped, or was found dead; None while it lives."""
    sessions: int
    """Its sessions; those of a dead server wait to be taken over."""
    is_leader: bool


@dataclass(frozen=True, slots=True)
class ClusterLoad:
    """The servers of the database, and what has happened between this one and others."""

    own_id: int
    servers: Sequence[ListedServer]
    passed_on: Mapping[str, int]
    """Requests by result; see ClusterCounts."""
    taken_over: Mapping[str, int]

    @property
    def is_leader(self) -> bool:
        return any(server.is_leader for server in self.servers if server.id == self.own_id)


async def cluster_load_of(ownership: Ownership) -> ClusterLoad:
    """Return the load. It names no servers while the database is away."""
    membership, counts = ownership.membership, ownership.counts
    servers = list[ListedServer]()
    with contextlib.suppress(OperationalError, InterfaceError):
        values = {"locks": LOCKS, "leading": LEADING}
        rows = await asyncio.to_thread(membership.ask, _LIST, values)
        servers = [ListedServer(*row) for row in rows]
    living_count = sum(server.ended is None for server in servers)
    del servers[living_count + MAX_DEAD :]  # the living ones come first
    return ClusterLoad(membership.id, servers, counts.passed_on, counts.taken_over)
