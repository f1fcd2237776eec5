from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest
from django.db import connection

from episodes.models import Episode, Step
from episodes.recording.recorder import Recorder
from tests.episodes.recorded import DEADLINE_SECONDS, commit, query, run
from tests.factories import episode_ended, episode_started, step_taken

pytestmark = pytest.mark.django_db(transaction=True)


def execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


async def take_away() -> None:
    """Make every write of a step fail, as it does when the database is gone."""
    await query(lambda: execute("ALTER TABLE episodes_step RENAME TO taken_away"))


async def bring_back() -> None:
    await query(lambda: execute("ALTER TABLE taken_away RENAME TO episodes_step"))


@pytest.fixture(autouse=True)
def nothing_stays_away(transactional_db: None) -> Iterator[None]:
    yield
    for writer in [thread for thread in threading.enumerate() if thread.name == "recorder"]:
        writer.join(DEADLINE_SECONDS)  # one that was given up may be in the middle of a last try
    if "taken_away" in connection.introspection.table_names():
        execute("ALTER TABLE taken_away RENAME TO episodes_step")


async def until_it_logs(caplog: pytest.LogCaptureFixture, event: str) -> None:
    """Return when the writer has logged `event`."""

    async with asyncio.timeout(DEADLINE_SECONDS):
        while event not in caplog.text:  # noqa: ASYNC110  (logged by another thread, which has no asyncio.Event)
            await asyncio.sleep(0.01)


def test_it_waits_for_the_database_and_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def play(recorder: Recorder) -> list[int]:
        committed: list[int] = []
        await commit(recorder, episode_started())
        await take_away()
        for index in range(3):
            recorder.record(step_taken(index=index), on_commit=partial(committed.append, index))
        await until_it_logs(caplog, "record_away")
        assert committed == []
        await bring_back()
        await commit(recorder, episode_ended())
        return committed

    assert run(play) == [0, 1, 2]
    assert list(Step.objects.order_by("pk").values_list("index", flat=True)) == [0, 1, 2]
    assert Episode.objects.get().status == "ended"


def test_it_logs_once_that_the_database_went_and_came_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def play(recorder: Recorder) -> None:
        await commit(recorder, episode_started())
        await take_away()
        for index in range(100):
            recorder.record(step_taken(index=index))
        await until_it_logs(caplog, "record_away")
        await bring_back()
        await commit(recorder, episode_ended())

    run(play)
    assert (caplog.text.count("record_away"), caplog.text.count("record_back")) == (1, 1)


def test_it_returns_how_many_rows_it_could_not_write() -> None:
    async def play() -> int:
        recorder = Recorder()
        await recorder.start()
        await take_away()
        recorder.record(episode_started(), step_taken())
        recorder.record(episode_ended())
        return await recorder.stop(0.1)

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


# what can only happen to one of the two
if connection.vendor == "postgresql":

    def test_it_replaces_dead_connections() -> None:
        others = (
            "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = "
            "current_database()"
        )
        # connections of threads that serve pages to other tests
        with connection.cursor() as cursor:
            cursor.execute(others)
            spared = ", ".join(["0", *(str(pid) for (pid,) in cursor.fetchall())])
        kill = (
            f"SELECT pg_terminate_backend(pid) FROM ({others}) AS others WHERE pid NOT IN "
            f"({spared})"
        )

        async def play(recorder: Recorder) -> bool:
            await commit(recorder, episode_started(), step_taken())
            await recorder.recall("session-1", "", "call-0")
            await query(lambda: execute(kill))
            await commit(recorder, step_taken(index=1))
            return await recorder.recall("session-1", "", "call-1") is not None

        connection.close()  # the test's own connection would die too
        assert run(play)

else:

    def test_it_waits_for_the_write_lock() -> None:
        async def play(recorder: Recorder) -> bool:
            with closing(
                sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
            ) as other:
                other.execute("BEGIN IMMEDIATE")
                written = asyncio.create_task(commit(recorder, episode_started()))
                await recorder.recall("session-1", "", "call-0")
                was_written = written.done()
                other.execute("COMMIT")
            await written
            return was_written

        assert run(play) is False
        assert Episode.objects.count() == 1
