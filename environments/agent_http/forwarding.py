"""Passes requests about a session on to the server that has it, where several servers share the database.

The other server answers as if the client had asked it, so keys, bodies and responses go through unchanged. An event
stream is passed on as it arrives. A request whose server dies before it has answered is sent again, to the server that
takes the session over; that is what its client would do. docs/scale.md describes what clients see.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any
from urllib.parse import quote

import structlog

from environments.agent_http.handler import GONE
from environments.agent_http.request import HttpRequest
from environments.agent_http.response import Headers, Response, refusal
from environments.cluster.membership import Peer
from environments.cluster.ownership import Ownership
from environments.cluster.passing import TOKEN_HEADER
from environments.hosts.connection_pool import ConnectionPool
from environments.hosts.http_connection import HttpError, OutboundConnection, Silence
from environments.service import ownership_or_none, service_or_none

Answer = Callable[[HttpRequest], Awaitable[Response]]

MCP_PATH = "/mcp/"
NO_CONTENT = 204
NOT_HERE = 421
"""Status of the answer to a server that passed on a request about a session which is not here any more."""
LOOK_SECONDS = 0.1
"""Time between two looks at whether the client has left while another server answers."""
MAX_SECONDS = 30.0
"""How long a request waits for a server that does not answer and is not known to be dead."""
RETRY_SECONDS = 0.1
_OWN = frozenset({b"connection", b"content-length", b"transfer-encoding", b"keep-alive", b"expect", TOKEN_HEADER})
"""Headers of a request that are made anew."""
_PASSED = ("content-type", "cache-control", "x-accel-buffering", "retry-after", "x-backend-state", "www-authenticate")
"""Headers of a response that are passed on."""
_AWAY = "The server that has this session does not answer; try again."

log = structlog.get_logger(__name__)


class Forwarding:
    """Answers requests in place of `answer`, to which it leaves those about sessions of this server."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._pools: dict[int, ConnectionPool] = {}

    async def __call__(self, request: HttpRequest) -> Response:
        sid = request.META.get("HTTP_MCP_SESSION_ID" if request.path.startswith(MCP_PATH) else "HTTP_X_SESSION_ID", "")
        service, ownership = service_or_none(), ownership_or_none()
        if not sid or service is None or ownership is None or service.is_live(sid):
            return await self._answer(request)
        try:
            sid = sid.encode("latin-1").decode("utf-8").strip()
        except UnicodeDecodeError:
            return await self._answer(request)  # refuses it
        if service.is_live(sid):
            return await self._answer(request)
        if (token := request.META.get("HTTP_X_ORSWEB_PEER")) is not None:
            return await self._answer_peer(request, sid, token, ownership)
        return await self._pass_on(request, sid, ownership)

    async def _answer_peer(self, request: HttpRequest, sid: str, token: str, ownership: Ownership) -> Response:
        """Answer a request that another server has passed on about a session that is not live here."""
        if not hmac.compare_digest(token.encode("latin-1"), ownership.membership.token.encode()):
            return refusal(403, "Only servers of this cluster send X-Orsweb-Peer")
        ownership.forget_place(sid)
        if _opens(request) or await ownership.place_of(sid) is None:
            return await self._answer(request)
        return refusal(NOT_HERE, "This server does not have the session")

    async def _pass_on(self, request: HttpRequest, sid: str, ownership: Ownership) -> Response:
        until = time.monotonic() + MAX_SECONDS
        while True:
            peer = await ownership.place_of(sid, is_new=_opens(request))
            if peer is None:
                return await self._answer_here(request, sid, ownership)
            try:
                response = await self._send(peer, request, ownership)
            except HttpError as error:
                log.info("a server does not answer", server=peer.id, reason=str(error))
                await ownership.check_peers()
            else:
                if response.status_code != NOT_HERE:
                    return response
            ownership.forget_place(sid)
            if time.monotonic() > until or request.has_disconnected():
                return refusal(503, _AWAY, {"Retry-After": "2"})
            await asyncio.sleep(RETRY_SECONDS)

    async def _answer_here(self, request: HttpRequest, sid: str, ownership: Ownership) -> Response:
        if not _opens(request):
            return await self._answer(request)
        try:
            return await self._answer(request)
        finally:
            ownership.settle_claim(sid)

    # --- one exchange -------------------------------------------------------------------------------------------------

    async def _send(self, peer: Peer, request: HttpRequest, ownership: Ownership) -> Response:
        """Return the response of `peer`. Raises: HttpError if it sends none."""
        pool = self._pools.get(peer.id) or self._new_pool(peer, ownership)
        connection = await pool.acquire()
        has_left = request.has_disconnected

        def check() -> None:
            """Raises: HttpError if there is nothing to wait for any more."""
            if has_left():
                raise ClientLeft("was not waited for, because the client has left")
            if peer.id not in ownership.membership.peers:
                raise PeerDied("is dead")

        try:
            connection.send(_encoded(request, peer.token))
            await _until(lambda: connection.until_headers(LOOK_SECONDS), check)
            headers = _passed(connection)
            if "content-length" in connection.headers or connection.status == NO_CONTENT:
                body = b""
                while piece := await _until(lambda: connection.read(LOOK_SECONDS), check):
                    body = body + piece if body else piece
                pool.release(connection, has_result=False)
                return Response(body, status=connection.status, headers=headers)
        except ClientLeft:
            connection.abort()
            return GONE
        except BaseException:
            connection.abort()
            raise
        return Response(_pieces(pool, connection, check), status=connection.status, headers=headers)

    def _new_pool(self, peer: Peer, ownership: Ownership) -> ConnectionPool:
        for number in self._pools.keys() - ownership.membership.peers.keys():
            self._pools.pop(number).close()
        host, _, port = peer.address.rpartition(":")
        if peer.address.startswith("/"):
            pool = ConnectionPool("", 0, is_secure=False, path=peer.address)
        else:
            pool = ConnectionPool(host.strip("[]"), int(port), is_secure=False)
        self._pools[peer.id] = pool
        return pool


