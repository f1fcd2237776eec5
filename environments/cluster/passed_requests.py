"""The headers of a page's request that one server of a database passes on to another.

The receiver believes it if the request carries its own token, which only servers of the database
can read.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from environments.cluster.membership import Peer

Scope = dict[str, Any]

TOKEN_HEADER = b"x-orsweb-peer"
CLIENT_HEADER = b"x-orsweb-client"
REQUEST_HEADER = b"x-orsweb-request"
"""Names a request of a client, so that a repetition without an answer starts no second call."""
REQUEST_META = "HTTP_X_ORSWEB_REQUEST"
SCHEME_HEADER = b"x-orsweb-scheme"
PASSED_ON = "orsweb.passed_on"
"""Key of a scope that another server has passed on."""
_OF_CONNECTION = frozenset(
    (
        b"host",
        b"connection",
        b"upgrade",
        b"keep-alive",
        b"content-length",
        b"transfer-encoding",
        b"expect",
        b"accept-encoding",
        TOKEN_HEADER,
        CLIENT_HEADER,
        SCHEME_HEADER,
    )
)
"""Headers that are not passed on: each connection has its own."""


def passed_headers(scope: Scope, peer: Peer) -> dict[str, str]:
    """Return the headers of a request passed on to `peer`, without those of its connection."""
    address, _ = scope.get("client") or ("", 0)
    headers = {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in scope["headers"]
        if name not in _OF_CONNECTION and not name.startswith(b"sec-websocket-")
    }
    return headers | {
        TOKEN_HEADER.decode(): peer.token,
        CLIENT_HEADER.decode(): address,
        SCHEME_HEADER.decode(): scope.get("scheme", "http"),
    }


def sent_scope(scope: Scope, own_token: str) -> Scope:
    """Return the scope as the server that passed the request on received it, if one did."""
    headers: Mapping[bytes, bytes] = dict(scope["headers"])
    token = headers.get(TOKEN_HEADER)
    if token is None or not hmac.compare_digest(token, own_token.encode()):
        return scope
    client = (headers.get(CLIENT_HEADER, b"").decode("latin-1"), 0)
    scheme = headers.get(SCHEME_HEADER, b"http").decode("latin-1")
    return {**scope, "client": client, "scheme": scheme, PASSED_ON: True}


class FromPeers:
    """ASGI middleware: `app` sees requests passed on by another server as if sent to this one."""

    def __init__(
        self, app: Callable[[Scope, Any, Any], Awaitable[None]], own_token: Callable[[], str | None]
    ) -> None:
        """`own_token` returns the token of this server; None while it is not open."""
        self._app, self._own_token = app, own_token

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        token = self._own_token()
        await self._app(scope if token is None else sent_scope(scope, token), receive, send)
