"""ProtocolHandler: the lean ASGI application that serves protocol requests.

Django's own handler starts a thread for every request and runs the pages' middleware; agents need neither. This one
reads the body (up to the limit), checks the Host, finds the view by path and sends its response. The views are ordinary
DRF views. Paths that are not served get JSON, never an HTML page.

Divergences from the references: bare paths are served, not redirected; repeated slashes are one; bodies have a limit;
a `Host` that is not allowed is refused (a foreign web page could otherwise reach a local server by DNS rebinding).
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import structlog
from django.conf import settings
from django.http import HttpResponse, StreamingHttpResponse
from django.http.request import validate_host
from django.http.response import HttpResponseBase
from django.urls import Resolver404, URLResolver
from django.urls.resolvers import RegexPattern

from environments.protocol.request import HttpRequest

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
View = Callable[..., Awaitable[HttpResponseBase]]

log = structlog.get_logger(__name__)

_ROUTES_KEPT = 4096


class ProtocolHandler:
    """ASGI application for HTTP scopes."""

    def __init__(self) -> None:
        self._resolver = URLResolver(RegexPattern(r"^/"), "environments.protocol.urls")
        self._routes: dict[str, tuple[View, dict[str, str]]] = {}
        self._allowed_hosts: set[str] = set()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        request = HttpRequest(scope, receive)
        response = self._refuse_host(request) or await self._read_body(request, receive)
        if response is None:
            response = await self._answer(request)
        if response is not GONE:
            await _send(response, receive, send)

    def _refuse_host(self, request: HttpRequest) -> HttpResponse | None:
        host = request.META.get("HTTP_HOST", "")
        if host in self._allowed_hosts:
            return None
        domain = re.sub(r":\d+$", "", host).lower().rstrip(".")
        if not domain or not validate_host(domain, settings.ALLOWED_HOSTS):
            return refusal(400, f"Host {host[:200]!r} is not allowed here; add it to ORSWEB_ALLOWED_HOSTS")
        if len(self._allowed_hosts) < 100:
            self._allowed_hosts.add(host)
        return None

    async def _read_body(self, request: HttpRequest, receive: Receive) -> HttpResponse | None:
        most = settings.ORSWEB_MAX_BODY_BYTES
        length = request.META.get("CONTENT_LENGTH", "")
        if length.isdigit() and int(length) > most:
            return too_large(length, most)
        message = await receive()
        body = message.get("body", b"")
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
            if len(body) > most:
                return too_large(f"over {len(body)}", most)
        if message["type"] == "http.disconnect":
            return GONE
        request.content = bytes(body)
        return None

    async def _answer(self, request: HttpRequest) -> HttpResponseBase:
        route = self._routes.get(request.path) or self._find_route(request.path)
        if isinstance(route, HttpResponse):
            return route
        view, kwargs = route
        try:
            return await view(request, **kwargs)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("a protocol view failed", method=request.method, path=request.path[:200])
            return refusal(500, "Internal Server Error")

    def _find_route(self, path: str) -> tuple[View, dict[str, str]] | HttpResponse:
        normal = re.sub("/{2,}", "/", path)
        if normal != "/" and normal.endswith("/"):
            response = refusal(307, "The path has no trailing slash")
            response["Location"] = normal.rstrip("/")
            return response
        try:
            match = self._resolver.resolve(normal)
        except Resolver404:
            return self._not_found(normal)
        route = (match.func, match.kwargs)
        if len(self._routes) < _ROUTES_KEPT:
            self._routes[path] = route
        return route

    def _not_found(self, path: str) -> HttpResponse:
        return refusal(404, "Not Found")


GONE = HttpResponse()
"""In place of a response: the client has left, there is nobody to answer."""


def refusal(status: int, detail: str) -> HttpResponse:
    return HttpResponse(json.dumps({"detail": detail}), status=status, content_type="application/json")


def too_large(length: str, most: int) -> HttpResponse:
    return refusal(413, f"The body has {length} bytes; ORSWEB_MAX_BODY_BYTES allows {most}")


async def _send(response: HttpResponseBase, receive: Receive, send: Send) -> None:
    headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in response.items()]
    if isinstance(response, StreamingHttpResponse):
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        await _send_stream(response.streaming_content, receive, send)  # type: ignore[arg-type]
        return
    content = response.content  # type: ignore[attr-defined]
    headers.append((b"content-length", b"%d" % len(content)))
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": content})


async def _send_stream(pieces: AsyncIterator[bytes], receive: Receive, send: Send) -> None:
    """Send until the iterator or the client ends; either way the iterator is closed, so that it can tell which."""
    sending = asyncio.ensure_future(_send_pieces(pieces, send))
    leaving = asyncio.ensure_future(_until_disconnect(receive))
    try:
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
        await pieces.aclose()  # type: ignore[attr-defined]
    if sending.done() and not sending.cancelled() and (error := sending.exception()) is not None:
        raise error


async def _send_pieces(pieces: AsyncIterator[bytes], send: Send) -> None:
    async for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
