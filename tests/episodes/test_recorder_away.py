from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection

from episodes.models import Episode, Step
from episodes.recorder import Recorder
from tests.episodes.recording import DEADLINE_SECONDS, commit, query, recording, run
from tests.factories import episode_ended, episode_started, step_taken

pytestmark = pytest.mark.django_db(transaction=True)


def execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


async def take_away() -> None:
    """Every write of a step fails, as it does when the database is gone."""
    await query(lambda: execute("ALTER TABLE episodes_step RENAME TO taken_away"))


async def bring_back() -> None:
    await query(lambda: execute("ALTER TABLE taken_away RENAME TO episodes_step"))


async def until_it_logs(capfd: pytest.CaptureFixture[str], event: str) -> None:
    """Returns when the writer has said `event`."""

    async def look() -> None:
        while event not in capfd.readouterr().err:
            await asyncio.sleep(0.01)

    await asyncio.wait_for(look(), DEADLINE_SECONDS)


def test_it_waits_for_the_database_and_loses_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    async def play(recorder: Recorder) -> list[int]:
        told: list[int] = []
        await commit(recorder, episode_started())
        await take_away()
        for index in range(3):
            recorder.record(step_taken(index=index), committed=lambda index=index: told.append(index))
        await until_it_logs(capfd, "record_away")
        assert told == []
        await bring_back()
        await commit(recorder, episode_ended())
        return told

    assert run(play) == [0, 1, 2]
    assert list(Step.objects.order_by("pk").values_list("index", flat=True)) == [0, 1, 2]
    assert Episode.objects.get().status == "ended"


def test_it_says_once_that_the_database_went_and_came_back(capfd: pytest.CaptureFixture[str]) -> None:
    async def play(recorder: Recorder) -> None:
        await commit(recorder, episode_started())
        await take_away()
        recorder.record(step_taken())
        await asyncio.sleep(0.5)  # several attempts fail meanwhile
        await bring_back()
        await commit(recorder, episode_ended())

    run(play)
    logged = capfd.readouterr().err
    assert (logged.count("record_away"), logged.count("record_back")) == (1, 1)


def test_it_tells_how_many_rows_it_could_not_write(capfd: pytest.CaptureFixture[str]) -> None:
    async def play() -> int:
        recorder = Recorder()
        await recorder.start()
        await take_away()
        recorder.record(episode_started(), step_taken())
        recorder.record(episode_ended())
        try:
            return await recorder.stop(0.1)
        finally:
            await bring_back()

    assert asyncio.run(play()) == 3


def test_it_writes_what_is_queued_before_it_stops() -> None:
    async def play() -> int:
        recorder = Recorder()
        await recorder.start()
        recorder.record(episode_started())
        for index in range(5000):
            recorder.record(step_taken(index=index))
        return await recorder.stop(DEADLINE_SECONDS)

    assert asyncio.run(play()) == 0
    assert Step.objects.count() == 5000


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has no server that could drop a connection")
def test_it_replaces_dead_connections() -> None:
    async def play(recorder: Recorder) -> bool:
        await commit(recorder, episode_started(), step_taken())
        await recorder.recall("session-1", "call-0")
        await query(lambda: execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"))
        await commit(recorder, step_taken(index=1))
        return await recorder.recall("session-1", "call-1") is not None

    assert run(play)


@contextmanager
def write_lock() -> Iterator[None]:
    execute("BEGIN IMMEDIATE")
    yield
    execute("COMMIT")


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="PostgreSQL has no lock on the whole database")
def test_it_waits_for_the_write_lock() -> None:
    async def play() -> int:
        async with recording() as recorder:
            recorder.record(episode_started())
            await asyncio.sleep(0)
            return await recorder.stop(0.2)

    with write_lock():
        assert asyncio.run(play()) == 1
