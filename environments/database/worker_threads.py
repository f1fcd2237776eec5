"""Daemon threads for blocking work, mostly on the database, with results that the event loop
awaits.

The catalogue reads on them and sync writes on them. Django's `sync_to_async` has one thread for
everything and, outside of Django's requests, keeps a dead database connection. Here a unit of work
that meets a dead connection is repeated on a new one, which saves each unit the test of
`close_old_connections`, a query of its own on PostgreSQL.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from django.db import Error, InterfaceError, OperationalError, connections

T = TypeVar("T")
MAX_CLOSE_SECONDS = 5.0
"""Longest wait for one thread to end."""

RETRY_SECONDS = 0.2
"""Time between two attempts to reach a database that is away."""

_Job = tuple["asyncio.Future[Any]", Callable[..., Any], tuple[Any, ...]]


class Workers:
    """Up to `count` threads that take units of work in order, each with a database connection of
    its own.

    A thread is started only for a unit for which none is idle. For use from one event loop.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._is_closed = False
        self._threads: list[threading.Thread] = []

    async def run(self, fn: Callable[..., T], *args: Any) -> T:
        """Return what `fn(*args)` returns, or raise what it raises. A unit goes on if its caller is
        cancelled.

        `fn` may be called twice, so it has to be repeatable.
        """
        if self._is_closed:
            raise RuntimeError("The workers are closed.")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put((future, fn, args))
        if not self._idle.acquire(blocking=False) and len(self._threads) < self._count:
            name = f"{self._name}-{len(self._threads)}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        return await future

    def close(self) -> None:
        """Finish what is queued, then end the threads and their connections; a thread that hangs is
        left running."""
        if self._is_closed:
            return
        self._is_closed = True
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join(MAX_CLOSE_SECONDS)

    def _work(self) -> None:
        while (job := self._next()) is not None:
            _answer(*job)
            del job  # because an idle thread would keep the last answer alive
        connections.close_all()

    def _next(self) -> _Job | None:
        try:
            return self._jobs.get_nowait()
        except Empty:
            self._idle.release()
            return self._jobs.get()


def _answer(future: asyncio.Future[Any], fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if future.cancelled():
        return
    try:
        try:
            outcome = fn(*args)
        except (OperationalError, InterfaceError):
            connections.close_all()  # the connection may have died while it was idle
            outcome = fn(*args)
        settle = future.set_result
    except Exception as error:  # the caller handles it
        settle, outcome = future.set_exception, error
        if isinstance(error, Error):
            connections.close_all()  # its state is unknown, so the next unit opens another
    with contextlib.suppress(RuntimeError):  # the loop is closed, so there is no waiter any more
        future.get_loop().call_soon_threadsafe(_settle, future, settle, outcome)


def _settle(future: asyncio.Future[Any], settle: Callable[[Any], None], outcome: Any) -> None:
    if not future.done():
        settle(outcome)


async def started_thread(
    name: str, prepare: Callable[[], object] = lambda: None
) -> ThreadPoolExecutor:
    """Return a thread that runs already and has called `prepare`.

    Starting a thread waits until it runs, which takes seconds while many others compute, so the
    event loop must not do it.
    """
    thread = ThreadPoolExecutor(1, name)
    await asyncio.to_thread(lambda: thread.submit(prepare).result())
    return thread


async def until_there(ask: Callable[[], Awaitable[T]], seconds: float = math.inf) -> T:
    """Return what `ask()` returns, asked again while the database is away.

    Raises: what `ask()` raises; also OperationalError or InterfaceError once `seconds` have passed.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            return await ask()
        except (OperationalError, InterfaceError):
            if time.monotonic() > until:
                raise
        await asyncio.sleep(RETRY_SECONDS)
