"""Plays whose session is on another server of the database: their sockets and pages are passed on
to it.

A tab's socket reaches the server that has the play through the one that the balancer chose. That
server checks who it is, as if the browser had come to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from django.http import HttpRequest, HttpResponse
from websockets.asyncio.client import ClientConnection, connect, unix_connect

from environments import conf
from environments.cluster.membership import Peer
from environments.cluster.passed_requests import PASSED_ON, Scope, passed_headers
from environments.cluster.remote_page import page_of, scope_of
from environments.errors import OrsError
from environments.runtime.service import SessionService
from environments.service import ask_service, ownership_or_none

FIND_SECONDS = 10.0
"""How long a page waits to learn which server has its session; that of a dead server is taken over
meanwhile."""
OPEN_SECONDS = 10.0


async def peer_of(scope: Scope, sid: str) -> Peer | None:
    """Return the server that has the session; None: this one, or none, or the request was passed on
    already."""
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
    """Open the websocket of `scope` at `peer`. Raises: OSError, TimeoutError,
    websockets.InvalidHandshake."""
    headers = passed_headers(scope, peer)
    host = dict(scope["headers"])[b"host"].decode("latin-1")
    uri = f"ws://{host}{scope['path']}?{scope['query_string'].decode('latin-1')}"
    options: dict[str, Any] = {
        "additional_headers": headers,
        "user_agent_header": None,
        "compression": None,
    }
    options |= {"max_size": None, "open_timeout": OPEN_SECONDS}
    if peer.address.startswith("/"):
        return await unix_connect(peer.address, uri, **options)
    name, _, port = peer.address.rpartition(":")
    return await connect(uri, host=name.strip("[]"), port=int(port), proxy=None, **options)


def share_request(request: HttpRequest, sids: Sequence[str]) -> None:
    """Let each other server that has one of the sessions handle the request, too, unless it comes
    from one of them."""
    if not conf.is_one_of_several() or not sids:
        return

    async def find(_: SessionService) -> set[Peer]:
        return {peer for sid in sids if (peer := await peer_of(scope_of(request), sid)) is not None}

    # the service is stopping; what it can't ask ends without it
    with suppress(OrsError, TimeoutError):
        for peer in ask_service(find, FIND_SECONDS):
            page_of(peer, request)


def remote_page(request: HttpRequest, sid: str) -> HttpResponse | None:
    """Return the response of the server that has the session; None: this one has it, or none, or it
    does not answer."""
    if not conf.is_one_of_several():
        return None
    try:
        peer = ask_service(lambda service: peer_of(scope_of(request), sid), FIND_SECONDS)
    except (OrsError, TimeoutError):
        return None
    return None if peer is None else page_of(peer, request)
