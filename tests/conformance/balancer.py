"""A balancer that sends each request to the next server in turn, whatever session it is about."""

from __future__ import annotations

import contextlib
import itertools
import re
import socket
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from tests.server import LiveServer


class Balancer:
    """Listens on `url` within its `with` block. Each connection carries one request, so that each may go elsewhere."""

    def __init__(self, *servers: LiveServer) -> None:
        self.use(*servers)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def use(self, *servers: LiveServer) -> None:
        """Send requests to these from now on."""
        self._turns: Iterator[int] = itertools.cycle([server.port for server in servers])
        self._number = len(servers)

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._pass_on, args=[client], daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            head, rest = _head(client)
            for _ in range(self._number):
                with contextlib.suppress(ConnectionRefusedError):
                    server = socket.create_connection(("127.0.0.1", next(self._turns)))
                    break
            else:
                return
            with server:
                server.sendall(head + rest)
                threading.Thread(target=_pump, args=[client, server], daemon=True).start()
                _pump(server, client)


def _head(client: socket.socket) -> tuple[bytes, bytes]:
    """Return the head of a request, which asks that its connection is closed, and what has arrived
    of the body."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (piece := client.recv(65536)):
            raise OSError
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return re.sub(rb"(?i)\r\nconnection:[^\r]*", b"", head) + b"\r\nConnection: close\r\n\r\n", rest


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_RDWR)
