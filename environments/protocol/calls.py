"""Acting: POST …/call and …/score_group. A call is started or rejoined, then watched; it outlives the connection.

Source: Open Reward Standard, HTTP API, "Call".

Divergences from the references: the stream opens before setup has ended; a client that lost its connection before the
end gets the same run when it repeats the request.
"""

from __future__ import annotations

from functools import partial

from environments import wire
from environments.protocol import sse
from environments.protocol.errors import Unprocessable
from environments.protocol.response import Response
from environments.protocol.view import ProtocolView
from environments.runtime.calls import Call

FAST_SECONDS = 0.5
"""A call that is done by then is answered with one body, which saves the stream's bookkeeping; never later than the
first comment is due. Long enough that a server under load, where every call takes some rounds of the loop, does not pay
for streams on top."""
LARGE_CHARACTERS = 65_536
"""Larger results are streamed even so: whether one reached the client is then known."""


class WatchedCall(ProtocolView):
    """What both kinds of call share."""

    async def watch(self, sid: str, call: Call) -> Response:
        has_left = self.http_request.has_disconnected
        call.join(has_left)
        keepalive = self.service.limits.keepalive_seconds
        is_done = await call.wait(min(FAST_SECONDS, keepalive))
        if is_done and call.result is not None and len(call.result.data) <= LARGE_CHARACTERS:
            call.is_delivered = call.is_delivered or not has_left()
            self.service.leave(sid, call)
            return sse.whole_response(sse.whole(call))
        self.service.tell(sid, call)
        on_leave = partial(self.service.leave, sid, call)
        return sse.stream_response(sse.stream(call, keepalive, has_left, on_leave))


class CallTool(WatchedCall):
    async def post(self) -> Response:
        message = self.read(wire.ToolCall)
        sid = self.session_id()
        if isinstance(message, Unprocessable):
            self.service.check(sid, self.owner)
            raise message
        return await self.watch(sid, await self.service.call(sid, self.owner, self.named, message))


class ScoreGroupView(WatchedCall):
    async def post(self) -> Response:
        message = self.read(wire.ScoreGroup)
        sid = self.session_id()
        if isinstance(message, Unprocessable):
            self.service.check(sid, self.owner)
            raise message
        return await self.watch(sid, await self.service.score_group(sid, self.owner, self.named, message))
