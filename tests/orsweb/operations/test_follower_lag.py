"""How far figures lag behind the database is known after a restart, and while the database is
away."""

from __future__ import annotations

import asyncio

import pytest
from django.db import connection

from episodes.recording.recorder import Recorder
from orsweb.operations import readiness
from orsweb.operations.readiness import Readiness
from tests.episodes.recorded import query, record, recording
from tests.factories import episode_ended, episode_started

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def nothing_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("episodes.rollups.follower.Follower.start", lambda follower: None)
    monkeypatch.setattr(readiness, "MAX_AGE_SECONDS", 0.0)


def rename(table: str, name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO {name}")


async def lag(recorder: Recorder, ready: Readiness) -> set[int]:
    return set(recorder.load(await ready.newest_end()).behind.values())


def test_a_server_that_has_recorded_nothing_yet_knows_it() -> None:
    record((episode_started(1), episode_ended(1)), (episode_started(2), episode_ended(2)))

    async def after_a_restart() -> None:
        async with recording(has_duties=True) as recorder:
            assert await lag(recorder, Readiness()) == {2}

    asyncio.run(after_a_restart())


def test_it_stays_known_while_the_database_is_away() -> None:
    record((episode_started(1), episode_ended(1)), (episode_started(2), episode_ended(2)))

    async def while_away() -> None:
        ready = Readiness()
        async with recording(has_duties=True) as recorder:
            assert await lag(recorder, ready) == {2}
            await query(lambda: rename("episodes_episode", "taken_away"))
            try:
                assert not await ready.database_answers()
                assert await lag(recorder, ready) == {2}
            finally:
                await query(lambda: rename("taken_away", "episodes_episode"))

    asyncio.run(while_away())
