"""The addresses that the client of openreward calls for a sandbox, as an ASGI application.

Each request names its sandbox in `X-Session-ID` and proves by the user's part of the address
(Basic) that it comes from code that this server hosts; the client's API key means nothing here.
`create_sandbox` and `run` answer with an event stream, which has comments while nothing happens,
because the client gives up after 30 s of silence.

Source: openreward 0.1.167, api/sandboxes/client.py and api/_session/.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from environments.errors import OrsError
from environments.local_sandboxes.images import SandboxRefused, plan_of
from environments.local_sandboxes.machine import CommandFailed, Machine, SandboxClosed
from environments.local_sandboxes.service import USER

COMMENT_SECONDS = 10.0
SILENCE_SECONDS = 120.0
"""Time without a request, such as the ping that the client sends every 10 s, after which a sandbox
is closed."""
MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_CHUNK_BYTES = 4 * 1024 * 1024
"""The most that the client reads or writes of a file at once."""

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class _Wrong(OrsError):
    """The request is not one of the client's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class _Request:
    query: dict[str, str]
    body: bytes
    sid: str

    @property
    def json(self) -> dict[str, Any]:
        try:
            value = json.loads(self.body or b"{}")
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise _Wrong(400, "The body has to be a JSON object.")
        return value

    def number(self, name: str) -> int:
        text = self.query.get(name, "")
        if not (text.isascii() and text.isdecimal()):
            raise _Wrong(400, f"{name} is {text[:40]!r}; it has to be a whole number.")
        return int(text)

    @property
    def path(self) -> str:
        path = self.query.get("path", "")
        if not path.startswith("/") or "\0" in path:
            raise _Wrong(400, f"path is {path[:100]!r}; it has to be absolute.")
        return path


