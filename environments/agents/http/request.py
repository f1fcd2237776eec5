"""An agent's request: Django's object, made cheaply from an ASGI scope."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

from django import http
from django.utils.datastructures import MultiValueDict

from environments import conf
from environments.agents.http.proxy_signs import meta_name

CONNECTION = "orsweb.server.connection"
"""Name of the ASGI extension of our server that shows whether a connection is closed:
`{"is_closed": callable}`."""
MAX_CACHED_NAMES = 500
_names: dict[bytes, str] = {}


def _name_of(header: bytes) -> str:
    """Return the key of a header in META."""
    name = meta_name(header)
    if len(_names) < MAX_CACHED_NAMES and len(header) < 100:
        _names[header] = name
    return name


class HttpRequest(http.HttpRequest):
    """A request with only what the protocol needs: method, path, headers in META (decoded as
    ISO-8859-1) and body.

    Django's own ASGIRequest parses cookies, query and forms lazily, but still costs several times
    as much to create.
    """

    GET = POST = http.QueryDict()
    COOKIES: dict[str, str] = {}
    method: str
    FILES: MultiValueDict[str, Any] = MultiValueDict()

    def __init__(
        self, scope: dict[str, Any], receive: Callable[[], Awaitable[dict[str, Any]]]
    ) -> None:
        self.is_head = scope["method"] == "HEAD"
        """Whether the response to GET is sent without its body."""
        self.method = "GET" if self.is_head else scope["method"]
        self.path = self.path_info = scope["path"]
        self.content = b""
        self.owner = ""
        """Label of its API key, once that was checked."""
        self.META = {
            _names.get(name) or _name_of(name): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        self.resolver_match = None
        self._scope, self._receive_event = scope, receive

    @property
    def client(self) -> tuple[str, str]:
        """The address that the connection comes from, and the header X-Forwarded-For."""
        host, _ = self._scope.get("client") or ("", 0)
        return host, self.META.get("HTTP_X_FORWARDED_FOR", "")

    @property
    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers as they were sent, with their names in lower case."""
        headers: list[tuple[bytes, bytes]] = self._scope["headers"]
        return headers

    @property
    def target(self) -> bytes:
        """The path and the query as they were sent."""
        path: bytes = self._scope.get("raw_path") or quote(self.path).encode()
        query: bytes = self._scope["query_string"]
        return b"%b?%b" % (path, query) if query else path

    @property
    def query_string(self) -> str:
        """The part of the URL after the question mark, as it was sent, decoded as ISO-8859-1."""
        query: bytes = self._scope["query_string"]
        return query.decode("latin-1")

    def url_of(self, path: str) -> str:
        """Return the address of `path` with the query of this request, without scheme and host,
        which a proxy knows."""
        query = self.query_string
        return f"{conf.path_prefix()}{quote(path)}{query and '?'}{query}"

    @property
    def reports_disconnect(self) -> bool:
        """Return whether the server has the ASGI extension that shows a closed connection.

        `serve` has it, daphne does not.
        """
        return CONNECTION in self._scope.get("extensions", ())

    async def until_disconnect(self) -> None:
        """Wait until the client has disconnected; for a request whose body was read."""
        while (await self._receive_event())["type"] != "http.disconnect":
            pass

    def has_disconnected(self) -> bool:
        """Return whether the client has disconnected.

        On servers without the extension, `receive` is advanced once but not awaited: it has a
        result immediately only when the client has disconnected.
        """
        if self.reports_disconnect:
            return bool(self._scope["extensions"][CONNECTION]["is_closed"]())
        asking: Any = self._receive_event()
        try:
            asking.send(None)
        except StopIteration as answer:
            return bool(answer.value["type"] == "http.disconnect")
        finally:
            asking.close()
        return False
