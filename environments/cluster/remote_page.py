"""A page as another server of the database makes it, for views on the threads of pages. Everything
here blocks."""

from __future__ import annotations

import http.client
import socket

from django.http import HttpRequest, HttpResponse

from environments.cluster.membership import Peer
from environments.cluster.passed_requests import Scope, passed_headers

ANSWER_SECONDS = 30.0
_RETURNED = ("Content-Type", "Location", "Cache-Control", "Vary", "HX-Redirect")
"""Headers of a page that are passed on; the middleware makes the others."""


def page_of(peer: Peer, request: HttpRequest) -> HttpResponse | None:
    """Return the response of `peer` to the request; None if it does not answer."""
    try:
        return _exchange(peer, request, scope_of(request))
    except (OSError, http.client.HTTPException):
        return None


def scope_of(request: HttpRequest) -> Scope:
    """Return the ASGI scope of a request; empty if it has none, as in tests of views."""
    scope: Scope = getattr(request, "scope", {})
    return scope


def _exchange(peer: Peer, request: HttpRequest, scope: Scope) -> HttpResponse:
    """Raises: OSError, http.client.HTTPException."""
    connection = _PeerConnection(peer.address)
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
    """A connection to the address at which other servers reach one: host:port, or the path of a
    Unix socket."""

    def __init__(self, address: str) -> None:
        super().__init__(
            "localhost" if address.startswith("/") else address, timeout=ANSWER_SECONDS
        )
        self._address = address

    def connect(self) -> None:
        if not self._address.startswith("/"):
            super().connect()
            return
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(ANSWER_SECONDS)
        self.sock.connect(self._address)
