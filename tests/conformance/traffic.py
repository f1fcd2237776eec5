"""A proxy that records the HTTP exchanges of a client with a server.

    with recording_proxy(server.port) as proxy:
        OrsClient(server, url=proxy.url)
    proxy.exchanges

A response is passed on when it has arrived completely.
"""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.described import Exchange

HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}


class RecordingProxy:
    """Listens on `url`; `exchanges` are those that are complete, in the order of their ends."""

    def __init__(self, port: int) -> None:
        self.exchanges: list[Exchange] = []
        self.listener = ThreadingHTTPServer(("127.0.0.1", 0), self._handler(port))
        self.listener.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.listener.server_port}"

    def _handler(self, port: int) -> type[BaseHTTPRequestHandler]:
        exchanges = self.exchanges

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                with contextlib.closing(server):
                    server.request(self.command, self.path, body or None, dict(self.headers))
                    response = server.getresponse()
                    answer = response.read()
                sent = {name.lower(): value for name, value in self.headers.items()}
                found = {name.lower(): value for name, value in response.getheaders()}
                exchanges.append(
                    Exchange(self.command, self.path, sent, body, response.status, found, answer)
                )
                self._pass_on(response.status, found, answer)

            do_POST = do_GET

            def _pass_on(self, status: int, headers: dict[str, str], answer: bytes) -> None:
                self.send_response_only(status)
                for name, value in headers.items():
                    if name not in HOP_BY_HOP:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


@contextlib.contextmanager
def recording_proxy(port: int) -> Iterator[RecordingProxy]:
    proxy = RecordingProxy(port)
    thread = threading.Thread(
        target=proxy.listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    )
    thread.start()
    try:
        yield proxy
    finally:
        proxy.listener.shutdown()
        proxy.listener.server_close()
        thread.join(timeout=5)
