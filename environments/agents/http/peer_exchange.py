"""Passes one request of a client on to another server of the same database, over a connection that
is kept open.

The other server answers as if the client had sent it the request, so keys, bodies and responses go
through unchanged. An event stream is passed on as it arrives.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import structlog

from environments.agents.http.request import HttpRequest
from environments.agents.http.response import GONE, Headers, Response
from environments.cluster.membership import Membership, Peer
from environments.cluster.passed_requests import REQUEST_HEADER, TOKEN_HEADER
from environments.errors import BrokenOff
from environments.hosts.connection_pool import ConnectionPool
from environments.hosts.http_connection import HttpError, OutboundConnection, Silence

log = structlog.get_logger(__name__)

NO_CONTENT = 204
LOOK_SECONDS = 0.1
"""Time between two looks at whether the client has left while another server answers."""
_OWN = frozenset(
    {
        b"connection",
        b"content-length",
        b"transfer-encoding",
        b"keep-alive",
        b"expect",
        TOKEN_HEADER,
        REQUEST_HEADER,
    }
)
"""Headers of a request that are made for each hop."""
_RESPONSE_HEADERS = (
    "content-type",
    "cache-control",
    "x-accel-buffering",
    "retry-after",
    "x-backend-state",
    "www-authenticate",
)
"""Headers of a response that are passed on."""


class ClientLeft(HttpError):
    """The client of a request that was passed on has left."""


class PeerDied(HttpError):
    """The server to which a request was passed on has been found dead."""


class PeerConnections:
    """The connections to other servers."""

    def __init__(self) -> None:
        self._pools: dict[int, ConnectionPool] = {}

    async def send(
        self, peer: Peer, request: HttpRequest, membership: Membership, request_id: str = ""
    ) -> Response:
        """Return the response of `peer`. `request_id`: as `passed_requests.REQUEST_HEADER` has it.

        Raises: HttpError if it sends none.
        """
        pool = self._pools.get(peer.id) or self._new_pool(peer, membership)
        connection = await pool.acquire()
        has_left = request.has_disconnected

        def check() -> None:
            """Check that there is still something to wait for. Raises: HttpError."""
            if has_left():
                raise ClientLeft("was not waited for, because the client has left")
            if peer.id not in membership.peers:
                raise PeerDied("is dead")

        try:
            connection.send(_encode(request, peer.token, request_id))
            await _until(lambda: connection.until_headers(LOOK_SECONDS), check)
            headers: Headers = tuple(
                (name.encode(), connection.headers[name].encode("latin-1"))
                for name in _RESPONSE_HEADERS
                if name in connection.headers
            )
            if "content-length" in connection.headers or connection.status == NO_CONTENT:
                body = connection.take()  # most responses have arrived as a whole
                while not connection.is_complete:
                    body += await _until(lambda: connection.read(LOOK_SECONDS), check)
                pool.release(connection, has_result=False)
                return Response(body, status=connection.status, headers=headers)
        except ClientLeft:
            connection.abort()
            return GONE
        except BaseException:
            connection.abort()
            raise
        return Response(_pieces(pool, connection, check), status=connection.status, headers=headers)

    def _new_pool(self, peer: Peer, membership: Membership) -> ConnectionPool:
        for number in self._pools.keys() - membership.peers.keys():
            self._pools.pop(number).close()
        host, _, port = peer.address.rpartition(":")
        if peer.address.startswith("/"):
            pool = ConnectionPool("", 0, is_secure=False, path=peer.address)
        else:
            pool = ConnectionPool(host.strip("[]"), int(port), is_secure=False)
        self._pools[peer.id] = pool
        return pool


async def _pieces(
    pool: ConnectionPool, connection: OutboundConnection, check: Callable[[], None]
) -> AsyncGenerator[bytes, None]:
    """Yield the body of a response as it arrives. Raises: BrokenOff if it cannot end; clients then
    ask again."""
    is_whole = False
    try:
        while piece := await _until(lambda: connection.read(LOOK_SECONDS), check):
            yield piece
        is_whole = True
    except HttpError as error:
        if not isinstance(error, ClientLeft):
            log.info("a response broke off", reason=str(error))
        raise BrokenOff from error
    finally:
        if is_whole:
            pool.release(connection, has_result=False)
        else:
            connection.abort()


async def _until(wait: Callable[[], Awaitable[Any]], check: Callable[[], None]) -> Any:
    """Return what `wait` returns, called again while nothing arrives and `check` allows it. Raises:
    HttpError."""
    while True:
        try:
            return await wait()
        except Silence:
            check()


def _encode(request: HttpRequest, token: str, request_id: str) -> bytes:
    """Return the bytes of the request as it is passed on."""
    own = b"%b: %b\r\n%b: %b" % (
        TOKEN_HEADER,
        token.encode(),
        REQUEST_HEADER,
        request_id.encode("latin-1"),
    )
    lines = [b"%b: %b\r\n" % header for header in request.raw_headers if header[0] not in _OWN]
    return b"%b %b HTTP/1.1\r\n%b%b\r\ncontent-length: %d\r\n\r\n%b" % (
        request.method.encode("latin-1"),
        request.target,
        b"".join(lines),
        own,
        len(request.content),
        request.content,
    )
