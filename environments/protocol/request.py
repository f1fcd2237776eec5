"""The two request objects of a protocol request: Django's, made of an ASGI scope without ceremony, and DRF's around it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from django import http
from django.utils.datastructures import MultiValueDict
from rest_framework.request import Empty, Request


@cache
def _meta_name(header: bytes) -> str:
    name = header.decode("latin-1").upper().replace("-", "_")
    return name if name in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{name}"


class HttpRequest(http.HttpRequest):
    """Only what the protocol needs: method, path, headers in META (ISO-8859-1, as they came) and the whole body.

    Django's own ASGIRequest parses cookies, query and forms lazily but still costs several times as much to make.
    """

    def __init__(self, scope: dict[str, Any], receive: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        self.method = scope["method"]
        self.path = self.path_info = scope["path"]
        self.content = b""
        self.META = {name_of(header): value.decode("latin-1") for header, value in scope["headers"]}
        self.receive = receive
        self.resolver_match = None

    def has_disconnected(self) -> bool:
        """Whether the client is already gone. Asks without waiting: `receive` answers at once only when it is."""
        asking = self.receive()
        try:
            asking.send(None)  # type: ignore[attr-defined]
        except StopIteration as answer:
            return bool(answer.value["type"] == "http.disconnect")
        finally:
            asking.close()  # type: ignore[attr-defined]
        return False

    GET = POST = http.QueryDict()
    COOKIES: dict[str, str] = {}
    FILES: MultiValueDict[str, Any] = MultiValueDict()


def name_of(header: bytes) -> str:
    """META's name of a header; only short ones are remembered, and those are few."""
    return _meta_name(header) if len(header) < 40 else _meta_name.__wrapped__(header)


class ProtocolRequest(Request):
    """DRF's request with its fields set directly. Bodies are read by the wire types, not by DRF's parsers."""

    def __init__(self, request: HttpRequest, authenticators: tuple[Any, ...]) -> None:
        self._request = request
        self.authenticators = authenticators
        self.parsers = ()
        self.negotiator = None
        self.parser_context = {}
        self._data = self._files = self._full_data = self._content_type = self._stream = Empty
        self.META = request.META
