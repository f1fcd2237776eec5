"""What the recorder does beside those of other servers, on PostgreSQL: its fence, and numbers of
episodes in blocks."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import NoReturn

import pytest
from django.db import connection, transaction
from django.utils import timezone

from environments.cluster import membership
from environments.errors import NumbersAway
from environments.models import ClusterServer
from episodes.models import Progress
from episodes.recording.number_blocks import AHEAD, BLOCK, NumberBlocks, next_block
from episodes.recording.recorder import Recorder
from episodes.recording.writer import Fence
from tests.episodes.recorded import commit
from tests.factories import episode_started


def test_numbers_go_on_in_the_next_block() -> None:
    async def numbers() -> list[int]:
        async def take() -> range:
            return range(9001, 9001 + BLOCK)

        blocks = NumberBlocks(range(1, BLOCK + 1), take)
        first = [next(blocks) for _ in range(BLOCK - AHEAD + 1)]
        await asyncio.sleep(0)
        return [*first, *(next(blocks) for _ in range(AHEAD))]

    assert asyncio.run(numbers()) == [*range(1, BLOCK + 1), 9001]


def test_without_numbers_no_episode_begins() -> None:
    async def exhaust() -> None:
        async def take() -> range:
            return range(0)

        blocks = NumberBlocks(range(1, 3), take)
        for _ in range(3):
            next(blocks)

    with pytest.raises(NumbersAway):
        asyncio.run(exhaust())


@pytest.fixture
def one_of_four(tmp_path: Path) -> membership.Membership:
    one = membership.Membership("one", tmp_path)
    one.peers = {number: membership.Peer(number, "", "", None) for number in (2, 3, 4)}
    return one


def test_a_server_rests_while_the_others_may_write(one_of_four: membership.Membership) -> None:
    assert one_of_four.rest_seconds(2, 0.005) == pytest.approx(0.015)
    assert one_of_four.rest_seconds(2, 1.0) == membership.MAX_REST_SECONDS


def test_a_server_does_not_rest_for_an_agent_that_plays_alone(
    one_of_four: membership.Membership,
) -> None:
    assert one_of_four.rest_seconds(1, 0.005) == 0.0


def test_a_server_without_others_does_not_rest(one_of_four: membership.Membership) -> None:
    one_of_four.peers = {}
    assert one_of_four.rest_seconds(2, 0.005) == 0.0


if connection.vendor == "postgresql":

    @pytest.mark.django_db(transaction=True)
    def test_nobody_is_declared_dead_right_after_a_start_of_the_database(
        server: ClusterServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """All servers have lost their locks then, and the first one that is back would end the
        others."""
        one = membership.Membership("one", tmp_path)
        monkeypatch.setattr(membership, "RETURN_SECONDS", 1e9)
        one.renew()
        assert [*one.peers] == [server.pk]
        monkeypatch.setattr(membership, "RETURN_SECONDS", 0.0)
        one.renew()
        one.leave()
        assert not one.peers

    class Stopped(Exception):
        pass

    def stop() -> NoReturn:
        raise Stopped

    @pytest.fixture
    def server(db: None) -> ClusterServer:
        return ClusterServer.objects.create(pid=1)

    def test_blocks_of_numbers_belong_to_one_server(server: ClusterServer) -> None:
        other = ClusterServer.objects.create(pid=2, last_episode=7)
        assert next_block(server.pk) == range(8, 8 + BLOCK)
        assert next_block(other.pk) == range(8 + BLOCK, 8 + 2 * BLOCK)

    def test_the_fence_returns_the_last_ending(server: ClusterServer) -> None:
        Progress.objects.create(name="activity", end_number=41)
        with transaction.atomic():
            assert Fence(server.pk, stop).enter(has_endings=True).last_end == 41
            assert Fence(server.pk, stop).enter(has_endings=False).last_end is None

    def test_the_fence_stops_a_server_that_was_found_dead(server: ClusterServer) -> None:
        ClusterServer.objects.filter(pk=server.pk).update(ended=timezone.now())
        with pytest.raises(Stopped):
            Fence(server.pk, stop).enter(has_endings=False)

    @pytest.mark.django_db(transaction=True)
    def test_the_writer_commits_nothing_while_it_rests(server: ClusterServer) -> None:
        async def spent() -> float:
            recorder = Recorder()
            await recorder.start(server.pk, rest=lambda _calls, _spent: 0.3)
            await commit(recorder, episode_started(1))
            began = time.monotonic()
            await commit(recorder, episode_started(2))
            await recorder.stop(10)
            return time.monotonic() - began

        assert asyncio.run(spent()) >= 0.29
