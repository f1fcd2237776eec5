"""The servers that share a database, as operators see them: which live, which leads, and how many
sessions each has."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import InterfaceError, OperationalError

from environments.cluster.membership import LEADING, LOCKS, Membership
from environments.cluster.ownership import Ownership

MAX_DEAD = 10
"""Servers that have ended which are listed: the latest ones, and before them those whose sessions
wait."""
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
    """One of the servers; a process that is started again is another one."""

    id: int
    address: str
    """Where the others reach it."""
    machine: str
    """Name of its machine."""
    pid: int
    started: datetime
    ended: datetime | None
    """When it stopped, or was found dead; None while it lives."""
    sessions: int
    """Sessions that it has, or that a dead one has left and nobody has taken over."""
    is_leader: bool


@dataclass(frozen=True, slots=True)
class ClusterLoad:
    """The servers of the database, and what has happened between this one and others."""

    own_id: int
    servers: Sequence[ListedServer]
    passed_on: Mapping[str, int]
    """Requests by what came of them; see ClusterCounts."""
    taken_over: Mapping[str, int]

    @property
    def is_leader(self) -> bool:
        return any(server.is_leader for server in self.servers if server.id == self.own_id)


async def cluster_load_of(ownership: Ownership) -> ClusterLoad:
    """Return the load. It names no servers while the database is away."""
    servers = list[ListedServer]()
    with contextlib.suppress(OperationalError, InterfaceError):
        servers = await asyncio.to_thread(_list_servers, ownership.membership)
    counts = ownership.counts
    return ClusterLoad(
        ownership.membership.id, servers, dict(counts.passed_on), dict(counts.taken_over)
    )


def _list_servers(membership: Membership) -> list[ListedServer]:
    """Return the servers that live, and some that have ended in the last day. Blocks. Raises:
    django.db.Error."""
    rows = membership.ask(_LIST, {"locks": LOCKS, "leading": LEADING})
    servers = [ListedServer(*row) for row in rows]
    living = [server for server in servers if server.ended is None]
    return living + servers[len(living) : len(living) + MAX_DEAD]
