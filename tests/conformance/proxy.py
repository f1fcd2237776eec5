"""Proxies that simulate bad networks: CuttingProxy loses the first response to a call, MutingProxy
stalls."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Literal, TypeVar

Proxy = TypeVar("Proxy", "CuttingProxy", "MutingProxy")
Cut = Literal["before the task_id", "after the task_id"]


class CuttingProxy:
    """Listens on `url`; `cuts` counts the connections it has cut (at most one).

    A request with the bytes `call` is a call; a response with the bytes `task_id` names the id of a call.
    """

    def __init__(
        self, port: int, cut: Cut, call: bytes = b"/call ", task_id: bytes = b"task_id"
    ) -> None:
        self._port, self._cut, self._call_sign, self._id_sign = port, cut, call, task_id
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cuts = 0

    def serve(self) -> None:
        """Accept connections until the listener is closed."""
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
        threading.Thread(
            target=self._pass_requests, args=[client, server, is_call], daemon=True
        ).start()
        with contextlib.suppress(OSError), client, server:
            while data := server.recv(65536):
                is_cut = is_call.is_set() and not self.cuts
                if not is_cut or self._cut == "after the task_id":
                    client.sendall(data)
                if is_cut and (self._cut == "before the task_id" or self._id_sign in data):
                    self.cuts += 1
                    break
            for one in (client, server):
                # a close alone would not wake the other thread's recv
                one.shutdown(socket.SHUT_RDWR)

    def _pass_requests(
        self, client: socket.socket, server: socket.socket, is_call: threading.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self._call_sign in data:
                    is_call.set()
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)


class MutingProxy:
    """Listens on `url`. Muted connections stay open, but nothing is forwarded in either direction."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._mute: set[socket.socket] = set()

    def go_mute(self) -> None:
        """Mute all open connections; later ones forward everything."""
        self._mute.update(one for pair in self._pairs for one in pair)

    def serve(self) -> None:
        """Accept connections until the listener is closed."""
        with contextlib.suppress(OSError):
            while True:
                pair = (
                    self._listener.accept()[0],
                    socket.create_connection(("127.0.0.1", self._port)),
                )
                self._pairs.append(pair)
                for source, sink in (pair, pair[::-1]):
                    threading.Thread(target=self._pass, args=[source, sink], daemon=True).start()

    def close(self) -> None:
        for one in (self._listener, *(one for pair in self._pairs for one in pair)):
            with contextlib.suppress(OSError):  # the other side has disconnected
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if source not in self._mute:
                    sink.sendall(data)
            if source not in self._mute:
                sink.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def cutting_proxy(port: int, cut: Cut, **signs: bytes) -> Iterator[CuttingProxy]:
    with _serving(CuttingProxy(port, cut, **signs)) as proxy:
        yield proxy


@contextlib.contextmanager
def muting_proxy(port: int) -> Iterator[MutingProxy]:
    with _serving(MutingProxy(port)) as proxy:
        yield proxy


@contextlib.contextmanager
def _serving(proxy: Proxy) -> Iterator[Proxy]:
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join(timeout=5)