class Door:
    """The application. Used on one event loop."""

    def __init__(self, directory: Path, max_gb: float, most: int, token: str) -> None:
        self._directory, self._max_gb, self._most = directory, max_gb, most
        self._authorization = b"Basic " + base64.b64encode(f"{USER}:{token}".encode())
        self._machines: dict[str, Machine] = {}
        self._runs: dict[str, asyncio.Task[dict[str, Any]]] = {}
        """Running requests by the `task_id` with which a client repeats one after a lost
        connection."""

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            request = await self._request(scope, receive)
            match scope["path"]:
                case "/create_sandbox":
                    await self._stream(request, self._create, send)
                case "/run":
                    await self._stream(request, self._run, send)
                case "/read_file":
                    size, data = await self._read(request)
                    kind = (b"content-type", b"application/octet-stream")
                    await _respond(send, 200, data, [kind, (b"x-file-size", b"%d" % size)])
                case path:
                    await _respond(
                        send, 200, json.dumps(await self._answer(path, request)).encode()
                    )
        except _Wrong as error:
            await _refuse(send, error.status, error)
        except SandboxClosed as error:
            await _refuse(send, 410, error)
        except (SandboxRefused, CommandFailed) as error:
            await _refuse(send, 400, error)

    async def _request(self, scope: dict[str, Any], receive: Receive) -> _Request:
        headers = dict(scope["headers"])
        if not hmac.compare_digest(headers.get(b"authorization", b""), self._authorization):
            raise _Wrong(403, "Only code that this server hosts has sandboxes here.")
        body, more = bytearray(), True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > MAX_BODY_BYTES:
                raise _Wrong(413, f"The body is larger than {MAX_BODY_BYTES >> 20} MB.")
        query = dict(parse_qsl(scope["query_string"].decode(errors="replace")))
        return _Request(query, bytes(body), headers.get(b"x-session-id", b"").decode("latin-1"))

    async def end_silent(self) -> None:
        """End the sandboxes of silent clients, until cancelled."""
        while True:
            await asyncio.sleep(1.0)
            for sid, machine in list(self._machines.items()):
                if time.monotonic() - machine.used > SILENCE_SECONDS:
                    machine.close("its client was silent")
                if machine.end and time.monotonic() - machine.used > 2 * SILENCE_SECONDS:
                    del self._machines[sid]

    def close(self) -> None:
        for machine in self._machines.values():
            machine.close("the server stops")

    # --- what the client asks for -----------------------------------------------------------------

    async def _stream(
        self,
        request: _Request,
        function: Callable[[_Request], Awaitable[dict[str, Any]]],
        send: Send,
    ) -> None:
        """Answer with the events of a task: its id, comments, and the result or the error."""
        task_id = str(request.json.get("task_id") or "")
        task = self._runs.get(task_id)
        if task is None:
            if task_id:
                raise _Wrong(404, "unknown task_id")
            task_id = secrets.token_hex(16)
            task = self._runs[task_id] = asyncio.ensure_future(function(request))
            # else asyncio logs it if nobody waits any more
            task.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.wait([task], timeout=0.05)
        if task.done() and (error := task.exception()) is not None:
            del self._runs[task_id]
            raise error
        header = (b"content-type", b"text/event-stream")
        await send({"type": "http.response.start", "status": 200, "headers": [header]})
        await _event(send, "task_id", task_id)
        while not task.done():
            await asyncio.wait([task], timeout=COMMENT_SECONDS)
            if not task.done():
                await send({"type": "http.response.body", "body": b": wait\n\n", "more_body": True})
        try:
            await _event(send, "end", json.dumps(task.result()))
        except OrsError as error:
            await _event(send, "error", str(error))
        del self._runs[task_id]
        await send({"type": "http.response.body", "body": b""})

    async def _create(self, request: _Request) -> dict[str, Any]:
        plan = plan_of(request.json, self._directory, self._max_gb)
        if sum(not machine.end for machine in self._machines.values()) >= self._most:
            raise SandboxRefused(
                f"{self._most} sandboxes are open, which is what ORSWEB_SANDBOXES_AT_ONCE allows."
            )
        sid, machine = secrets.token_hex(16), Machine(plan)
        self._machines[sid] = machine
        await machine.start()
        return {"sid": sid}

    async def _run(self, request: _Request) -> dict[str, Any]:
        values = request.json
        command = values.get("cmd")
        seconds = values.get("timeout_s")
        max_bytes = values.get("max_bytes")
        if not isinstance(command, str) or "\0" in command:
            raise _Wrong(400, "cmd has to be a text without NUL.")
        if not isinstance(seconds, int | float | None) or not isinstance(max_bytes, int | None):
            raise _Wrong(400, "timeout_s and max_bytes have to be numbers or null.")
        machine = self._machine(request)
        return (await machine.run(command, seconds, max_bytes)).as_json()

    async def _answer(self, path: str, request: _Request) -> dict[str, Any]:
        """Return the JSON of the other addresses."""
        match path:
            case "/ping":
                # also of sandboxes that have ended: the client logs failed pings with their
                # address, and so the token
                if machine := self._machines.get(request.sid):
                    machine.used = time.monotonic()
                return {}
            case "/delete_session":
                if machine := self._machines.get(request.sid):
                    machine.close("its session has ended")
                return {}
            case "/stat_file":
                has_sum = "sha256" in request.query
                return await self._machine(request).stat(request.path, has_sum=has_sum)
            case "/write_file" if "commit" in request.query:
                size = request.number("size")
                return {"sha256": await self._machine(request).commit(request.path, size)}
            case "/write_file":
                makes_directories = "mkdirs" in request.query
                await self._machine(request).write(
                    request.path,
                    request.number("offset"),
                    request.body,
                    makes_directories=makes_directories,
                )
                return {}
        raise _Wrong(404, f"Sandboxes have nothing at {path[:100]!r}.")

    async def _read(self, request: _Request) -> tuple[int, bytes]:
        offset, length = request.number("offset"), min(request.number("length"), MAX_CHUNK_BYTES)
        size, data = await self._machine(request).read(request.path, offset, length)
        if offset > size:
            raise _Wrong(416, f"{request.path} has {size} bytes.")
        return size, data

    def _machine(self, request: _Request) -> Machine:
        """Raises: SandboxClosed."""
        machine = self._machines.get(request.sid)
        if machine is None:
            raise SandboxClosed("There is no such sandbox.")
        machine.check()
        machine.used = time.monotonic()
        return machine


async def _event(send: Send, name: str, data: str) -> None:
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    body = f"event: {name}\n{lines}\n".encode()
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _refuse(send: Send, status: int, error: OrsError) -> None:
    await _respond(send, status, json.dumps({"detail": str(error)}).encode())


async def _respond(
    send: Send,
    status: int,
    body: bytes,
    headers: Sequence[tuple[bytes, bytes]] = ((b"content-type", b"application/json"),),
) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [*headers]})
    await send({"type": "http.response.body", "body": body})
