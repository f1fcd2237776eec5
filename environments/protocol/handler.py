"""ProtocolHandler: the lean ASGI application that serves protocol requests.

Django's own handler starts a thread for every request and runs the pages' middleware; agents need neither. This one
checks the Host, reads the body (up to the limit), finds the view by path and sends its response. The views are
DRF views. Paths that are not served get JSON, never an HTML page.

Divergences from the references: bare paths are served, not redirected; repeated slashes are one; bodies have a limit;
a `Host` that is not allowed is refused (a foreign web page could otherwise reach a local server by DNS rebinding).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import structlog
from django.conf import settings
from django.http.request import validate_host
from django.urls import Resolver404, URLResolver
from django.urls.resolvers import RegexPattern

from environments.protocol.request import HttpRequest
from environments.protocol.response import Response, refusal
from environments.protocol.view import ProtocolView

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

log = structlog.get_logger(__name__)

_ROUTES_KEPT = 4096
_HOSTS_KEPT = 100


class ProtocolHandler:
    """ASGI application for HTTP scopes."""

    def __init__(self) -> None:
        self._resolver = URLResolver(RegexPattern(r"^/"), "environments.protocol.urls")
        self._routes: dict[str, tuple[type[ProtocolView], dict[str, str]]] = {}
        self._allowed_hosts: set[str] = set()
        self._most_body_bytes: int = settings.ORSWEB_MAX_BODY_BYTES

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        request = HttpRequest(scope, receive)
        response = self.refuse_host(request) or await self._read_body(request, receive) or await self._answer(request)
        if response is not GONE:
            await _send(request, response, send)

    async def respond(self, request: HttpRequest) -> Response:
        """To a request whose body is there."""
        return self.refuse_host(request) or await self._answer(request)

    def refuse_host(self, request: HttpRequest) -> Response | None:
        """The answer to a `Host` that is not allowed here, whatever else the request is; None: it is allowed."""
        if request.META.get("HTTP_HOST") in self._allowed_hosts:
            return None
        host = request.META.get("HTTP_HOST", "")
        domain = re.sub(r":\d+$", "", host).lower().rstrip(".")
        if not domain or not validate_host(domain, settings.ALLOWED_HOSTS):
            return refusal(400, f"Host {host[:200]!r} is not allowed here; add it to ORSWEB_ALLOWED_HOSTS")
        if len(self._allowed_hosts) < _HOSTS_KEPT:
            self._allowed_hosts.add(host)
        return None

    async def _read_body(self, request: HttpRequest, receive: Receive) -> Response | None:
        """Fill `request.content`, or say why not."""
        most = self._most_body_bytes
        length = request.META.get("CONTENT_LENGTH", "0")
        if length.isdecimal() and int(length) > most:
            return too_large(length, most)
        pieces: list[bytes] = []
        size, has_more = 0, True
        while has_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return GONE
            pieces.append(message.get("body", b""))
            size, has_more = size + len(pieces[-1]), message.get("more_body", False)
            if size > most:
                return too_large(f"over {most}", most)
        request.content = b"".join(pieces)
        return None

    async def _answer(self, request: HttpRequest) -> Response:
        route = self._routes.get(request.path) or self._find_route(request)
        if isinstance(route, Response):
            return route
        view, kwargs = route
        try:
            # what as_view's function does, without its two layers
            return await view().dispatch(request, **kwargs)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("a protocol view failed", method=request.method, path=request.path[:200])
            return refusal(500, "Internal Server Error")

    def _find_route(self, request: HttpRequest) -> tuple[type[ProtocolView], dict[str, str]] | Response:
        path = re.sub("/{2,}", "/", request.path)
        if path != "/" and path.endswith("/"):
            return refusal(307, "The path has no trailing slash", {"Location": request.url_of(path.rstrip("/"))})
        try:
            match = self._resolver.resolve(path)
        except Resolver404:
            return refusal(404, "Not Found")
        view: type[ProtocolView] = match.func.cls  # type: ignore[attr-defined]  # DRF notes it there
        route = (view, match.kwargs)
        if len(self._routes) < _ROUTES_KEPT:
            self._routes[request.path] = route
        return route


GONE = Response(b"")
"""In place of a response: the client has left, there is nobody to answer."""


def too_large(length: str, most: int) -> Response:
    """The answer to a body of more than `most` bytes."""
    return refusal(413, f"The body has {length} bytes; ORSWEB_MAX_BODY_BYTES allows {most}")


async def _send(request: HttpRequest, response: Response, send: Send) -> None:
    body = response.body
    if isinstance(body, bytes):
        headers = (*response.headers, (b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.headers})
    try:
        if request.tells_disconnect:
            await _send_pieces(request, body, send)
        else:
            await _send_watching(request, body, send)
    finally:
        await body.aclose()  # so that it can tell whether its end was reached


async def _send_pieces(request: HttpRequest, pieces: AsyncGenerator[bytes, None], send: Send) -> None:
    async for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        if request.tells_disconnect and request.has_disconnected():
            return
    await send({"type": "http.response.body", "body": b""})


async def _send_watching(request: HttpRequest, pieces: AsyncGenerator[bytes, None], send: Send) -> None:
    """Under a server that tells of a lost connection only by `receive`: send until the pieces or the client end."""
    sending = asyncio.ensure_future(_send_pieces(request, pieces, send))
    leaving = asyncio.ensure_future(request.until_disconnect())
    try:
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
    if not sending.cancelled() and (error := sending.exception()) is not None:
        raise error
