"""Response: what a protocol view answers, as the handler sends it. Lighter than Django's, whose headers and charset
handling cost more than the rest of a request here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from environments.wire import value_json

Headers = tuple[tuple[bytes, bytes], ...]

JSON_HEADERS: Headers = ((b"content-type", b"application/json"),)


class Response:
    """Status, header pairs without Content-Length, and a body: bytes, or a generator of them that will be closed."""

    __slots__ = ("body", "headers", "status_code")

    def __init__(
        self, body: bytes | AsyncGenerator[bytes, None], *, status: int = 200, headers: Headers = JSON_HEADERS
    ) -> None:
        self.body, self.status_code, self.headers = body, status, headers


def text_response(text: str) -> Response:
    """`text` is ASCII JSON already."""
    return Response(text.encode("ascii"))


def json_response(value: Any) -> Response:
    return Response(value_json(value).encode("ascii"))


def refusal(status: int, detail: Any, headers: Mapping[str, str] | None = None) -> Response:
    """`{"detail": …}`, the body of every answer that is not 2xx."""
    pairs = tuple((name.lower().encode("ascii"), value.encode("latin-1")) for name, value in (headers or {}).items())
    return Response(value_json({"detail": detail}).encode("ascii"), status=status, headers=JSON_HEADERS + pairs)
