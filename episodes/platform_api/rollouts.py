"""POST /v1/rollouts: stores what a client reports about its rollouts.

The response is sent after the commit. 5xx means that sending the same again may help; everything is stored once,
however often it arrives. A body that is no upload gets 422. Events that cannot be stored are listed in the response,
and do not keep the others from being stored.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import structlog

from environments.agent_http.response import JSON_HEADERS, Response, json_response
from environments.service import get_record
from environments.wire import value_json
from episodes.platform_api.view import PlatformView, failure
from episodes.uploads.events import ReadEvents, UploadChunk, read_events

MAX_LOOP_BYTES = 192 * 1024
"""Larger bodies are read on a thread. This much takes the loop about 2 ms, and a thread that competes with the loop
for the interpreter costs everyone more than that."""
MAX_PENDING_BYTES = 256 * 1024 * 1024
"""Bodies that wait for their commit; further ones get 503 while the database is away or slow."""
MAX_WAIT_SECONDS = 30.0
"""How long a request waits for its commit before it gets 503. Its events stay queued."""
RETRY = {"Retry-After": "2"}
MAX_REPORTED = 100

log = structlog.get_logger(__name__)

_pending_bytes = 0


class RolloutsView(PlatformView):
    http_method_names = ["post"]

    async def post(self) -> Response:
        global _pending_bytes
        self.require_json()
        content, size = self.http_request.content, len(self.http_request.content)
        if _pending_bytes + size > MAX_PENDING_BYTES:
            return failure(503, "Too many uploads wait to be stored; try again.", RETRY)
        _pending_bytes += size
        try:
            arguments = (self._masked(content), self.owner, time.time())
            if size <= MAX_LOOP_BYTES:
                read = read_events(*arguments)
            else:
                read = await asyncio.to_thread(read_events, *arguments)
        except BaseException:
            _pending_bytes -= size
            raise
        return await _store(read, size)

    def _masked(self, content: bytes) -> bytes:
        """Return the body with the API key of its request, and the secrets of the key's sessions, masked."""
        secrets = self.service.recent_secrets
        secrets.add(self.owner, [self.http_request.META.get("HTTP_X_API_KEY", "")])
        mask = secrets.mask(self.owner)
        if mask.is_empty:
            return content
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            return content  # will be refused
        masked = mask.json(text)
        return content if masked is text else masked.encode()


async def _store(read: ReadEvents, size: int) -> Response:
    """Queue the events and return the response once they are committed. Releases `size` pending bytes by then."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    left = len(read.chunks)

    def committed() -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            release()

    def release() -> None:
        global _pending_bytes
        _pending_bytes -= size
        if not done.done():
            done.set_result(None)

    record = get_record()
    for chunk in read.chunks:
        record.upload(chunk, committed)
    if not read.chunks:
        release()
    try:
        await asyncio.wait_for(asyncio.shield(done), MAX_WAIT_SECONDS)
    except TimeoutError:
        return failure(503, "The database did not store this in time; try again.", RETRY)
    return _answer(read)


def _answer(read: ReadEvents) -> Response:
    stored = sum(len(chunk) for chunk in read.chunks if not chunk.is_rejected)
    refused = _refusals(read)
    if refused:
        log.warning("events_refused", count=len(read.refused), reasons=sorted(set(read.refused.values()))[:5])
    answer: dict[str, Any] = {"stored": stored, "ignored": read.ignored, "refused": refused}
    rejected: list[UploadChunk] = [chunk for chunk in read.chunks if chunk.is_rejected]
    if rejected or (refused and not stored):
        count = len(read.refused) + sum(map(len, rejected))
        detail = f"{count} of the events cannot be stored."
        return Response(
            value_json({"detail": detail, "message": detail, **answer}).encode("ascii"),
            status=422,
            headers=JSON_HEADERS,
        )
    return json_response(answer)


def _refusals(read: ReadEvents) -> list[dict[str, Any]]:
    return [{"position": position, "reason": reason} for position, reason in list(read.refused.items())[:MAX_REPORTED]]
