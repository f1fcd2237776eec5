"""Requests to the server that runs a remote environment. Whatever goes wrong becomes a RemoteFault
that names its URL.

Responses are read as the clients of both SDKs read them, but only complete ones count: a stream has
to end with an `end` or an `error` event.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any, NoReturn
from urllib.parse import quote

from environments.errors import REMOTE_ERROR, EnvironmentFault, shorten
from environments.hosts.connection_pool import ConnectionPool, OutboundExchange
from environments.hosts.event_stream import EventParser, StreamEnd, StreamReader
from environments.hosts.http_connection import ConnectionLost, HttpError, NotConnected, Silence
from environments.hosts.remote_url import RemoteUrl
from environments.limits import Limits
from environments.wire import check_depth, value_json

MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""Most bytes of a response that is JSON; a list of tasks may be one."""
MAX_ERROR_BYTES = 64 * 1024
MAX_REJOINS = 3
"""How often the result of a call is requested again after its stream has broken off."""
REJOIN_SECONDS = 0.5
"""Pause before the first such request; each further one is twice as long."""
MAX_STARTING_PAUSE_SECONDS = 10.0
"""Longest pause that a server may ask for while it starts an environment."""
JSON_HEADERS = {"Accept": "application/json"}
STREAM_HEADERS = {"Accept": "text/event-stream"}


class RemoteFault(EnvironmentFault):
    """A remote environment failed. `status` is that of its response, 0 if there was none."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(REMOTE_ERROR, text)
        self.status = status


class Unsent(RemoteFault):
    """The server cannot be reached, so the request had no effect."""


class _Starting(RemoteFault):
    """The session's setup has not ended: the request is to be repeated after a pause."""

    def __init__(self, text: str, pause_seconds: float) -> None:
        super().__init__(text, 503)
        self.pause_seconds = pause_seconds


