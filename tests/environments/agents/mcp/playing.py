"""Two clients of MCP: that of the package `mcp`, unmodified, and one that sends single HTTP
requests."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

VERSION = "2025-11-25"
ACCEPT = "application/json, text/event-stream"


class Player:
    """A client of the package in a session. `sid` is the session's id."""

    def __init__(self, client: Client, sid: str) -> None:
        self.client, self.sid = client, sid

    async def call(self, tool: str, **arguments: Any) -> Any:
        return await self.client.call_tool(tool, arguments)

    async def text(self, tool: str, **arguments: Any) -> str:
        """Return the text of the first block of the result."""
        return str((await self.call(tool, **arguments)).content[0].text)

    async def prompt(self) -> list[Any]:
        return [message.content for message in (await self.client.get_prompt("task")).messages]


@asynccontextmanager
async def playing(
    url: str, headers: dict[str, str] | None = None, *, ends: bool = True
) -> AsyncIterator[Player]:
    """Yield a session of the package's client. `ends=False`: the client leaves without ending
    it."""
    seen: list[str] = []

    async def note(response: httpx2.Response) -> None:
        seen.extend(filter(None, [response.headers.get("mcp-session-id")]))

    hooks = {"response": [note]}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60, event_hooks=hooks) as http,
        Client(streamable_http_client(url, http_client=http, terminate_on_close=ends)) as client,
    ):
        yield Player(client, seen[0])


async def refused(url: str, headers: dict[str, str] | None = None) -> str:
    """Return the text of the error with which the package's client cannot open a session."""
    try:
        async with playing(url, headers):
            raise AssertionError("the session was opened")
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            [error] = error.exceptions
        return str(error)


class Raw:
    """Sends single requests to one address, so that tests see statuses and bytes."""

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        self.url, self.headers = (
            url,
            {"Accept": ACCEPT, "Content-Type": "application/json", **(headers or {})},
        )
        self._numbers = itertools.count(1)

    @property
    def sid(self) -> str:
        return self.headers["Mcp-Session-Id"]

    def post(self, message: Any, **headers: str) -> httpx.Response:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return httpx.post(self.url, content=body, headers=self.headers | headers, timeout=60)

    def message(self, method: str, **params: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}

    def request(self, method: str, **params: Any) -> httpx.Response:
        return self.post(self.message(method, **params))

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the message that calls a tool."""
        return self.message("tools/call", name=tool, arguments=arguments)

    def initialize(self, version: str = VERSION) -> httpx.Response:
        """Open a session, which further requests use."""
        client = {"name": "raw", "version": "1"}
        answer = self.request(
            "initialize", protocolVersion=version, capabilities={}, clientInfo=client
        )
        if "mcp-session-id" in answer.headers:
            self.headers |= {
                "Mcp-Session-Id": answer.headers["mcp-session-id"],
                "MCP-Protocol-Version": version,
            }
        return answer

    def opened(self, version: str = VERSION) -> Raw:
        assert self.initialize(version).status_code == 200
        return self

    def get(self, **headers: str) -> Any:
        """Return a stream, as a context manager."""
        return httpx.stream("GET", self.url, headers=self.headers | headers, timeout=60)

    def stream(self, message: Any) -> Any:
        return httpx.stream("POST", self.url, json=message, headers=self.headers, timeout=60)

    def delete(self, **headers: str) -> httpx.Response:
        return httpx.delete(self.url, headers=self.headers | headers, timeout=60)


def refusal(answer: httpx.Response) -> tuple[int, str]:
    """Return the status and text of a refusal."""
    return answer.status_code, answer.json()["error"]["message"]


def events(lines: Any, count: int) -> list[str]:
    """Return the first lines of a stream that are not empty."""
    return list(itertools.islice((line for line in lines if line), count))
