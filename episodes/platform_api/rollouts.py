"""POST /v1/rollouts: stores what a client reports about its rollouts.

The response is sent after the commit. 5xx means that sending the same again may help; everything is
stored once, however often it arrives. A body that is no upload gets 422. Events that cannot be
stored are listed in the response, and do not keep the others from being stored.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from environments import security_log
from environments.agents.http.response import JSON_HEADERS, Response, json_response
from environments.errors import Forbidden
from environments.keys.agent_key import RECORD, sent_key
from environments.security_log.event import UPLOADS_REFUSED
from environments.service import get_record
from environments.wire import value_json
from episodes.platform_api.platform_view import PlatformView, failure
from episodes.uploads.events import ReadEvents, UploadChunk, read_events
from episodes.uploads.upload_body import MAX_WHOLE_BYTES

MAX_PENDING_BYTES = 256 * 1024 * 1024
"""Bodies that wait for their commit; further ones get 503 while the database is away or slow."""
MAX_WAIT_SECONDS = 30.0
"""How long a request waits for its commit before it gets 503. Its events stay queued."""
RETRY = {"Retry-After": "2"}
MAX_REPORTED = 100

_pending_bytes = 0


class RolloutsView(PlatformView):
    http_method_names = ["post"]
    scopes = (RECORD,)

    async def post(self) -> Response:
        global _pending_bytes
        self.require_json()
        self.key.usage.check_bytes()
        content, size = self.http_request.content, len(self.http_request.content)
        if _pending_bytes + size > MAX_PENDING_BYTES:
            return failure(503, "Too many uploads wait to be stored; try again.", RETRY)
        _pending_bytes += size
        try:
            read = (
                self._read(content)
                if size <= MAX_WHOLE_BYTES
                else await asyncio.to_thread(self._read, content)
            )
        except BaseException:
            _pending_bytes -= size
            raise
        self._check_limits(read, size)
        self.key.usage.record(size, time.time())
        return await _store(read, size, self.owner)

    def _read(self, content: bytes) -> ReadEvents:
        return read_events(self._masked(content), self.owner, time.time(), self.key.hidden)

    def _check_limits(self, read: ReadEvents, size: int) -> None:
        """Raises: Forbidden if a rollout names a run or an environment outside the key's limits; nothing is stored."""
        global _pending_bytes
        if not self.key.run and self.key.environments is None:
            return
        try:
            for start in (start for chunk in read.chunks for start in chunk.starts):
                if self.key.run:
                    self.key.check_run(str(start.fields.get("runName", "")))
                if start.environment_name:
                    self.key.check_environment(start.environment_name)
        except Forbidden:
            _pending_bytes -= size
            raise

    def _masked(self, content: bytes) -> bytes:
        """Return the body with the API key of its request, and the secrets of the key's sessions, masked."""
        secrets = self.service.recent_secrets
        secrets.add(self.owner, [sent_key(self.http_request.META)])
        if secrets.is_empty(self.owner):
            return content
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            return content  # will be refused
        masked = secrets.json(self.owner, text)
        return content if masked is text else masked.encode()


async def _store(read: ReadEvents, size: int, owner: str) -> Response:
    """Queue the events and return the response once they are committed. Releases `size` pending
    bytes by then."""
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
    return _answer(read, owner)


def _answer(read: ReadEvents, owner: str) -> Response:
    stored = sum(len(chunk) for chunk in read.chunks if not chunk.is_rejected)
    refused = _refusals(read)
    if refused:
        reasons = "; ".join(sorted(set(read.refused.values()))[:5])
        security_log.note(
            UPLOADS_REFUSED, reasons, who=owner, address="", detail=f"{len(read.refused)} events"
        )
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
    return [
        {"position": position, "reason": reason}
        for position, reason in list(read.refused.items())[:MAX_REPORTED]
    ]
