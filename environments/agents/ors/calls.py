"""POST …/call and …/score_group: the endpoints that start or rejoin a call and send its result.

Source: Open Reward Standard, HTTP API, "Call".

A call outlives the connection of its request.

Divergences from the references: the stream opens before setup has ended; a client that lost its
connection before the end gets the result of the same call when it repeats the request.
"""

from __future__ import annotations

from functools import partial

from environments import wire
from environments.agents.http.response import Response
from environments.agents.http.view import ProtocolView
from environments.agents.ors import sse
from environments.cluster.passed_requests import REQUEST_META
from environments.runtime.call_table import MAX_TASK_ID_CHARACTERS, Call

MAX_WHOLE_CHARACTERS = 65_536
"""Longer results are always streamed, because only a stream shows whether the result reached the
client."""


class WatchedCall(ProtocolView):
    """Base of the endpoints that answer with the result of a call, which waits for its turn in its
    open stream."""

    over_quota = "answer"
    is_of_session = True

    def check_session(self) -> None:
        self.service.check(self.session_id(), self.owner)

    async def watch(self, sid: str, call: Call) -> Response:
        """Return the response to a request that reads `call`: one body if it is fast and short, or
        a stream."""
        has_left = self.http_request.has_disconnected
        call.join(has_left)
        limits = self.service.limits
        keepalive = limits.keepalive_seconds
        is_done = await call.wait(min(limits.whole_answer_seconds, keepalive))
        if is_done and call.result is not None and len(call.result.data) <= MAX_WHOLE_CHARACTERS:
            call.is_delivered = call.is_delivered or not has_left()
            self.service.leave(sid, call)
            return sse.whole_response(call)
        self.service.mark_streaming(sid, call)
        on_leave = partial(self.service.leave, sid, call)
        return sse.response(sse.stream(call, keepalive, has_left, on_leave))


class CallTool(WatchedCall):
    async def post(self) -> Response:
        message, sid = self.read_body(wire.ToolCall), self.session_id()
        sent_id = self.http_request.META.get(REQUEST_META, "")
        call = await self.service.call(
            sid,
            self.owner,
            self.path_environment,
            message,
            self.key.hidden_ids,
            sent_id=sent_id if len(sent_id) <= MAX_TASK_ID_CHARACTERS else "",
        )
        return await self.watch(sid, call)


class ScoreGroupView(WatchedCall):
    async def post(self) -> Response:
        message, sid = self.read_body(wire.ScoreGroup), self.session_id()
        call = await self.service.score_group(sid, self.owner, self.path_environment, message)
        return await self.watch(sid, call)
