"""The ASGI application in this process, with the test database, driven by httpx.

    async with serving("tests.envs:Echo") as client:
        answer = await client.post("/create", ...)

Every answer is compared with the OpenAPI document of the protocol. Tests use sessions with
different ids, so all tests of a file may share one `serving`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx
from asgiref.sync import sync_to_async
from django.db import connection
from django.test import override_settings

from environments.agents.http.handler import ProtocolHandler
from environments.service import close_service, open_service
from orsweb import asgi
from tests.described import Exchange, check_answer, is_described

T = TypeVar("T")
_numbers = itertools.count(1)


@asynccontextmanager
async def serving(*specifications: str, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of a server that hosts `specifications`; `settings` override Django's."""
    with override_settings(ORSWEB_ENVIRONMENTS=list(specifications), **settings):
        asgi.protocol, before = ProtocolHandler("orsweb.agent_urls", asgi.is_agents), asgi.protocol
        # an outer one has other settings; its next request opens the service again
        await close_service(5.0)
        await open_service()
        try:
            transport = httpx.ASGITransport(app=asgi.application)  # type: ignore[arg-type]
            hooks: Any = {"response": [_compare]}
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost", timeout=20, event_hooks=hooks
            ) as client:
                yield client
        finally:
            await close_service(5.0)
            asgi.protocol = before


async def _compare(response: httpx.Response) -> None:
    """Check that the OpenAPI document of the protocol describes the answer."""
    request = response.request
    if is_described(request.method, request.url.path):
        await response.aread()
        path, answer_headers = request.url.path, dict(response.headers)
        check_answer(
            Exchange(
                request.method,
                path,
                {},
                b"",
                response.status_code,
                answer_headers,
                response.content,
            )
        )


async def in_database(read: Callable[[], T]) -> T:
    """Run `read` in a thread, close its database connection, and return its result."""

    def run() -> T:
        try:
            return read()
        finally:
            connection.close()

    return await sync_to_async(run, thread_sensitive=False)()


def as_json(value: Any) -> dict[str, Any]:
    """Return httpx arguments with `value` as ASCII JSON, which, unlike httpx's own, may contain
    lone surrogates."""
    return raw(json.dumps(value))


def raw(body: str | bytes, kind: str = "application/json") -> dict[str, Any]:
    return {"content": body, "headers": {"Content-Type": kind}}


def fresh_id() -> str:
    return f"session-{next(_numbers)}"


async def opened(
    client: httpx.AsyncClient, environment: str | None = None, **body: Any
) -> dict[str, str]:
    """Open a session; return its header."""
    header = {"X-Session-ID": fresh_id()}
    body = {
        "env_name": environment,
        **({"task_spec": {"id": "x"}} if "split" not in body else {}),
        **body,
    }
    answer = await client.post("/create", json=body, headers=header)
    assert answer.status_code == 200, answer.text
    return header


def events(text: str) -> list[tuple[str, str]]:
    """Return the (event, data) pairs of a whole stream, without comments."""
    found = []
    for block in text.split("\n\n"):
        lines = [
            line.partition(": ") for line in block.split("\n") if line and not line.startswith(":")
        ]
        if lines:
            data = "\n".join(value for name, _, value in lines if name == "data")
            found.append((lines[0][2], data))
    return found


def result(answer: httpx.Response) -> dict[str, Any]:
    """Return the RunToolOutput of a call's stream."""
    assert answer.status_code == 200, answer.text
    message = events(answer.text)
    assert [kind for kind, _ in message[:1] + message[-1:]] == ["task_id", "end"], message
    return json.loads("".join(data for kind, data in message if kind in ("chunk", "end")))  # type: ignore[no-any-return]


def error(answer: httpx.Response) -> str:
    """Return the text of a stream that ends with an error event."""
    assert answer.status_code == 200, answer.text
    kind, data = events(answer.text)[-1]
    assert kind == "error"
    return data