class RemoteServer:
    """The server of one remote environment. Use it on one event loop only."""

    def __init__(self, url: RemoteUrl, limits: Limits) -> None:
        self.url, self.limits = url, limits
        self.is_unreachable = asyncio.Event()
        """Set when the server cannot be reached, or closes a connection before its answer."""
        self._pool = ConnectionPool(url.host, url.port, is_secure=url.is_secure)
        headers = {"Host": url.host_header, "User-Agent": "orsweb", **url.headers}
        self._fixed_lines = _header_lines(headers)

    def close(self) -> None:
        self._pool.close()

    def path(self, name: str) -> str:
        """Return the path of an endpoint of the environment."""
        return f"/{self.url.environment}/{name}"

    # --- JSON -------------------------------------------------------------------------------------

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] = JSON_HEADERS,
        seconds: float | None = None,
    ) -> Any:
        """Return the parsed response within `seconds`, by default `remote_silence_seconds`.

        A request with GET is repeated once if its connection breaks.

        Raises: RemoteFault, also for every status but 200.
        """
        seconds = seconds or self.limits.remote_silence_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._ask_until_started(method, path, body, headers, seconds)
        except TimeoutError:
            raise RemoteFault(
                f"{self.url.server} didn't answer {method} {path} within {seconds:g} s"
            ) from None

    async def _ask_until_started(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], seconds: float
    ) -> Any:
        """Return the response; repeat the request while the environment is starting."""
        request, repeats = self._request(method, path, body, headers), method == "GET"
        while True:
            try:
                async with self._pool.exchange(request, seconds) as exchange:
                    if not _is_starting(exchange):
                        return await self._answer(exchange, method, path)
                    pause = _pause_of(exchange)
            except ConnectionLost as error:
                if not repeats:
                    raise self._lost(error, method, path) from None
                repeats, pause = False, 0.0
            except HttpError as error:
                raise self._lost(error, method, path) from None
            await asyncio.sleep(pause)

    async def _answer(self, exchange: OutboundExchange, method: str, path: str) -> Any:
        if exchange.status != 200:
            await self._refuse(exchange, method, path)
        content = await exchange.read_all(MAX_ANSWER_BYTES)
        if exchange.content_type == "text/event-stream":
            return EventParser().feed(content + b"\n\n")
        try:
            return parsed(content.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            start = shorten(content[:200].decode("utf-8", "replace"), 80)
            raise RemoteFault(
                f"{self.url.server} answered {method} {path} with {start!r}, which is not valid "
                f"JSON ({error})",
                200,
            ) from None

    async def _refuse(self, exchange: OutboundExchange, method: str, path: str) -> NoReturn:
        """Raise the fault for a response with another status than 200."""
        try:
            content = (await exchange.read_all(MAX_ERROR_BYTES)).decode("utf-8", "replace")
        except HttpError:
            content = ""
        text = f"{self.url.server} answered {method} {path} with status {exchange.status}"
        if location := exchange.headers.get("location"):
            # without user, password and query
            target = quote(location.partition("?")[0].rpartition("@")[2], safe="/:%[]")[:200]
            text += f" (to {target}); redirections are not followed"
        detail = _detail_of(content)
        raise RemoteFault(f"{text}: {detail}" if detail else text, exchange.status)

    # --- streams ----------------------------------------------------------------------------------

    async def stream(
        self, path: str, values: Mapping[str, Any], headers: Mapping[str, str], *, was_ready: bool
    ) -> StreamEnd:
        """Return the end of the stream that answers `values`. A stream that breaks off is rejoined
        by its task_id.

        `was_ready`: the session's setup has ended. Otherwise the stream may begin as late as
        `setup_wait_seconds`, because ors-sdk 0.1.0 sends nothing before that, and openreward
        0.1.167 answers that it is starting.

        Raises: RemoteFault. A request of which nothing was answered is never sent twice: the tool
        may have run.
        """
        if was_ready:
            return await self._stream_to_end(
                path, values, headers, self.limits.remote_silence_seconds
            )
        limit = max(self.limits.setup_wait_seconds, self.limits.remote_silence_seconds)
        until = time.monotonic() + limit
        while True:
            try:
                return await self._stream_to_end(path, values, headers, limit)
            except _Starting as starting:
                if time.monotonic() + starting.pause_seconds > until:
                    raise
                await asyncio.sleep(starting.pause_seconds)

    async def _stream_to_end(
        self, path: str, values: Mapping[str, Any], headers: Mapping[str, str], first_seconds: float
    ) -> StreamEnd:
        """Return the end of the stream, or of one that rejoins it; it may begin as late as
        `first_seconds`."""
        body, task_id = encoded(values), ""
        for attempt in range(MAX_REJOINS + 1):
            reader = StreamReader(self.limits.max_result_bytes)
            try:
                return await self._stream_once(
                    self._request("POST", path, body, headers), path, reader, first_seconds
                )
            except ConnectionLost as error:
                fault = self._lost(error, "POST", path)
            except Unsent as error:
                if not task_id:
                    raise
                fault = error
            task_id = task_id or reader.task_id
            if not task_id or attempt == MAX_REJOINS:
                break
            body = encoded({**values, "task_id": task_id})
            await asyncio.sleep(REJOIN_SECONDS * 2**attempt)
        raise fault

    async def _stream_once(
        self, request: bytes, path: str, reader: StreamReader, first_seconds: float
    ) -> StreamEnd:
        try:
            async with self._pool.exchange(
                request, self.limits.remote_silence_seconds, first_seconds
            ) as exchange:
                if _is_starting(exchange):
                    raise _Starting(f"{self.url} is still starting", _pause_of(exchange))
                if exchange.status != 200:
                    await self._refuse(exchange, "POST", path)
                if exchange.content_type != "text/event-stream":
                    kind = exchange.content_type or "no content type"
                    raise RemoteFault(
                        f"{self.url.server} answered POST {path} with {kind}, not a "
                        "stream of events"
                    )
                while data := await exchange.read():
                    if end := reader.feed(data):
                        exchange.has_result = True
                        return end
                raise ConnectionLost("closed the stream before its end")
        except ConnectionLost:
            raise
        except HttpError as error:
            raise self._lost(error, "POST", path) from None
        except (ValueError, OverflowError) as error:
            raise RemoteFault(
                f"{self.url.server} answered POST {path} with an invalid stream: {error}"
            ) from None

    # --- requests and faults ----------------------------------------------------------------------

    def _request(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> bytes:
        lines = _header_lines(headers)
        if method == "POST":
            body = b"{}" if body is None else body
            lines += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        head = f"{method} {self.url.prefix}{path} HTTP/1.1\r\n{self._fixed_lines}{lines}\r\n"
        return head.encode("latin-1") + (body or b"")

    def _lost(self, error: HttpError, method: str, path: str) -> RemoteFault:
        """Return the fault for a request that got no complete response."""
        setting = " (ORSWEB_REMOTE_SILENCE)" if isinstance(error, Silence) else ""
        if isinstance(error, NotConnected | ConnectionLost):
            self.is_unreachable.set()
        if isinstance(error, NotConnected):
            return Unsent(f"{self.url.server} {error}")
        return RemoteFault(f"{self.url.server} {error} in answer to {method} {path}{setting}")


def _header_lines(headers: Mapping[str, str]) -> str:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())


def encoded(values: Mapping[str, Any]) -> bytes:
    """Return a body. Raises: TypeError for values without a JSON form."""
    return value_json(values).encode("ascii")


def parsed(text: str) -> Any:
    """Return the value of JSON text. Raises: ValueError, also for NaN and for deep nesting;
    RecursionError."""
    value = _decode(text)
    check_depth(value)
    return value


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode


def _detail_of(content: str) -> str:
    """Return what the body of a refusal says: its `detail`, or all of it."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        value = content
    detail = value.get("detail", value) if isinstance(value, dict) else value
    return (detail if isinstance(detail, str) else json.dumps(detail)).strip()


def _is_starting(exchange: OutboundExchange) -> bool:
    return exchange.status == 503 and exchange.headers.get("x-backend-state") == "starting"


def _pause_of(exchange: OutboundExchange) -> float:
    text = exchange.headers.get("retry-after", "")
    return min(float(text) if text.isdecimal() else 1.0, MAX_STARTING_PAUSE_SECONDS)
