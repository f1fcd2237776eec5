"""While a recorder runs its endings are followed, and a failure in one part delays no other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from django.db import connections
from django.db.backends.signals import connection_created

from episodes.attempts.endings import Ending
from episodes.models import Activity, CurveBlock, Progress
from episodes.recording.recorder import Recorder
from episodes.rollups.activity import ActivityPart
from episodes.rollups.blocks import BlocksPart
from episodes.rollups.follower import CoreTime, rest_seconds
from episodes.rollups.follower_process import relax_commits
from episodes.rollups.text import FIRST_ENDINGS
from tests.episodes.recorded import DEADLINE_SECONDS, commit, query, run
from tests.factories import episode_ended, episode_started

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("episodes.rollups.follower.MIN_REST_SECONDS", 0.001)
    monkeypatch.setattr("episodes.rollups.follower.FIRST_RETRY_SECONDS", 0.001)


def test_it_rests_longer_the_more_there_was_to_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert rest_seconds({"text": 5, "activity": 5}, {"text": 5, "activity": 5}) == pytest.approx(
        0.4
    )
    assert rest_seconds({"text": 5, "activity": 5}, {"text": 5, "activity": 15}) == pytest.approx(
        0.6
    )
    assert rest_seconds(
        {"text": 5, "activity": 5}, {"text": 1000, "activity": 15}
    ) == pytest.approx(1.0)


def test_it_does_not_rest_longer_because_it_begins_after_many_endings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    assert rest_seconds({"text": 0}, {"text": 1000}) == pytest.approx(0.4)


def test_a_part_rests_after_its_turn_if_it_has_waited_for_a_core() -> None:
    before = CoreTime(core_seconds=10.0, waiting_seconds=5.0)
    assert CoreTime(10.5, 5.1).crowded_rest_seconds(before) == pytest.approx(4.5)
    assert CoreTime(20.0, 9.0).crowded_rest_seconds(before) == pytest.approx(30.0)
    assert CoreTime(10.5, 5.01).crowded_rest_seconds(before) == 0.0
    assert CoreTime(10.1, 5.1).crowded_rest_seconds(before) == 0.0


def test_it_knows_how_long_it_has_had_a_core() -> None:
    before = CoreTime.now()
    sum(range(2_000_000))
    assert CoreTime.now().core_seconds > before.core_seconds


async def until_followed(name: str, end_number: int) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not await query(Progress.objects.filter(name=name, end_number=end_number).exists):
            pass


async def play(recorder: Recorder) -> None:
    await commit(
        recorder, *(row for n in range(1, 129) for row in (episode_started(n), episode_ended(n)))
    )


def test_what_ends_is_followed_by_itself() -> None:
    async def follow(recorder: Recorder) -> None:
        await play(recorder)
        await until_followed("activity", 128)
        await until_followed("blocks", 128)

    run(follow, has_duties=True)
    assert CurveBlock.objects.filter(scope="environment").count() == 1
    assert [row.episodes for row in Activity.objects.filter(period=60)] == [128]


def test_a_part_that_rests_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CoreTime, "crowded_rest_seconds", lambda *_: 3600.0)

    async def follow(recorder: Recorder) -> None:
        await play(recorder)
        await until_followed("text", FIRST_ENDINGS)
        await until_followed("activity", 128)

    run(follow, has_duties=True)
    assert Progress.objects.get(name="text").end_number == FIRST_ENDINGS


def test_a_part_that_stumbles_goes_on_when_it_can_and_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stumbles = True
    gather = ActivityPart.gather

    def stumbling(part: ActivityPart, endings: Sequence[Ending]) -> object:
        if stumbles:
            raise RuntimeError("stumbled")
        return gather(part, endings)

    monkeypatch.setattr(ActivityPart, "gather", stumbling)

    async def follow(recorder: Recorder) -> None:
        nonlocal stumbles
        await play(recorder)
        await until_followed(BlocksPart.name, 128)
        assert await query(Progress.objects.filter(name=ActivityPart.name, end_number=0).exists)
        stumbles = False
        await until_followed(ActivityPart.name, 128)

    run(follow, has_duties=True)


def test_the_commits_of_a_follower_in_a_process_of_its_own_do_not_wait_for_the_disk() -> None:
    connection_created.connect(relax_commits)
    connection = connections.create_connection("default")
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "PRAGMA synchronous" if connection.vendor == "sqlite" else "SHOW synchronous_commit"
            )
            assert cursor.fetchone()[0] in (1, "off")  # 1: NORMAL
    finally:
        connection_created.disconnect(relax_commits)
        connection.close()
