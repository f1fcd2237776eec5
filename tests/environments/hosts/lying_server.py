"""A server whose responses tests choose, to see what a remote environment can do to this server.

async with LyingServer() as server, RemotePlay(server) as play:
    server.answers["POST /wild/call"] = events(("end", "{}"))
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from environments.authoring.registry import Registry
from environments.hosts.every_host import EveryHost
from environments.hosts.loading import load
from environments.runtime.service import SessionService
from environments.runtime.threads import ThreadPool
from environments.wire import Split
from tests.environments.runtime.play import Play
from tests.record import ListRecord

HEAD = "HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{more}\r\n"
HANG = b""
"""Answer of a server that takes the request and never responds."""


def answer(value: Any, status: int = 200, kind: str = "application/json", more: str = "") -> bytes:
    """Return a whole response with JSON, or with text as it is."""
    body = (value if isinstance(value, str) else json.dumps(value)).encode()
    return HEAD.format(status=status, kind=kind, length=len(body), more=more).encode() + body


def events(*pairs: tuple[str, str]) -> bytes:
    """Return a whole response with a stream of events."""
    return answer(
        "".join(f"event: {name}\ndata: {data}\n\n" for name, data in pairs),
        kind="text/event-stream",
    )


def result(value: Any) -> bytes:
    """Return the response to a call with a result, as JSON or as text."""
    text = value if isinstance(value, str) else json.dumps(value)
    return events(("task_id", "t"), ("end", text))


def output(**fields: Any) -> bytes:
    """Return the response to a call that ran, with these fields of its output."""
    block = {"text": "hi", "detail": None, "type": "text"}
    whole = {"blocks": [block], "metadata": None, "reward": None, "finished": False, **fields}
    return result({"ok": True, "output": whole})


TOOLS = {"tools": [{"name": "go", "description": "", "input_schema": None}]}
ANSWERS: dict[str, Any] = {
    "GET /list_environments": answer(["wild"]),
    "GET /wild/tools": answer(TOOLS),
    "GET /wild/splits": answer([{"name": "train", "type": "train"}]),
    "POST /wild/num_tasks": answer({"num_tasks": 2}),
    "POST /wild/task_range": answer({"tasks": [{"n": 0}, {"n": 1}]}),
    "POST /create_session": answer({"sid": "far"}),
    "POST /create": answer({"sid": "far"}),
    "POST /ping": answer({"status": "ok"}),
    "POST /delete": answer({"sid": "far"}),
    "POST /delete_session": answer({"sid": "far"}),
    "GET /wild/prompt": answer([{"text": "Go.", "detail": None, "type": "text"}]),
    "GET /wild/task_tools": answer(TOOLS),
    "POST /wild/call": output(reward=0.5),
}


class LyingServer:
    """Answers each path with the bytes in `answers`, or what a function there returns, and closes
    after `closes`."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes | Callable[[dict[str, Any]], bytes]] = dict(ANSWERS)
        self.closing: set[str] = set()
        """Requests after whose answer the connection is closed."""
        self.requests: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        """Method and path, body and headers of each request."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self._writers: set[asyncio.StreamWriter] = set()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    def asked(self, request: str) -> list[dict[str, Any]]:
        """Return the bodies of the requests to a path."""
        return [body for one, body, _ in self.requests if one == request]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while not writer.is_closing():
                request, body, headers = await _read(reader)
                self.requests.append((request, body, headers))
                found = self.answers.get(request, answer({"detail": "Not Found"}, 404))
                content = found(body) if callable(found) else found
                if content == HANG and request not in self.closing:
                    await asyncio.sleep(60)
                writer.write(content)
                await writer.drain()
                if request in self.closing:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> tuple[str, dict[str, Any], dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {
        name.lower(): value
        for name, _, value in (line.partition(": ") for line in head[1:] if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    method, path, _ = head[0].split(" ")
    return f"{method} {path}", json.loads(body) if body else {}, headers


class RemotePlay(Play):
    """Live play of the lying server's environment `wild`, without a database."""

    def __init__(self, server: LyingServer, **limits: Any) -> None:
        super().__init__(**limits)
        self._port = server.port

    async def __aenter__(self) -> Self:
        registry = load([f"http://127.0.0.1:{self._port}/wild"])
        self.pool, self.record = ThreadPool(), ListRecord()
        self.far = EveryHost(registry, self.pool, self.limits)
        self.remote = self.far.remote("wild")
        self.remote.hosted.take(await self.remote.describe())
        self.remote.hosted.unavailable = ""
        self.service = SessionService(
            registry, _Tasks(registry), self.record, self.far, self.limits
        )  # type: ignore[arg-type]
        self.service.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await super().__aexit__(kind, error, traceback)
        await self.far.close()


class _Tasks:
    """Enough of a TaskSource for sessions that send their task."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def check_enabled(self, environment: str) -> None:
        pass

    async def splits(self, environment: str) -> list[Split]:
        return self._registry.get(environment).splits
