"""Limits the bodies of requests for pages by who sends them, before they are read. Wraps the
handler of the pages.

Django's own handler writes the whole body of a request to a file before it checks anything, and it
uses the system's temporary directory, which may be memory. Here the sender is looked up first:
without a key or a login a body stays small, and only accounts that may import can send a large
file, to the import page. Larger bodies are kept on the disk of the data.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, parse_cookie
from django.template.loader import render_to_string
from django.utils.module_loading import import_string

from environments import conf
from environments.agents.http.errors import refusal_of_coding
from environments.wire import value_json

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

LINGER_SECONDS = 10.0
"""Time for which the rest of a refused upload is read and discarded: browsers show no response
before they have sent everything."""
MAX_ANONYMOUS_BYTES = 64 * 1024
"""Largest body of a request without a key and without a login, such as the form of the login
page."""


class PageHandler(ASGIHandler):
    """Django's handler, for paths without ORSWEB_PATH_PREFIX, which keeps bodies that do not fit
    into memory in FILE_UPLOAD_TEMP_DIR.

    The view and the middleware around it run in one piece on the page's thread, as under WSGI.
    Django's own handler returns to the event loop for the view and for each `process_view`.
    """

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)
        # the outermost middleware stays async, like `Assets`, without which no thread is needed
        self._middleware_chain: Any = self._middleware_chain.awaitable

    def create_request(self, scope: Any, body_file: Any) -> Any:
        return super().create_request(
            {**scope, "path": conf.path_prefix() + scope["path"]}, body_file
        )

    async def read_body(self, receive: Any) -> Any:
        body = tempfile.SpooledTemporaryFile(  # noqa: SIM115  (the handler closes it)
            max_size=settings.FILE_UPLOAD_MAX_MEMORY_SIZE,
            mode="w+b",
            dir=str(settings.FILE_UPLOAD_TEMP_DIR),
        )
        has_more = True
        while has_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                body.close()
                raise RequestAborted
            body.write(message.get("body", b""))
            has_more = message.get("more_body", False)
        body.seek(0)
        return body


class BoundedUploads:
    """Limits the body of a request.

    `large_bytes` holds at `large_path` for accounts with the permission to import, `small_bytes`
    for other requests with a login or a key, and MAX_ANONYMOUS_BYTES for everyone else.
    """

    def __init__(
        self,
        app: Any,
        *,
        small_bytes: int,
        large_bytes: int,
        large_path: str,
        has_key: Callable[[Message], bool],
    ) -> None:
        self._app, self._has_key = app, has_key
        self._small, self._large, self._large_path = small_bytes, large_bytes, large_path

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        # None: the body is sent in chunks, without a length
        length: int | None = 0
        if (text := _header(scope, b"content-length")).isdigit():
            length = int(text)
        elif _header(scope, b"transfer-encoding"):
            length = None
        if length != 0 and (problem := refusal_of_coding(_header(scope, b"content-encoding"))):
            text = value_json({"detail": problem})
            await _answer(
                receive, send, HTTPStatus.UNSUPPORTED_MEDIA_TYPE, b"application/json", text
            )
            return
        limit = min(MAX_ANONYMOUS_BYTES, self._small)
        if length is None or length > limit:
            limit = await self._limit(scope)
        if length is not None and length > limit:
            await self._refuse(scope, receive, send, limit)
            return
        body = _BoundedBody(receive, limit)
        await self._app(scope, body.receive, send)
        # the handler got a disconnect instead of the body, so it has not answered
        if body.is_too_large:
            await self._refuse(scope, receive, send, limit)

    async def _limit(self, scope: Message) -> int:
        """Return the largest body that the sender may send."""
        if not conf.has_keys():
            return self._large if scope["path"] == self._large_path else self._small
        if scope["path"].startswith("/api/") and self._has_key(scope):
            return self._small
        limit: int = await database_sync_to_async(self._limit_of_visitor)(scope)
        return limit

    def _limit_of_visitor(self, scope: Message) -> int:
        """Return the limit of the person whom the session's cookie names; of a guest in the
        player's pages."""
        request = HttpRequest()
        cookies = parse_cookie(_header(scope, b"cookie"))
        session = import_string(f"{settings.SESSION_ENGINE}.SessionStore")(
            cookies.get(settings.SESSION_COOKIE_NAME)
        )
        request.session = session
        user = get_user(request)
        if not user.is_authenticated:
            is_guest = scope["path"].startswith("/play/") and "guest" in session
            return self._small if is_guest else min(MAX_ANONYMOUS_BYTES, self._small)
        may_import = scope["path"] == self._large_path and user.has_perm("environments.add_task")
        return self._large if may_import else self._small

    async def _refuse(self, scope: Message, receive: Receive, send: Send, limit: int) -> None:
        is_anonymous = limit <= MAX_ANONYMOUS_BYTES < self._small
        if scope["path"].startswith("/api/"):
            kind = b"application/json"
            if is_anonymous:
                status = HTTPStatus.UNAUTHORIZED
                text = (
                    "Send X-API-Key with one of this server's keys, or log in; without, a body may "
                    f"have {limit} bytes."
                )
            else:
                status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
                text = (
                    f"The body has more than {limit} bytes, the limit set by ORSWEB_MAX_BODY_BYTES."
                )
            text = value_json({"detail": text})
        else:
            is_import = scope["path"] == self._large_path and limit == self._large
            context = {"limit_bytes": limit, "is_import": is_import, "is_anonymous": is_anonymous}
            text = render_to_string("orsweb/upload_too_large.html", context)
            status, kind = HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"text/html; charset=utf-8"
        await _answer(receive, send, status, kind, text)


class _BoundedBody:
    """The body of a request, replaced by a disconnect when it becomes too large."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive, self._remaining_bytes = receive, limit
        self.is_too_large = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._remaining_bytes -= len(message.get("body", b""))
        if self._remaining_bytes >= 0:
            return message
        self.is_too_large = True
        return {"type": "http.disconnect"}


def _header(scope: Message, key: bytes) -> str:
    return next((str(value, "latin-1") for name, value in scope["headers"] if name == key), "")


async def _answer(receive: Receive, send: Send, status: HTTPStatus, kind: bytes, text: str) -> None:
    """Answer before the body has been read, and close the connection when the client has sent it or
    takes long."""
    headers = [(b"content-type", kind), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while (await receive()).get("more_body"):
                pass
    await send({"type": "http.response.body", "body": b""})
