"""Pages and the API say that the database doesn't answer, instead of waiting for it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from orsweb.pages.hanging_database import HangingDatabase

PATIENCE_SECONDS = 0.02


class Pages:
    """An application whose pages wait for the database while `gate` is closed."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.asked = 0
        self._served = HangingDatabase(self._app, self._answers, PATIENCE_SECONDS)

    async def _answers(self) -> bool:
        return self.gate.is_set()

    async def _app(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        self.asked += 1
        await self.gate.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"page"})

    async def ask(self, path: str) -> tuple[int, bytes]:
        """Return status and body as soon as they have been sent."""
        sent = asyncio.Queue[dict[str, Any]]()
        asking = asyncio.create_task(self._served({"type": "http", "path": path}, None, sent.put))
        start, body = await sent.get(), await sent.get()
        if self.gate.is_set():
            await asking
            assert sent.empty()
        return start["status"], body["body"]


async def test_a_request_that_waits_for_it_is_answered_and_later_ones_at_once() -> None:
    pages = Pages()
    status, body = await pages.ask("/api/episodes")
    assert (status, json.loads(body)) == (
        503,
        {"detail": "The database is unavailable; try again."},
    )
    status, body = await pages.ask("/episodes/")
    assert status == 503 and "The database doesn't answer" in body.decode()
    assert pages.asked == 1


async def test_requests_are_served_again_when_it_is_back() -> None:
    pages = Pages()
    assert (await pages.ask("/episodes/"))[0] == 503
    pages.gate.set()
    assert await pages.ask("/episodes/") == (200, b"page")


async def test_a_slow_page_is_waited_for_while_it_answers() -> None:
    pages = Pages()
    release = asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await release.wait()
        await pages._app(scope, receive, send)

    asked = 0

    async def answers() -> bool:
        nonlocal asked
        asked += 1
        if asked == 2:
            release.set()
        return True

    pages.gate.set()
    pages._served = HangingDatabase(slow, answers, PATIENCE_SECONDS)
    assert await pages.ask("/episodes/") == (200, b"page")


async def test_streams_and_static_files_do_not_need_it() -> None:
    pages = Pages()
    assert (await pages.ask("/episodes/"))[0] == 503
    waiting = [
        asyncio.create_task(pages.ask(path)) for path in ("/events/", "/static/orsweb/frame.css")
    ]
    await asyncio.sleep(0)
    pages.gate.set()
    assert [await one for one in waiting] == [(200, b"page")] * 2
