"""How the leader finds what dead servers have left: it reads the ids of running sessions only if
there is something."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from environments.cluster import takeover as ownership
from environments.cluster.leases import Leases, lease_of
from environments.database import worker_threads
from environments.models import ClusterServer, SessionLease
from environments.runtime.incident_reports import LeftBehind
from episodes.recording import returning_episodes
from episodes.recording.returning_episodes import running_sessions
from tests.episodes.recorded import record
from tests.factories import episode_ended, episode_started

pytestmark = pytest.mark.django_db(transaction=True)


def test_running_sessions_are_read_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(returning_episodes, "PAGE_SESSIONS", 2)
    record([episode_started(number, session_id=f"s{number}") for number in range(1, 6)])
    record([episode_ended(3)])
    assert [running_sessions(after) for after in (0, 2, 5)] == [
        [(1, "s1"), (2, "s2")],
        [(4, "s4"), (5, "s5")],
        [],
    ]


if connection.vendor == "postgresql":

    class RunningRecord:
        """The record of sessions that run, which counts how often it was asked for them and what
        was taken over."""

        def __init__(self, *sids: str) -> None:
            self.sids, self.searches = sids, 0
            self.recovered = list[str]()
            self.failures = 0

        async def running_sessions(self) -> AsyncIterator[list[str]]:
            self.searches += 1
            for sid in self.sids:
                yield [sid]

        async def recover(
            self, _: object, __: object, sids: list[str], **___: object
        ) -> tuple[int, list[Any]]:
            if self.failures:
                self.failures -= 1
                raise OperationalError("the database system is shutting down")
            self.recovered += sids
            return len(sids), []

    @pytest.fixture
    def living() -> ClusterServer:
        return ClusterServer.objects.create(pid=1)

    @pytest.fixture
    def dead() -> ClusterServer:
        return ClusterServer.objects.create(pid=2, ended=timezone.now())

    @pytest.fixture
    def leases(living: ClusterServer) -> Iterator[Leases]:
        one = Leases(living.pk)
        one.start()
        yield one
        one.close()

    def lead(
        leases: Leases, asked: RunningRecord, looks: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Let a leader look so many times at what is left."""
        service = SimpleNamespace(
            share_sessions=lambda _: None,
            registry=[],
            take_over=lambda *_: None,
            is_live=lambda _: False,
        )
        done = asyncio.Event()

        async def left_by() -> Collection[int]:
            nonlocal looks
            looks -= 1
            if looks < 0:
                done.set()
            return await Leases.left_by(leases)

        async def look() -> None:
            leader: Any = SimpleNamespace(id=0, is_leader=True)
            owner = ownership.Ownership(leader, leases, service, asked, lambda _: None)  # type: ignore[arg-type]
            await owner.open([], LeftBehind())
            await asyncio.wait_for(done.wait(), 10)
            owner.close()

        monkeypatch.setattr(leases, "left_by", left_by)
        monkeypatch.setattr(ownership, "LEFT_SECONDS", 0.01)
        asyncio.run(look())

    def test_the_leader_reads_no_session_while_nothing_is_left(
        leases: Leases, living: ClusterServer, dead: ClusterServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        SessionLease.objects.create(session=lease_of("mine"), server=living)
        asked = RunningRecord("mine")
        lead(leases, asked, 3, monkeypatch)
        assert (asked.searches, asked.recovered) == (0, [])

    def test_the_leader_takes_over_what_a_dead_server_has_left(
        leases: Leases, living: ClusterServer, dead: ClusterServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        SessionLease.objects.create(session=lease_of("mine"), server=living)
        SessionLease.objects.create(session=lease_of("left"), server=dead)
        asked = RunningRecord("mine", "left", "without a lease")
        lead(leases, asked, 2, monkeypatch)
        assert (asked.searches, asked.recovered) == (1, ["left", "without a lease"])

    @pytest.mark.parametrize(("hours", "left"), [(0, {"mine", "unbound"}), (2, {"mine"})])
    def test_leases_that_no_running_session_has_are_deleted(
        leases: Leases,
        living: ClusterServer,
        dead: ClusterServer,
        monkeypatch: pytest.MonkeyPatch,
        hours: int,
        left: set[str],
    ) -> None:
        """But for an hour those of sessions that have no episode yet, for which no further search
        is made."""
        ClusterServer.objects.filter(pk=dead.pk).update(
            ended=timezone.now() - timedelta(hours=hours)
        )
        SessionLease.objects.create(session=lease_of("mine"), server=living)
        SessionLease.objects.create(session=lease_of("ended"), server=dead)
        SessionLease.objects.create(session=lease_of("unbound"), server=dead, opening="{}")
        asked = RunningRecord()
        lead(leases, asked, 3, monkeypatch)
        assert asked.searches == 1
        assert {one.session for one in SessionLease.objects.all()} == {
            lease_of(sid) for sid in left
        }

    def test_what_was_taken_waits_for_the_database(
        leases: Leases, dead: ClusterServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its lease is this server's already, so nobody else would take it over."""
        SessionLease.objects.create(session=lease_of("left"), server=dead)
        asked = RunningRecord("left")
        asked.failures = 3
        monkeypatch.setattr(worker_threads, "RETRY_SECONDS", 0.001)
        lead(leases, asked, 2, monkeypatch)
        assert asked.recovered == ["left"]

    def test_it_sometimes_searches_for_sessions_without_a_lease(
        leases: Leases, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ownership, "LOOKS_PER_SEARCH", 3)
        asked = RunningRecord("without a lease")
        lead(leases, asked, 3, monkeypatch)
        assert (asked.searches, asked.recovered) == (1, ["without a lease"])

    def test_leases_of_living_servers_are_not_locked(leases: Leases, living: ClusterServer) -> None:
        SessionLease.objects.create(session=lease_of("mine"), server=living)
        assert list(asyncio.run(leases.take_left(["mine"]))) == []
        with connection.cursor() as cursor:
            cursor.execute("SELECT xmax::text FROM environments_sessionlease")
            assert cursor.fetchall() == [("0",)]  # no transaction has locked the row
