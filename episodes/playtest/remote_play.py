"""Plays whose session is on another server of the database: their sockets and pages are passed on to it.

A tab's socket reaches the server that has the play through the one that the balancer chose. That server checks who it
is, as if the browser had come to it.
"""

from __future__ import annotations

import http.client
import socket
from typing import Any

from django.http import HttpRequest, HttpResponse
from websockets.asyncio.client import ClientConnection, connect, unix_connect

from environments import conf
from environments.cluster.membership import Peer
from environments.cluster.passing import PASSED_ON, Scope, passed_headers
from environments.errors import OrsError
from environments.service import ask_service, ownership_or_none

FIND_SECONDS = 10.0
"""How long a page waits to learn which server has its session; that of a dead server is taken over meanwhile."""
ANSWER_SECONDS = 30.0
OPEN_SECONDS = 10.0
_RETURNED = ("Content-Type", "Location", "Cache-Control", "Vary", "HX-Redirect")
"""Headers of a page that are passed on; the middleware makes the others."""


async def peer_of(scope: Scope, sid: str) -> Peer | None:
    """Return the server that has the session; None: this one, or none, or the request was passed on already."""
    ownership = ownership_or_none()
    if ownership is None or PASSED_ON in scope:
        return None
    ownership.forget_place(sid)
    return await ownership.place_of(sid)


async def check_peers() -> None:
    """See whether a server that does not answer is dead, so that its sessions are taken over."""
    if (ownership := ownership_or_none()) is not None:
        await ownership.check_peers()


async def open_socket(peer: Peer, scope: Scope) -> ClientConnection:
    """Open the websocket of `scope` at `peer`. Raises: OSError, TimeoutError, websockets.InvalidHandshake."""
    headers = passed_headers(scope, peer)
    host = dict(scope["headers"])[b"host"].decode("latin-1")
    uri = f"ws://{host}{scope['path']}?{scope['query_string'].decode('latin-1')}"
    options: dict[str, Any] = {"additional_headers": headers, "user_agent_header": None, "compression": None}
    options |= {"max_size": None, "open_timeout": OPEN_SECONDS}
    if peer.address.startswith("/"):
        return await unix_connect(peer.address, uri, **options)
    name, _, port = peer.address.rpartition(":")
    return await connect(uri, host=name.strip("[]"), port=int(port), proxy=None, **options)


def remote_page(request: HttpRequest, sid: str) -> HttpResponse | None:
    """Return the response of the server that has the session; None: this one has it, or none, or it does not answer."""
    if not conf.is_one_of_several():
        return None
    scope: Scope = request.scope  # type: ignore[attr-defined]  # of ASGIRequest
    try:
        peer = ask_service(lambda service: peer_of(scope, sid), FIND_SECONDS)
        return None if peer is None else _exchange(peer, request, scope)
    except (OrsError, OSError, http.client.HTTPException):
        return None


def _exchange(peer: Peer, request: HttpRequest, scope: Scope) -> HttpResponse:
    """Raises: OSError, http.client.HTTPException."""
    connection = _PeerConnection(peer.address, timeout=ANSWER_SECONDS)
    try:
        headers = passed_headers(scope, peer) | {"Host": request.get_host()}
        connection.request(request.method or "GET", request.get_full_path(), request.body, headers)
        answer = connection.getresponse()
        response = HttpResponse(answer.read(), status=answer.status)
        for name in _RETURNED:
            if (value := answer.getheader(name)) is not None:
                response.headers[name] = value
        for cookie in answer.headers.get_all("Set-Cookie", ()):
            response.cookies.load(cookie)
        return response
    finally:
        connection.close()


class _PeerConnection(http.client.HTTPConnection):
    """A connection to the address at which other servers reach one: host:port, or the path of a Unix socket."""

    def connect(self) -> None:
        if not self._address.startswith("/"):
            super().connect()
            return
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._address)

    def __init__(self, address: str, timeout: float) -> None:
        super().__init__("localhost" if address.startswith("/") else address, timeout=timeout)
        self._address = address
