"""The ASGI application that serves agents' requests, with little work per request.

Django's own handler starts a thread for every request and runs the middleware of the pages; agents
need neither. This handler checks the Host and the key, reads the body (up to the limit), finds the
view by its path and sends the response. The views are DRF views of `ors/` and `mcp/`. Unknown paths
are answered with JSON, never with an HTML page.

Divergences from the references: bare paths are served, not redirected; repeated slashes count as
one; the size of a body is limited; a `Host` that is not allowed is refused, because a foreign web
page could otherwise reach a local server by DNS rebinding; a server without keys refuses requests
that came through a proxy; HEAD is answered where GET is.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import structlog
from django.http.request import validate_host
from django.urls import Resolver404, URLResolver
from django.urls.resolvers import RegexPattern
from rest_framework.exceptions import APIException

from environments import conf, security_log
from environments.agents.http.errors import NUL_IS_NOWHERE
from environments.agents.http.proxy_signs import proxy_header, refusal_of_proxied
from environments.agents.http.request import HttpRequest, ProtocolRequest
from environments.agents.http.response import Response, refusal
from environments.agents.http.view import ProtocolView

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

Answer = Callable[[HttpRequest], Awaitable[Response]]

log = structlog.get_logger(__name__)

MCP_PATH = "/mcp/"
MAX_CACHED_ROUTES = 4096
MAX_CACHED_HOSTS = 100


class ProtocolHandler:
    """ASGI application for HTTP scopes. `urls` is the dotted path of the module with its
    `urlpatterns`; each of `around` wraps the function that answers a request."""

    def __init__(self, urls: str, *around: Callable[[Answer], Answer] | None) -> None:
        self._resolver = URLResolver(RegexPattern(r"^/"), urls)
        self._routes: dict[str, tuple[type[ProtocolView], dict[str, str]]] = {}
        self._allowed_hosts: set[str] = set()
        self._max_body_bytes = conf.max_body_bytes()
        for wrapper in around:
            if wrapper is not None:
                self._answer = wrapper(self._answer)  # type: ignore[method-assign, assignment]

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        request = HttpRequest(scope, receive)
        response = (
            self.refuse_sender(request)
            or _refusal_of_head(request)
            or await self._read_body(request, receive)
            or await self._answer(request)
        )
        if response is not GONE:
            await _send(request, response, send)

    async def respond(self, request: HttpRequest) -> Response:
        """Return the response to a request whose body has been read."""
        return self.refuse_sender(request) or await self._answer(request)

    def may_send(self, request: HttpRequest) -> bool:
        """Return whether to read the body of a request: it is not refused, and its key is valid if
        it needs one. Otherwise the response without the body says what is wrong."""
        if self.refuse_sender(request) is not None:
            return False
        try:
            ProtocolRequest(request, ProtocolView.authenticators).authenticate()
        except APIException:
            return False
        return True

    def refuse_sender(self, request: HttpRequest) -> Response | None:
        """Return the response to a request with a `Host` that is not allowed, or through a proxy
        that is not; None for others."""
        names = tuple(request.META)
        if proxy_header(names) and not conf.has_keys():
            sentence = refusal_of_proxied(names)
            security_log.note("proxy_refused", who="", address=request.client[0], detail=sentence)
            return refusal(403, sentence)
        if request.META.get("HTTP_HOST") in self._allowed_hosts:
            return None
        host = request.META.get("HTTP_HOST", "")
        domain = re.sub(r":\d+$", "", host).lower().rstrip(".")
        if not domain or not validate_host(domain, conf.allowed_hosts()):
            security_log.note(
                "host_refused", host[:200], who="", address=conf.address_of(*request.client)
            )
            return refusal(
                400, f"Host {host[:200]!r} is not allowed here; add it to ORSWEB_ALLOWED_HOSTS"
            )
        if len(self._allowed_hosts) < MAX_CACHED_HOSTS:
            self._allowed_hosts.add(host)
        return None

    async def _read_body(self, request: HttpRequest, receive: Receive) -> Response | None:
        """Read the body into `request.content`. Return a response if that fails, or GONE if the
        client has left. The body of a request without a valid key is not read."""
        if not self.may_send(request):
            return None
        limit = self._max_body_bytes
        length = request.META.get("CONTENT_LENGTH", "0")
        if length.isdecimal() and int(length) > limit:
            return too_large(length, limit)
        pieces: list[bytes] = []
        size, has_more = 0, True
        while has_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return GONE
            pieces.append(message.get("body", b""))
            size, has_more = size + len(pieces[-1]), message.get("more_body", False)
            if size > limit:
                return too_large(f"over {limit}", limit)
        request.content = b"".join(pieces)
        return None

    async def _answer(self, request: HttpRequest) -> Response:
        route = self._routes.get(request.path) or self._find_route(request)
        if isinstance(route, Response):
            return route
        view, kwargs = route
        try:
            # equivalent to calling as_view's function, which adds two layers
            return await view().dispatch(request, **kwargs)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("a protocol view failed", method=request.method, path=request.path[:200])
            return refusal(500, "Internal Server Error")

    def _find_route(
        self, request: HttpRequest
    ) -> tuple[type[ProtocolView], dict[str, str]] | Response:
        if "\0" in request.path:
            return refusal(404, NUL_IS_NOWHERE)
        path = re.sub("/{2,}", "/", request.path)
        if path != "/" and path.endswith("/"):
            return refusal(
                307, "Leave out the trailing slash", {"Location": request.url_of(path.rstrip("/"))}
            )
        try:
            match = self._resolver.resolve(path)
        except Resolver404:
            return refusal(404, "Not Found")
        view: type[ProtocolView] = match.func.cls  # type: ignore[attr-defined]  # set by DRF's as_view
        route = (view, match.kwargs)
        if len(self._routes) < MAX_CACHED_ROUTES:
            self._routes[request.path] = route
        return route


GONE = Response(b"")
"""Used in place of a response when the client has disconnected and nothing is to be sent."""


def too_large(length: str, max_bytes: int) -> Response:
    """Return the response to a request whose body is longer than `max_bytes`."""
    return refusal(413, f"The body has {length} bytes; ORSWEB_MAX_BODY_BYTES allows {max_bytes}")


def _refusal_of_head(request: HttpRequest) -> Response | None:
    """Return the response to HEAD of MCP, whose GET opens a stream; None for others."""
    if request.is_head and request.path.startswith(MCP_PATH):
        return refusal(405, "Method Not Allowed", {"Allow": "GET, POST, DELETE"})
    return None


async def _send(request: HttpRequest, response: Response, send: Send) -> None:
    body = response.body
    if isinstance(body, bytes):
        headers = (*response.headers, (b"content-length", b"%d" % len(body)))
        await send(
            {"type": "http.response.start", "status": response.status_code, "headers": headers}
        )
        await send({"type": "http.response.body", "body": b"" if request.is_head else body})
        return
    await send(
        {"type": "http.response.start", "status": response.status_code, "headers": response.headers}
    )
    try:
        if request.is_head:
            await send({"type": "http.response.body", "body": b""})
        elif request.reports_disconnect:
            await _send_pieces(request, body, send)
        else:
            await _send_watching(request, body, send)
    finally:
        await body.aclose()  # so that the generator can clean up when its end was not reached


async def _send_pieces(
    request: HttpRequest, pieces: AsyncGenerator[bytes, None], send: Send
) -> None:
    async for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        if request.reports_disconnect and request.has_disconnected():
            return
    await send({"type": "http.response.body", "body": b""})


async def _send_watching(
    request: HttpRequest, pieces: AsyncGenerator[bytes, None], send: Send
) -> None:
    """Send the pieces until they end or the client disconnects, under a server that reports that by
    `receive` only."""
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
