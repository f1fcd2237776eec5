"""A blocking HTTP client for the protocol, used by `remote.py`; a response is JSON or a whole
stream of events."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn
from urllib.parse import quote, urlsplit

MAX_BYTES = 256 * 1024 * 1024
STARTING_PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Reply:
    """A response: `value` is its parsed JSON, or `events` are the (event, data) pairs of its
    stream."""

    status: int
    content_type: str
    value: Any = None
    events: list[tuple[str, str]] = field(default_factory=list)

    @property
    def detail(self) -> str:
        """The reason that the server gave for refusing a request."""
        detail = (
            self.value.get("detail", self.value) if isinstance(self.value, dict) else self.value
        )
        return str(detail or "no reason given")


class Client:
    """A client for the server at `url`, whose path is a prefix of the path of every request."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout_seconds: float) -> None:
        """Raises: ValueError when `url` is not an http or https URL."""
        parts = urlsplit(url if "//" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not the address of a server; use http://host:port")
        secure = parts.scheme == "https"
        self._kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self._host, self._port = parts.hostname, parts.port or (443 if secure else 80)
        self._prefix = parts.path.rstrip("/")
        self._headers = dict(headers)
        self._timeout_seconds = timeout_seconds

    def request(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Reply:
        """Return the response; repeat the request while the environment is starting. Raises:
        OSError, ValueError."""
        deadline = time.monotonic() + self._timeout_seconds
        while True:
            reply, is_starting = self._request_once(method, path, body, headers)
            if not is_starting or time.monotonic() > deadline:
                return reply
            time.sleep(STARTING_PAUSE_SECONDS)

    def _request_once(
        self, method: str, path: str, body: Any, headers: Mapping[str, str]
    ) -> tuple[Reply, bool]:
        connection = self._kind(self._host, self._port, timeout=self._timeout_seconds)
        fields = {**self._headers, **headers}
        content = None
        if body is not None:
            content, fields["Content-Type"] = json.dumps(body).encode(), "application/json"
        try:
            connection.request(method, self._prefix + quote(path), content, fields)
            response = connection.getresponse()
            kind = response.headers.get_content_type()
            if kind == "text/event-stream":
                return Reply(response.status, kind, events=_events(response)), False
            text, value = response.read(MAX_BYTES), None
            if kind != "application/json":
                value = text.decode("utf-8", "replace")[:500]
            elif text:
                value = json.loads(text.decode(), parse_constant=_refuse)
            is_starting = (
                response.status == 503 and response.headers.get("X-Backend-State") == "starting"
            )
            return Reply(response.status, kind, value), is_starting
        except http.client.HTTPException as error:
            raise OSError(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not valid JSON")


def _events(response: http.client.HTTPResponse) -> list[tuple[str, str]]:
    """Read until the server closes the connection. Raises: ValueError for a line without a colon,
    as clients do."""
    events, name, data = [], "", list[str]()
    for line in (raw.decode("utf-8").rstrip("\r\n") for raw in response):
        if not line:
            if name or data:
                events.append((name, "\n".join(data)))
            name, data = "", []
            continue
        field_name, colon, value = line.partition(":")
        if not colon:
            raise ValueError(f"the stream has a line without a colon: {line[:80]!r}")
        if field_name == "event":
            name = value.removeprefix(" ")
        elif field_name == "data":
            data.append(value.removeprefix(" "))
    return events
