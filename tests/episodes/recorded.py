"""A recorder to write with in tests that read the database afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from environments.database.worker_threads import Workers
from environments.runtime.records import Row
from episodes.recording.recorder import Recorder

T = TypeVar("T")
DEADLINE_SECONDS = 60.0
READER = Workers(1, "query")


@asynccontextmanager
async def recording(*, has_duties: bool = False) -> AsyncIterator[Recorder]:
    """Yield a started recorder; write it out and stop it at the end.

    `has_duties`: with follower and upkeep, whose threads and connections take longer than most
    tests.
    """
    recorder = Recorder()
    await recorder.start(leads=None if has_duties else lambda: False)
    try:
        yield recorder
    finally:
        await recorder.stop(DEADLINE_SECONDS)


async def commit(recorder: Recorder, *rows: Row) -> None:
    """Returns when the recorder says that `rows` are durable."""
    done = asyncio.Event()
    recorder.record(*rows, on_commit=done.set)
    await asyncio.wait_for(done.wait(), DEADLINE_SECONDS)


async def query(fn: Callable[[], T]) -> T:
    """Return what `fn` reads from the database in another thread, which keeps its connection for
    the next test."""
    return await READER.run(fn)


def run(play: Callable[[Recorder], Awaitable[T]], *, has_duties: bool = False) -> T:
    """Return what `play` returns, which runs in its own loop with its own recorder."""

    async def main() -> T:
        async with recording(has_duties=has_duties) as recorder:
            return await play(recorder)

    return asyncio.run(main())


def record(*calls: tuple[Row, ...]) -> int:
    """Record each tuple of rows by one call, in order; returns how many rows were rejected."""

    async def play(recorder: Recorder) -> int:
        for rows in calls[:-1]:
            recorder.record(*rows)
        await commit(recorder, *calls[-1])
        return recorder.rejected

    return run(play)
