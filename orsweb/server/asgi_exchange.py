"""One request of an agent and its response as ASGI messages: on other servers than `serve`, and
for what that leaves to uvicorn, such as HTTP/1.0 and HEAD. `exchange.py` has the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from environments.agents.http.handler import ProtocolHandler, too_large
from environments.agents.http.request import HttpRequest
from environments.agents.http.response import GONE, Response
from orsweb.server.exchange import MAX_UNCHECKED_BYTES

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


async def answer_agent(
    agents: ProtocolHandler, scope: dict[str, Any], receive: Receive, send: Send
) -> None:
    """Read a request, let `agents` answer it, and send the response."""
    request = HttpRequest(scope, receive)
    response = (
        agents.refuse_sender(request)
        or await _read_body(agents, request, receive)
        or await agents.answer(request)
    )
    if response is not GONE:
        await _send(request, response, send)


async def _read_body(
    agents: ProtocolHandler, request: HttpRequest, receive: Receive
) -> Response | None:
    """Read the body into `request.content`. Return a response if it is too long, or GONE if the
    client has left. A long body of a request without a valid key is not read."""
    length = request.META.get("CONTENT_LENGTH", "0")
    size = int(length) if length.isdecimal() else 0
    pieces: list[bytes] = []
    received_bytes, has_more, is_known = 0, True, False
    while True:
        if size > MAX_UNCHECKED_BYTES and not is_known:
            is_known = agents.may_send(request)
            if not is_known:
                return None  # the answer says what is wrong
        if size > agents.max_body_bytes:
            return too_large(size, agents.max_body_bytes)
        if not has_more:
            request.content = b"".join(pieces)
            return None
        message = await receive()
        if message["type"] == "http.disconnect":
            return GONE
        pieces.append(message.get("body", b""))
        received_bytes, has_more = received_bytes + len(pieces[-1]), message.get("more_body", False)
        size = max(size, received_bytes)


async def _send(request: HttpRequest, response: Response, send: Send) -> None:
    body = response.body
    if isinstance(body, bytes):
        headers = (*response.headers, (b"content-length", b"%d" % len(body)))
        await send(
            {"type": "http.response.start", "status": response.status_code, "headers": headers}
        )
        await send({"type": "http.response.body", "body": b"" if request.is_head else body})
        return
    await send(
        {"type": "http.response.start", "status": response.status_code, "headers": response.headers}
    )
    try:
        if request.is_head:
            await send({"type": "http.response.body", "body": b""})
        elif request.reports_disconnect:
            await _send_pieces(request, body, send)
        else:
            await _send_watching(request, body, send)
    finally:
        await body.aclose()  # so that the generator can clean up when its end was not reached


async def _send_pieces(
    request: HttpRequest, pieces: AsyncGenerator[bytes, None], send: Send
) -> None:
    async for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        if request.reports_disconnect and request.has_disconnected():
            return
    await send({"type": "http.response.body", "body": b""})


async def _send_watching(
    request: HttpRequest, pieces: AsyncGenerator[bytes, None], send: Send
) -> None:
    """Send the pieces until they end or the client disconnects, under a server that reports that by
    `receive` only."""
    sending = asyncio.ensure_future(_send_pieces(request, pieces, send))
    leaving = asyncio.ensure_future(request.until_disconnect())
    try:
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
    if not sending.cancelled() and (error := sending.exception()) is not None:
        raise error
