"""An agent that plays over plain HTTP, for requests that no SDK client sends, and a reader of event
streams.

with Agent(server).open(spec={"id": 1}) as agent:
    agent.call("echo", {"text": "hi"}).text
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from tests.server import LiveServer


@dataclass
class Answer:
    """The events of a stream that was read to its end, or until the reader left."""

    raw: bytes
    events: list[tuple[str, str]] = field(default_factory=list)
    """Name and data of each event, in order; several data lines are joined by line feeds."""
    comments: int = 0

    @property
    def message(self) -> bytes:
        """The stream without its comments: on a busy machine any call may take long enough for one."""
        return re.sub(rb"^:.*\n\n", b"", self.raw, flags=re.MULTILINE)

    @cached_property
    def task_id(self) -> str:
        return next((data for name, data in self.events if name == "task_id"), "")

    @cached_property
    def error(self) -> str:
        return next((data for name, data in self.events if name == "error"), "")

    @cached_property
    def result(self) -> dict[str, Any]:
        """Return the RunToolOutput of a call."""
        outcome: dict[str, Any] = json.loads(
            "".join(data for name, data in self.events if name in ("chunk", "end"))
        )
        return outcome

    @property
    def output(self) -> dict[str, Any]:
        assert self.result["ok"], self.result
        return dict(self.result["output"])

    @property
    def text(self) -> str:
        return "".join(block["text"] for block in self.output["blocks"])


def answer_of(raw: bytes) -> Answer:
    """Parse an event stream as the WHATWG specifies: one leading space of a value is dropped."""
    answer = Answer(raw)
    name, data = "", list[str]()
    for line in raw.decode().split("\n"):
        if line.startswith(":"):
            answer.comments += 1
        elif line.startswith("event:"):
            name = line[6:].removeprefix(" ")
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and name:
            answer.events.append((name, "\n".join(data)))
            name, data = "", []
    return answer


class Agent:
    """An agent with one session, or none before `open`. Closing it sends /delete, as clients do."""

    def __init__(self, server: LiveServer, **headers: str) -> None:
        # verify=False avoids loading certificates, which takes longer than an episode
        self.http = httpx.Client(base_url=server.url, headers=headers, timeout=60, verify=False)
        self.sid = ""
        self._address = ("127.0.0.1", server.port)

    def open(
        self, spec: dict[str, Any] | None = None, env_name: str | None = None, **more: Any
    ) -> Self:
        """Open a new session; `more` are further fields of /create. Raises: AssertionError with the refusal."""
        self.sid = self.http.post("/create_session").json()["sid"]
        refusal = self.create(spec, env_name, **more)
        assert refusal.status_code == 200, refusal.text
        return self

    def create(
        self, spec: dict[str, Any] | None = None, env_name: str | None = None, **more: Any
    ) -> httpx.Response:
        body = (
            {"env_name": env_name, "task_spec": spec}
            if "index" not in more
            else {"env_name": env_name}
        )
        return self.post("/create", {**body, **more})

    def post(self, path: str, body: Any = None, **headers: str) -> httpx.Response:
        return self.http.post(path, json=body, headers={"X-Session-ID": self.sid, **headers})

    def get(self, path: str) -> httpx.Response:
        return self.http.get(path, headers={"X-Session-ID": self.sid})

    def call(
        self, tool: str, arguments: dict[str, Any] | None = None, task_id: str | None = None
    ) -> Answer:
        response = self.post("/call", {"name": tool, "input": arguments or {}, "task_id": task_id})
        assert response.status_code == 200, response.text
        return answer_of(response.content)

    def begin(
        self, tool: str, arguments: dict[str, Any] | None = None, task_id: str | None = None
    ) -> Pending:
        """Send a call without waiting for its result."""
        body = json.dumps({"name": tool, "input": arguments or {}, "task_id": task_id}).encode()
        head = (
            f"POST /call HTTP/1.1\r\nHost: localhost\r\nX-Session-ID: {self.sid}\r\nContent-Type: "
            "application/json\r\n"
            f"X-API-Key: {self.http.headers.get('X-API-Key', '')}\r\n"
        )
        pending = Pending(socket.socket())
        pending.socket.settimeout(30)
        pending.socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, 65536
        )  # bytes that are not read stay with the server
        pending.socket.connect(self._address)
        pending.socket.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return pending

    def close(self) -> None:
        self.post("/delete")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.close()
        finally:
            self.http.close()


class Pending:
    """A call whose stream is read piece by piece."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.heard = b""

    def hear(self, what: bytes, times: int = 1) -> bytes:
        """Read until `what` has arrived; return everything read so far. Raises: AssertionError, TimeoutError."""
        while self.heard.count(what) < times:
            more = self.socket.recv(65536)
            assert more, f"the stream ended without {what!r}: {self.heard!r}"
            self.heard += more
        return self.heard

    def drop(self) -> None:
        """Reset the connection, which looks to the server like a lost one."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()


def eventually(claim: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until `claim()` is true. Raises: AssertionError when that takes too long.

    The longer it takes, the less often it is asked, because many claims cost a server more than
    what they wait for.
    """
    began = time.monotonic()
    while not claim():
        waited = time.monotonic() - began
        assert waited < seconds, "it did not happen in time"
        time.sleep(min(max(waited / 10, 0.01), 0.1))


def lines(log: Path) -> list[str]:
    """Return the lines that an environment wrote to its task's log."""
    return log.read_text().splitlines() if log.exists() else []
