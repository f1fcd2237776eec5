"""The response of a view for agents, as the handler sends it.

Django's response is not used because its handling of headers and charset costs more than the rest
of a request.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from environments.wire import value_json

Headers = tuple[tuple[bytes, bytes], ...]

JSON_HEADERS: Headers = ((b"content-type", b"application/json"),)


class Response:
    """A status, header pairs without Content-Length, and a body: bytes, or a generator of bytes
    that gets closed."""

    __slots__ = ("body", "headers", "status_code")

    def __init__(
        self,
        body: bytes | AsyncGenerator[bytes, None],
        *,
        status: int = 200,
        headers: Headers = JSON_HEADERS,
    ) -> None:
        self.body, self.status_code, self.headers = body, status, headers


GONE = Response(b"")
"""Used in place of a response when the client has disconnected and nothing is to be sent."""


def text_response(text: str) -> Response:
    """Return a response with `text`, which must be ASCII JSON."""
    return Response(text.encode("ascii"))


def json_response(value: Any) -> Response:
    """Return a response with the JSON of `value`."""
    return Response(value_json(value).encode("ascii"))


def refusal(status: int, detail: Any, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with `{"detail": …}`, the body of every response whose status is not
    2xx."""
    body = value_json({"detail": detail}).encode("ascii")
    return Response(body, status=status, headers=JSON_HEADERS + header_pairs(headers))


def header_pairs(headers: Mapping[str, str] | None) -> Headers:
    """Return headers as a Response holds them."""
    return tuple(
        (name.lower().encode("ascii"), value.encode("latin-1"))
        for name, value in (headers or {}).items()
    )
