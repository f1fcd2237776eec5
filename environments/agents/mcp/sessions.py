"""The MCP sessions of this process and their requests.

An MCP session has the id of the session of its episode, and ends with it.

A request runs as a task of its own: the HTTP response only watches it, so a lost connection does
not stop it. The client gets the answer when it resumes the stream (`Last-Event-ID`), or, for a tool
call, when it repeats the call: the runtime then finds the call that lost its reader and does not
run the tool twice (`runtime/call_table.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp_types import JSONRPCNotification, JSONRPCRequest
from mcp_types.version import is_version_at_least

from environments.agents.mcp.refusals import error_json, mcp_refusal_of
from environments.errors import SessionNotFound
from environments.runtime.call_table import Call
from environments.runtime.service import SessionService
from environments.wire import value_json

REQUEST_CANCELLED = -32800
"""Code of the answer that ends the stream of a request that the client has cancelled; the package
`mcp` uses it too."""
RESUMABLE_VERSION = "2025-11-25"
"""First version whose clients read an event without data, which gives them the id to resume
with."""

HasLeft = Callable[[], bool]


@dataclass(frozen=True)
class Answer:
    """The JSON-RPC response to a request. `status` is that of the HTTP response if it was not sent
    before."""

    body: bytes
    status: int = 200


class PendingRequest:
    """One request of a session, until its answer was delivered or its time is over."""

    def __init__(self, session: McpSession, number: int, message: JSONRPCRequest) -> None:
        self.session, self.number, self.message = session, number, message
        self.answer: Answer | None = None
        self.is_cancelled = False
        self._done = asyncio.Event()
        self._call: Call | None = None
        self._readers: list[HasLeft] = []

    @property
    def progress_token(self) -> Any:
        """The token that notifications about the progress of this request carry; None: the client
        wants none."""
        meta = (self.message.params or {}).get("_meta")
        return meta.get("progressToken") if isinstance(meta, Mapping) else None

    def attach(self, call: Call) -> None:
        """Note that this request waits for `call`. Everyone who reads the answer is a reader of the
        call."""
        self._call = call
        self.session.service.mark_streaming(self.session.sid, call)
        for has_left in self._readers:
            call.join(has_left)
        if not self._readers:  # the client left before the call began, and may repeat it
            call.join(lambda: True)
            self.session.service.leave(self.session.sid, call)

    def join(self, has_left: HasLeft) -> None:
        """Add a reader of the answer, to be removed by `leave`."""
        self._readers.append(has_left)
        if self._call is not None:
            self._call.join(has_left)
            self.session.service.mark_streaming(self.session.sid, self._call)

    def leave(self, has_left: HasLeft, *, is_delivered: bool) -> None:
        """Remove a reader, which `is_delivered` says has received the answer."""
        self._readers.remove(has_left)
        is_delivered = is_delivered and not self.is_cancelled
        if self._call is not None:
            self._call.is_delivered = self._call.is_delivered or is_delivered
            self.session.service.leave(self.session.sid, self._call)
        if is_delivered:
            self.session.requests.pop(self.number, None)

    async def wait(self, seconds: float) -> bool:
        """Wait for the answer, at most `seconds`; return whether there is one."""
        try:
            async with asyncio.timeout(seconds):
                await self._done.wait()
        except TimeoutError:
            return False
        return True

    def finish(self, answer: Answer) -> None:
        """Set the answer, unless there is one, and wake everyone who waits for it."""
        if self.answer is None:
            self.answer = answer
            self._done.set()

    def cancel(self) -> None:
        """Answer the request as cancelled. A tool that runs goes on, and is recorded."""
        self.is_cancelled = True
        self.finish(Answer(error_json(self.message.id, REQUEST_CANCELLED, "Request cancelled")))


ResultOf = Callable[[PendingRequest], Awaitable[dict[str, Any]]]


class McpSession:
    """One MCP session.

    `address` are the arguments that every method of the service takes: session id, owner, and
    environment. `version` is that of the protocol, as negotiated.
    """

    def __init__(
        self,
        service: SessionService,
        sid: str,
        owner: str,
        environment: str,
        version: str,
        *,
        shows_rewards: bool,
    ) -> None:
        self.service, self.sid, self.owner, self.environment = service, sid, owner, environment
        self.address = (sid, owner, environment)
        self.version, self.shows_rewards = version, shows_rewards
        self.requests: dict[int, PendingRequest] = {}
        self.gone: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_number = 0

    @property
    def is_resumable(self) -> bool:
        """Return whether the client can resume the stream of a request."""
        return is_version_at_least(self.version, RESUMABLE_VERSION)

    def start(self, message: JSONRPCRequest, result: ResultOf) -> PendingRequest:
        """Start to answer a request with what `result` returns for it."""
        self._last_number += 1
        pending = PendingRequest(self, self._last_number, message)
        self.requests[pending.number] = pending
        task = asyncio.get_running_loop().create_task(self._run(pending, result))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return pending

    def notice(self, message: JSONRPCNotification) -> None:
        """Process a notification of the client. Only a cancellation means anything to an
        episode."""
        if message.method == "notifications/cancelled":
            for pending in list(self.requests.values()):
                if pending.message.id == (message.params or {}).get("requestId"):
                    pending.cancel()

    async def _run(self, pending: PendingRequest, result: ResultOf) -> None:
        message_id = pending.message.id
        try:
            answer = result_of(message_id, await result(pending))
        except Exception as error:
            refusal, code, data = mcp_refusal_of(error, [])
            # only for a session that is over does HTTP show it
            status = 404 if refusal.status == 404 else 200
            answer = Answer(error_json(message_id, code, refusal.detail, data), status)
        pending.finish(answer)
        seconds = self.service.limits.result_linger_seconds
        asyncio.get_running_loop().call_later(seconds, self.requests.pop, pending.number, None)


def result_of(message_id: str | int, result: dict[str, Any]) -> Answer:
    return Answer(
        value_json({"jsonrpc": "2.0", "id": message_id, "result": result}).encode("ascii")
    )


class McpSessions:
    """The sessions of one service by id."""

    def __init__(self, service: SessionService) -> None:
        self.service = service
        self._by_id: dict[str, McpSession] = {}

    def open(self, session: McpSession) -> None:
        """Add the MCP session of a session that the service has opened. It ends when that one
        does."""
        self._by_id[session.sid] = session
        session.gone = asyncio.get_running_loop().create_task(self._forget(session))

    def find(self, sid: str, owner: str) -> McpSession:
        """Return the session. Raises: SessionNotFound, also for a session of another key."""
        session = self._by_id.get(sid)
        if session is None or session.owner != owner:
            raise SessionNotFound
        return session

    async def _forget(self, session: McpSession) -> None:
        try:
            await self.service.until_gone(session.sid, session.owner)
        except SessionNotFound:  # it ended before this task began
            pass
        finally:
            if self._by_id.get(session.sid) is session:
                del self._by_id[session.sid]


_current: McpSessions | None = None


def sessions_of(service: SessionService) -> McpSessions:
    """Return the MCP sessions of the open service, of which a process has one at a time."""
    global _current
    if _current is None or _current.service is not service:
        _current = McpSessions(service)
    return _current
