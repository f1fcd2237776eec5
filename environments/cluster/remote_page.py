"""Fetches a page from another server of the database, for views on the threads of pages. Blocks."""

from __future__ import annotations

import http.client
import socket
from contextlib import closing

from django.http import HttpRequest, HttpResponse

from environments.cluster.membership import Peer
from environments.cluster.passed_requests import Scope, passed_headers

ANSWER_SECONDS = 30.0
_PASSED_HEADERS = ("Content-Type", "Location", "Cache-Control", "Vary", "HX-Redirect")
"""Headers of a page that are passed on; the middleware makes the others."""


def page_of(peer: Peer, request: HttpRequest) -> HttpResponse | None:
    """Return the response of `peer` to the request; None if it does not answer."""
    headers = passed_headers(scope_of(request), peer) | {"Host": request.get_host()}
    method, path = request.method or "GET", request.get_full_path()
    try:
        with closing(_PeerConnection(peer.address)) as connection:
            connection.request(method, path, request.body, headers)
            answer = connection.getresponse()
            response = HttpResponse(answer.read(), status=answer.status)
    except (OSError, http.client.HTTPException):
        return None
    for name in _PASSED_HEADERS:
        if (value := answer.getheader(name)) is not None:
            response.headers[name] = value
    for cookie in answer.headers.get_all("Set-Cookie", ()):
        response.cookies.load(cookie)
    return response


def scope_of(request: HttpRequest) -> Scope:
    """Return the ASGI scope of a request; empty if it has none, as in tests of views."""
    scope: Scope = getattr(request, "scope", {})
    return scope


class _PeerConnection(http.client.HTTPConnection):
    """A connection to the address of a peer: host:port, or the path of a Unix socket."""

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
