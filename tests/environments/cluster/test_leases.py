"""Leases of sessions, on PostgreSQL, which alone several servers can share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from django.db import connection

from environments.cluster import leases
from environments.cluster.leases import Leases, lease_of
from environments.models import ClusterServer, SessionLease
from tests.conformance.agent import eventually

pytestmark = pytest.mark.django_db(transaction=True)


def test_it_is_named_by_a_digest_because_a_client_may_have_chosen_a_secret_as_the_id() -> None:
    assert lease_of("a-secret") == lease_of("a-secret") != lease_of("another")
    assert "secret" not in lease_of("a-secret")


if connection.vendor == "postgresql":

    @pytest.fixture
    def own() -> Iterator[Leases]:
        one = Leases(ClusterServer.objects.create(pid=1).pk)
        one.start()
        yield one
        one.close()

    def sessions() -> set[str]:
        return {lease.session for lease in SessionLease.objects.all()}

    def test_what_is_given_up_is_deleted_with_the_next_question(
        own: Leases, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(leases, "MAX_RELEASE_SECONDS", 60.0)

        async def play() -> set[str]:
            await own.claim("first")
            own.release("first")
            await own.claim("second")
            return await asyncio.to_thread(sessions)

        assert asyncio.run(play()) == {lease_of("second")}

    def test_what_is_given_up_does_not_wait_for_long(own: Leases) -> None:
        asyncio.run(own.claim("only"))
        own.release("only")
        eventually(lambda: not sessions())

    def test_what_is_given_up_last_is_deleted_at_the_end(
        own: Leases, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(leases, "MAX_RELEASE_SECONDS", 60.0)
        asyncio.run(own.claim("only"))
        own.release("only")
        own.close()
        assert not sessions()

    def test_a_session_is_claimed_again_at_once(own: Leases) -> None:
        async def play() -> int:
            await own.claim("again")
            own.release("again")
            return await own.claim("again")

        server = asyncio.run(play())
        assert SessionLease.objects.get().server_id == server
