"""POST /v1/rollouts: stores what a client reports about its rollouts.

The response is sent after the commit. 5xx means that sending the same again may help; everything is
stored once, however often it arrives. A body that is no upload gets 422. Events that cannot be
stored are listed in the response, and do not keep the others from being stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from environments import security_log
from environments.agents.http.response import JSON_HEADERS, Response, json_response
from environments.keys.agent_key import RECORD, sent_key
from environments.security_log.event import UPLOADS_REFUSED
from environments.wire import value_json
from episodes.platform_api.platform_view import PlatformView, failure
from episodes.uploads.events import ReadEvents, read_events
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
            if size <= MAX_WHOLE_BYTES:
                events = self._events(content)
            else:
                events = await asyncio.to_thread(self._events, content)
            self._check_limits(events)
        except BaseException:
            _pending_bytes -= size
            raise
        self.key.usage.record(size, time.time())
        if not await _is_stored(self.record, events, size):
            return failure(503, "The database did not store this in time; try again.", RETRY)
        return _answer(events, self.owner)

    def _events(self, content: bytes) -> ReadEvents:
        """Return the events, without the API key of the request and the secrets of the key's
        sessions. Raises: BadUpload."""
        secrets = self.service.recent_secrets
        secrets.add(self.owner, [sent_key(self.http_request.META)])
        if not secrets.is_empty(self.owner):
            with contextlib.suppress(UnicodeDecodeError):  # will be refused
                content = secrets.json(self.owner, content.decode()).encode()
        return read_events(content, self.owner, time.time(), self.key.hidden_environments)

    def _check_limits(self, events: ReadEvents) -> None:
        """Raises: Forbidden if a rollout names a run or an environment outside the key's limits;
        nothing is stored."""
        if not self.key.run and self.key.environments is None:
            return
        for start in (start for chunk in events.chunks for start in chunk.starts):
            if self.key.run:
                self.key.check_run(str(start.fields.get("runName", "")))
            if start.environment_name:
                self.key.check_environment(start.environment_name)


async def _is_stored(record: Any, events: ReadEvents, size: int) -> bool:
    """Queue the events and return whether they were committed in time. Releases `size` pending
    bytes once they are."""
    commit: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = len(events.chunks)

    def release() -> None:
        global _pending_bytes
        nonlocal waiting
        waiting -= 1
        if waiting <= 0:
            _pending_bytes -= size
            if not commit.done():
                commit.set_result(None)

    for chunk in events.chunks:
        record.upload(chunk, release)
    if not events.chunks:
        release()
    try:
        await asyncio.wait_for(asyncio.shield(commit), MAX_WAIT_SECONDS)
    except TimeoutError:
        return False
    return True


def _answer(events: ReadEvents, owner: str) -> Response:
    refusals = [
        {"position": position, "reason": reason}
        for position, reason in list(events.refused.items())[:MAX_REPORTED]
    ]
    if refusals:
        reasons = "; ".join(sorted(set(events.refused.values()))[:5])
        count = f"{len(events.refused)} events"
        security_log.note(UPLOADS_REFUSED, reasons, who=owner, address="", detail=count)
    stored_count = sum(len(chunk) for chunk in events.chunks if not chunk.is_rejected)
    rejected_count = sum(len(chunk) for chunk in events.chunks if chunk.is_rejected)
    answer: dict[str, Any] = {
        "stored": stored_count,
        "ignored": events.ignored,
        "refused": refusals,
    }
    if not rejected_count and (stored_count or not refusals):
        return json_response(answer)
    detail = f"{len(events.refused) + rejected_count} of the events cannot be stored."
    body = value_json({"detail": detail, "message": detail, **answer}).encode("ascii")
    return Response(body, status=422, headers=JSON_HEADERS)