class ClientLeft(HttpError):
    """The client of a request that was passed on has left."""


class PeerDied(HttpError):
    """The server to which a request was passed on has been found dead."""


async def _pieces(
    pool: ConnectionPool, connection: OutboundConnection, check: Callable[[], None]
) -> AsyncGenerator[bytes, None]:
    """Yield the body of a response as it arrives. It breaks off, as the client's connection does, if it cannot end."""
    is_whole = False
    try:
        while piece := await _until(lambda: connection.read(LOOK_SECONDS), check):
            yield piece
        is_whole = True
    finally:
        if is_whole:
            pool.release(connection, has_result=False)
        else:
            connection.abort()


async def _until(wait: Callable[[], Awaitable[Any]], check: Callable[[], None]) -> Any:
    """Return what `wait` returns, called again while nothing arrives and `check` allows it. Raises: HttpError."""
    while True:
        try:
            return await wait()
        except Silence:
            check()


def _opens(request: HttpRequest) -> bool:
    """Return whether the request opens a session."""
    return request.method == "POST" and request.path.strip("/") == "create"


def _encoded(request: HttpRequest, token: str) -> bytes:
    """Return the bytes of the request as it is passed on."""
    query = request.query_string
    target = quote(request.path) + (f"?{query}" if query else "")
    lines = [f"{request.method} {target} HTTP/1.1".encode("latin-1")]
    lines += [b"%b: %b" % header for header in request.raw_headers if header[0] not in _OWN]
    lines += [b"%b: %b" % (TOKEN_HEADER, token.encode()), b"content-length: %d" % len(request.content)]
    return b"\r\n".join([*lines, b"", request.content])


def _passed(connection: OutboundConnection) -> Headers:
    found = connection.headers
    return tuple((name.encode(), found[name].encode("latin-1")) for name in _PASSED if name in found)
