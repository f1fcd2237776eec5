"""CuttingProxy: a network between client and server that loses the first answer to a call."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Literal

Cut = Literal["before the task_id", "after the task_id"]


class CuttingProxy:
    """Listens on `url`; `cuts` counts the connections it has cut (at most one)."""

    def __init__(self, port: int, cut: Cut) -> None:
        self._port, self._cut = port, cut
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cuts = 0

    def serve(self) -> None:
        """Until the listener is closed."""
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=[client], daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _connect(self, client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", self._port))
        is_call = threading.Event()
        threading.Thread(target=self._pass_requests, args=[client, server, is_call], daemon=True).start()
        with contextlib.suppress(OSError), client, server:
            while data := server.recv(65536):
                is_cut = is_call.is_set() and not self.cuts
                if not is_cut or self._cut == "after the task_id":
                    client.sendall(data)
                if is_cut and (self._cut == "before the task_id" or b"task_id" in data):
                    self.cuts += 1
                    break
            for one in (client, server):
                one.shutdown(socket.SHUT_RDWR)  # a close alone would not wake the other thread's recv

    @staticmethod
    def _pass_requests(client: socket.socket, server: socket.socket, is_call: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if b"/call " in data:
                    is_call.set()
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def cutting_proxy(port: int, cut: Cut) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(port, cut)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join(timeout=5)
