"""Answers requests for pages and the API that wait for a database that has stopped answering. Wraps
Django's handler.

A database that refuses connections or closes them fails a request at once. One that hangs does not:
the machine froze, or the network loses packets. A request waits for it on its thread as long as the
operating system does, often for minutes. After PATIENCE_SECONDS without a response, this checks
whether the database answers at all. If not, the client gets a 503, and so do all later ones at
once, until it answers again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from django.template.loader import render_to_string

from orsweb.pages.page_threads import is_stream

PATIENCE_SECONDS = 8.0
API, STATIC = "/api/", "/static/"
_DETAIL = "The database is unavailable; try again."

App = Callable[[dict[str, Any], Any, Any], Awaitable[None]]

log = structlog.get_logger(__name__)


class HangingDatabase:
    """`answers` returns whether the database answers, within a few seconds. It is called often, so
    it should cache."""

    def __init__(
        self,
        app: App,
        answers: Callable[[], Awaitable[bool]],
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._app, self._answers, self._patience = app, answers, patience_seconds
        self._hangs = False

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if is_stream(scope["path"]) or scope["path"].startswith(STATIC):
            await self._app(scope, receive, send)
            return
        response = _Response(scope["path"], send)
        if self._hangs and await self._still_hangs():
            await response.refuse()
            return
        watch = asyncio.create_task(self._watch(response))
        try:
            await self._app(scope, receive, response.send)
        except Exception:
            if not response.is_refused:
                raise
            log.debug(
                "failed after the database had stopped answering", path=scope["path"], exc_info=True
            )
        finally:
            watch.cancel()

    async def _watch(self, response: _Response) -> None:
        while not response.has_started:
            await asyncio.sleep(self._patience)
            if not response.has_started and await self._still_hangs():
                await response.refuse()

    async def _still_hangs(self) -> bool:
        hangs = not await self._answers()
        if hangs != self._hangs:
            self._hangs = hangs
            log.warning(
                "the database has stopped answering" if hangs else "the database answers again"
            )
        return hangs


class _Response:
    """The response to one request: that of the application or, if it is late, the refusal."""

    def __init__(self, path: str, send: Any) -> None:
        self._path, self._send = path, send
        self.has_started = self.is_refused = False

    async def send(self, message: dict[str, Any]) -> None:
        """Pass on a message of the application, unless the request was refused before."""
        if not self.is_refused:
            self.has_started = True
            await self._send(message)

    async def refuse(self) -> None:
        """Answer 503, in JSON for programs, unless the application has started to respond."""
        if self.has_started:
            return
        self.has_started = self.is_refused = True
        is_json = self._path.startswith(API) and self._path != API
        if is_json:
            kind, body = "application/json", json.dumps({"detail": _DETAIL})
        else:
            kind = "text/html; charset=utf-8"
            body = render_to_string("orsweb/database_away.html")
        headers = {"content-type": kind, "retry-after": "2", "cache-control": "no-store"}
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": 503, "headers": pairs})
        await self._send({"type": "http.response.body", "body": body.encode()})
