"""Answers agents' requests, with little work per request.

Django's own handler starts a thread for every request and runs the middleware of the pages; agents
need neither. This handler checks the Host, and finds the view by its path: a DRF view of `ors/`
(`urls.py` has their paths) or `mcp/`. Unknown paths are answered with JSON; those that a browser opens
are left to the pages.
`orsweb/server/exchange.py` and `asgi_exchange.py` read requests and send responses.

Divergences from the references: bare paths are served, not redirected; repeated slashes count as
one; the size of a body is limited; a `Host` that is not allowed is refused, because a foreign web
page could otherwise reach a local server by DNS rebinding; a server without keys refuses requests
that came through a proxy; HEAD is answered where GET is.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable

import structlog
from django.http.request import validate_host
from django.urls import Resolver404, ResolverMatch, URLResolver
from django.urls.resolvers import RegexPattern

from environments import conf, security_log
from environments.agents.http.errors import NUL_IS_NOWHERE
from environments.agents.http.proxy_signs import proxy_header, refusal_of_proxied
from environments.agents.http.request import HttpRequest
from environments.agents.http.response import Response, refusal
from environments.agents.http.view import ProtocolView
from environments.errors import KeyRefused
from environments.keys.keyring import ring

Answer = Callable[[HttpRequest], Awaitable[Response]]

log = structlog.get_logger(__name__)

MCP_PATH = "/mcp/"
MAX_CACHED_ROUTES = 4096
MAX_CACHED_HOSTS = 100
_SLASHES = re.compile("/{2,}")


class ProtocolHandler:
    """Answers the requests that `is_agents` recognizes by their method and path, without the prefix.

    `urls` is the dotted path of the module with its `urlpatterns`; each of `around` wraps the
    function that answers a request.
    """

    def __init__(
        self,
        urls: str,
        is_agents: Callable[[str, str], bool],
        *around: Callable[[Answer], Answer] | None,
    ) -> None:
        self._resolver = URLResolver(RegexPattern(r"^/"), urls)
        self._routes: dict[str, tuple[type[ProtocolView], dict[str, str]]] = {}
        self._allowed_hosts: set[str] = set()
        self._is_agents = is_agents
        self.max_body_bytes, self.path_prefix = conf.max_body_bytes(), conf.path_prefix()
        for wrapper in around:
            if wrapper is not None:
                self.answer = wrapper(self.answer)  # type: ignore[method-assign, assignment]

    def serves(self, method: str, path: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Return whether this answers a request: not if it is for a page, or by a browser for a path
        that does not exist."""
        if not self._is_agents(method, path):
            return False
        if method not in ("GET", "HEAD") or path in self._routes:
            return True
        accepts_html = any(name == b"accept" and b"text/html" in value for name, value in headers)
        return not accepts_html or self._resolver_match(path) is not None

    async def respond(self, request: HttpRequest) -> Response:
        """Return the response to a request whose body has been read."""
        return self.refuse_sender(request) or await self.answer(request)

    def may_send(self, request: HttpRequest) -> bool:
        """Return whether to read the body of a request: it is not refused, and its key is valid if
        it needs one. Otherwise the response without the body says what is wrong."""
        if self.refuse_sender(request) is not None:
            return False
        try:
            ring.check(request.META, request.client)
        except KeyRefused:
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

    async def answer(self, request: HttpRequest) -> Response:
        """Return the response to a request whose sender was not refused, and whose body has been
        read."""
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
        path = _SLASHES.sub("/", request.path)
        if path != "/" and path.endswith("/"):
            return refusal(
                307, "Leave out the trailing slash", {"Location": request.url_of(path.rstrip("/"))}
            )
        match = self._resolver_match(path)
        if match is None:
            return refusal(404, "Not Found")
        view: type[ProtocolView] = match.func.cls  # type: ignore[attr-defined]  # set by DRF's as_view
        route = (view, match.kwargs)
        if len(self._routes) < MAX_CACHED_ROUTES:
            self._routes[request.path] = route
        return route

    def _resolver_match(self, path: str) -> ResolverMatch | None:
        """Return what serves a path, with slashes at its end or repeated ones; None if nothing does."""
        try:
            return self._resolver.resolve(_SLASHES.sub("/", path.rstrip("/")) or "/")
        except Resolver404:
            return None


def too_large(length: int, max_bytes: int) -> Response:
    """Return the response to a request whose body is longer than `max_bytes`."""
    return refusal(413, f"The body has {length} bytes; ORSWEB_MAX_BODY_BYTES allows {max_bytes}")
