"""Answers clients while no server runs: they wait in the backlog first, then the supervisor sends a
503.

Waiting is best for most clients: ors-sdk gives up most requests after three attempts in 3 s. But no
client waits for ever; both SDKs give up a stream after 30 s without a byte. So when a start takes
longer than ORSWEB_STARTING_SILENCE, every connection gets a 503, which openreward retries for ten
minutes, and a browser gets a page that reloads itself. While the server prepares an empty database,
no agent has a session to lose, so all are answered at once.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import time
from collections.abc import Sequence

from orsweb.server.heartbeat import Heartbeat

LINGER_SECONDS = 2.0
"""Time for which an answered client may go on sending, so that it can read the answer before the
connection closes."""
MAX_LINGERING = 500
"""Connections that are taken and open at once; further clients wait in the backlog."""
SILENT_SECONDS = 2.0
"""Time for which a client may have connected without a request. Then it is answered as one that is
no browser."""
_READ_BYTES = 65536
_HEAD = (
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: {type}\r\n"
    "Retry-After: 2\r\nX-Backend-State: starting\r\n"
    "Cache-Control: no-store\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
)
_PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="2">
<meta name="viewport" content="width=device-width">
<title>orsweb is starting</title>
<style>
  :root {{ color-scheme: light dark; font: 14px/1.5 system-ui, sans-serif }}
  body {{ margin: 20vh auto; max-width: 32rem; padding: 0 1rem }}
</style>
<h1>orsweb is starting</h1>
<p>{work} … This page loads again by itself.</p>
</html>
"""


class StartupAnswers:
    """Answers connections that have waited too long. The supervisor calls `give` every fraction of
    a second.

    The sockets are shared with the server. Once that is ready, only the server accepts connections.
    """

    def __init__(self, listeners: Sequence[socket.socket], silence_seconds: float) -> None:
        self._listeners, self._silence_seconds = listeners, silence_seconds
        self._since = time.monotonic()
        self._silent: dict[socket.socket, float] = {}
        """Clients that were accepted and have sent nothing yet, and until when they may."""
        self._lingering: dict[socket.socket, float] = {}

    def begin(self) -> None:
        """Note that until now there was a server."""
        self._since = time.monotonic()

    def restart(self) -> None:
        """Note that there is no server from now on, unless there was none before."""
        self._since = min(self._since, time.monotonic())

    def are_awaited(self) -> bool:
        """Return whether a client has connected that nobody has accepted yet."""
        poller = select.poll()
        for listener in self._listeners:
            poller.register(listener, select.POLLIN)
        return bool(poller.poll(0))

    def give(self, heartbeat: Heartbeat, *, is_ready: bool) -> None:
        """Answer who waits, if no server is ready and has been for long, and close what was
        answered before.

        `heartbeat`: of the server that starts.
        """
        now = time.monotonic()
        if is_ready:
            self._since = float("inf")
        elif heartbeat.is_first_start or now - self._since > self._silence_seconds:
            for listener in self._listeners:
                with contextlib.suppress(OSError):  # nobody waits any more, or it was closed
                    while len(self._silent) + len(self._lingering) < MAX_LINGERING:
                        client, _ = listener.accept()
                        client.setblocking(False)
                        self._silent[client] = now + SILENT_SECONDS
        for client, until in list(self._silent.items()):
            self._answer(client, now, until, heartbeat.work)
        for client, until in list(self._lingering.items()):
            if now > until or _has_left(client):
                del self._lingering[client]
                client.close()

    def _answer(self, client: socket.socket, now: float, until: float, work: str) -> None:
        """Answer a client that has sent something, or nothing for too long, without waiting for
        it."""
        request = b""
        try:
            request = client.recv(_READ_BYTES)
        except BlockingIOError:
            if now < until:
                return
        except OSError:  # it has left
            pass
        del self._silent[client]
        self._lingering[client] = now + LINGER_SECONDS
        with contextlib.suppress(OSError):  # it has left
            client.send(_answer_to(request, work))
            client.shutdown(socket.SHUT_WR)


def _answer_to(request: bytes, work: str) -> bytes:
    """Return the response: a page for a browser, else JSON. `request`: its beginning."""
    if b"text/html" in request:
        kind, body = "text/html", _PAGE.format(work=work).encode()
    else:
        kind, body = "application/json", json.dumps({"detail": f"{work}; try again."}).encode()
    head = _HEAD.format(type=kind, length=len(body)).encode()
    return head if request.startswith(b"HEAD ") else head + body


def _has_left(client: socket.socket) -> bool:
    """Read what a client goes on to send, and return whether it has closed its side."""
    try:
        while data := client.recv(_READ_BYTES):
            if len(data) < _READ_BYTES:
                return False
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True
