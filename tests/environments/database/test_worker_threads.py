"""Workers: blocking units of work, whose results are awaited on the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from django.db import Error, connection

from environments.database.worker_threads import Workers


@pytest.fixture
def workers() -> Iterator[Workers]:
    workers = Workers(2, "test")
    yield workers
    workers.close()


def look() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 7")
        return int(cursor.fetchone()[0])


async def test_it_returns_what_the_function_returns(workers: Workers) -> None:
    assert await workers.run(divmod, 7, 2) == (3, 1)


async def test_it_raises_what_the_function_raises(workers: Workers) -> None:
    with pytest.raises(ZeroDivisionError):
        await workers.run(divmod, 7, 0)


async def test_it_works_on_as_many_units_at_once_as_it_has_threads(workers: Workers) -> None:
    both = threading.Barrier(2, timeout=10)
    assert {*await asyncio.gather(workers.run(both.wait), workers.run(both.wait))} == {0, 1}


async def test_it_outlives_a_caller_that_is_cancelled(workers: Workers) -> None:
    gate = threading.Event()
    waiting = asyncio.create_task(workers.run(gate.wait, 10))
    await workers.run(int)  # on the other thread, so the first unit is taken
    waiting.cancel()
    gate.set()
    assert await asyncio.gather(workers.run(int), workers.run(int)) == [0, 0]


@pytest.mark.django_db(transaction=True)
async def test_it_replaces_a_broken_connection() -> None:
    workers = Workers(1, "test")
    await workers.run(look)
    await workers.run(lambda: connection.connection.close())
    with suppress(Error):
        await workers.run(look)  # may be the unit that meets the broken connection
    assert await workers.run(look) == 7
    workers.close()


async def test_it_finishes_what_is_queued_when_closed(workers: Workers) -> None:
    answer = asyncio.create_task(workers.run(int))
    await asyncio.sleep(0)
    workers.close()
    assert await answer == 0


async def test_it_refuses_work_once_closed(workers: Workers) -> None:
    workers.close()
    with pytest.raises(RuntimeError, match="closed"):
        await workers.run(int)


async def test_a_thread_is_started_only_when_none_is_idle(workers: Workers) -> None:
    assert running("test-") == set()
    await workers.run(int)
    assert running("test-") == {"test-0"}
    both = threading.Barrier(2, timeout=10)
    await asyncio.gather(workers.run(both.wait), workers.run(both.wait))
    assert running("test-") == {"test-0", "test-1"}


def running(name: str) -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith(name)}
