"""Refuses uploads that are too large before they are read completely. Wraps the handler of the pages.

Django's own handler writes the whole body of a request to a file before it checks anything.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any

from django.template.loader import render_to_string

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

LINGER_SECONDS = 10.0
"""Time for which the rest of a refused upload is read and discarded: browsers show no response before they have sent
everything."""


class BoundedUploads:
    """Limits the body of a request to `large_bytes` at `large_path`, and to `small_bytes` at all other paths."""

    def __init__(self, app: Any, *, small_bytes: int, large_bytes: int, large_path: str) -> None:
        self._app, self._small, self._large, self._large_path = app, small_bytes, large_bytes, large_path

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        is_large = scope["path"] == self._large_path
        limit = self._large if is_large else self._small
        if _declared_bytes(scope) > limit:
            await _refuse(receive, send, limit, is_import=is_large)
            return
        body = _Counted(receive, limit)
        await self._app(scope, body.receive, send)
        if body.is_too_large:  # the handler got a disconnect instead of the body, so it has not answered
            await _refuse(receive, send, limit, is_import=is_large)


class _Counted:
    """The body of a request, replaced by a disconnect when it becomes too large."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive, self._left = receive, limit
        self.is_too_large = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left >= 0:
            return message
        self.is_too_large = True
        return {"type": "http.disconnect"}


def _declared_bytes(scope: Message) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


async def _refuse(receive: Receive, send: Send, limit: int, *, is_import: bool) -> None:
    page = render_to_string("orsweb/upload_too_large.html", {"limit_bytes": limit, "is_import": is_import}).encode()
    headers = [(b"content-type", b"text/html; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "headers": headers})
    await send({"type": "http.response.body", "body": page, "more_body": True})
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(_read_on(receive), LINGER_SECONDS)
    await send({"type": "http.response.body", "body": b""})


async def _read_on(receive: Receive) -> None:
    while (message := await receive())["type"] == "http.request" and message.get("more_body"):
        pass
