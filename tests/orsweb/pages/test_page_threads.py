"""Pages share a few threads, and do not wait for pages that are stuck."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from asgiref.sync import ThreadSensitiveContext, sync_to_async

from orsweb.pages.page_threads import PageThreads

THREADS = 2
PATIENCE_SECONDS = 60.0  # longer than any test, since a busy machine may hold a page up


class Pages:
    """An application that records its threads. `gate` blocks a page on its thread, after it has set
    `busy`."""

    def __init__(self, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.threads: list[int] = []
        self.gate, self.busy = threading.Event(), threading.Semaphore(0)
        self.gate.set()
        self.served = PageThreads(self._app, THREADS, patience_seconds)

    async def _app(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        async with ThreadSensitiveContext():  # as Django does
            await sync_to_async(self._page)()
            await send({"type": "http.response.start"})

    def _page(self) -> None:
        self.threads.append(threading.get_ident())
        self.busy.release()
        assert self.gate.wait(10)

    async def ask(self, path: str = "/episodes/") -> None:
        await asyncio.create_task(self.served({"type": "http", "path": path}, None, _unheard))  # type: ignore[arg-type]

    async def until_busy(self, count: int) -> None:
        for _ in range(count):
            await asyncio.to_thread(self.busy.acquire)


@pytest.fixture
def pages() -> Pages:
    return Pages()


async def test_a_page_has_the_thread_of_the_one_before(pages: Pages) -> None:
    for _ in range(3):
        await pages.ask()
        await asyncio.gather(*[asyncio.to_thread(_nothing) for _ in range(2)])
    assert len(set(pages.threads)) <= THREADS


async def test_many_pages_at_once_share_the_threads(pages: Pages) -> None:
    await asyncio.gather(*[pages.ask() for _ in range(50)])
    assert len(pages.threads) == 50
    assert len(set(pages.threads)) <= THREADS


async def test_a_visitor_who_left_while_waiting_keeps_no_thread(pages: Pages) -> None:
    pages.gate.clear()
    asked = [asyncio.create_task(pages.ask()) for _ in range(THREADS + 1)]
    await pages.until_busy(THREADS)
    asked[-1].cancel()
    pages.gate.set()
    await asyncio.gather(*asked, return_exceptions=True)
    await asyncio.gather(*[pages.ask() for _ in range(4 * THREADS)])
    assert len(set(pages.threads)) == THREADS


async def test_pages_behind_stuck_ones_have_threads_of_their_own() -> None:
    pages = Pages(patience_seconds=0.05)
    pages.gate.clear()
    asked = [asyncio.create_task(pages.ask()) for _ in range(THREADS + 2)]
    await pages.until_busy(len(asked))
    pages.gate.set()
    await asyncio.gather(*asked)
    assert len(set(pages.threads)) == THREADS + 2


@pytest.mark.parametrize("path", ["/events/", "/api/episodes/1/events"])
async def test_streams_take_none_of_the_threads_of_pages(pages: Pages, path: str) -> None:
    pages.gate.clear()
    streams = [asyncio.create_task(pages.ask(path)) for _ in range(THREADS)]
    asked = [asyncio.create_task(pages.ask()) for _ in range(THREADS)]
    await pages.until_busy(THREADS + 1)
    pages.gate.set()
    await asyncio.gather(*streams, *asked)
    assert len(set(pages.threads)) == THREADS + 1


async def test_a_stream_that_has_begun_leaves_its_thread_to_the_next(pages: Pages) -> None:
    begun, over = asyncio.Semaphore(0), asyncio.Event()

    async def send(message: dict[str, Any]) -> None:
        begun.release()
        await over.wait()

    scope = {"type": "http", "path": "/events/"}
    streams = [asyncio.create_task(pages.served(scope, None, send)) for _ in range(20)]
    for _ in streams:
        await begun.acquire()
    over.set()
    await asyncio.gather(*streams)
    assert len(set(pages.threads)) == 1


async def test_the_event_loop_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, start, starters = asyncio.get_running_loop(), threading.Thread.start, []
    loop.set_default_executor(ThreadPoolExecutor(2))
    barrier = threading.Barrier(2)  # so that both of its threads run
    await asyncio.gather(*[asyncio.to_thread(barrier.wait, 10) for _ in range(2)])

    def note(thread: threading.Thread) -> None:
        starters.append(threading.current_thread())
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", note)
    pages = Pages(patience_seconds=0.05)
    pages.gate.clear()
    asked = [
        asyncio.create_task(pages.ask(path))
        for path in ("/events/", "/events/", *["/episodes/"] * (THREADS + 1))
    ]
    await pages.until_busy(THREADS + 2)
    pages.gate.set()
    await asyncio.gather(*asked)
    assert len(starters) >= THREADS + 2 and threading.current_thread() not in starters


def _nothing() -> None:
    pass


async def _unheard(message: dict[str, Any]) -> None:
    pass
