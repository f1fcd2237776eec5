"""The event stream of a call: how its result is cut into events, and the two ways to send it.

Source: Open Reward Standard, "SSE"; `_reconnect.py` of ors-sdk 0.1.0. Encoding and headers are django-eventstream's.

Divergences from the references: both SDK clients strip the leading white space of every data line, so no piece begins
(and none ends) with a blank; results are ASCII, so that no reader takes a character for a line's end; a call that is
done within half a second is answered with one body instead of a chunked stream.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable
from functools import cache

from django_eventstream.utils import add_default_headers, sse_encode_event

from environments.protocol.response import Headers, Response
from environments.runtime.calls import Call
from environments.runtime.outcome import CallResult

PIECE = 4096
"""Most characters of result text in one event."""
TOGETHER = 16
"""Events of a long result that are sent at once."""
_BLANK = "\\u0020"
_LINE_ENDS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def event(kind: str, data: str) -> bytes:
    """One event. Data of one line, which all but errors is, goes into a form that is encoded once."""
    if "\n" in data or "\r" in data:
        encoded: str = sse_encode_event(kind, data)
        return encoded.encode("utf-8", "replace")
    before, after = _form(kind)
    return b"%b%b%b" % (before, data.encode("utf-8", "replace"), after)


@cache
def _form(kind: str) -> tuple[bytes, bytes]:
    before, _, after = sse_encode_event(kind, "\0").partition("\0")
    return before.encode(), after.encode()


def comment() -> bytes:
    """What keeps the client waiting."""
    return f": ping - {time.strftime('%Y-%m-%d %H:%M:%S+00:00', time.gmtime())}\n\n".encode()


def opening(call: Call) -> bytes:
    """The first event; a client may have chosen an id that some readers would take for several lines."""
    return event("task_id", _LINE_ENDS.sub("\n", call.task_id))


def events(result: CallResult) -> list[bytes]:
    """The closing events: `chunk`s and `end`, or `error`."""
    if result.event == "error":
        return [event("error", _LINE_ENDS.sub("\n", result.data))]
    *first, last = pieces(result.data)
    return [*(event("chunk", piece) for piece in first), event("end", last)]


def pieces(text: str) -> list[str]:
    """`text` (compact ASCII JSON) in pieces of at most 4096 characters that neither begin nor end with a blank.

    Joined they are equal JSON, and equal text except that a blank at a cut may have become its escape `\\u0020`: raw
    blanks stand only inside strings, and never within an escape.
    """
    if len(text) <= PIECE:
        return [text]
    cut_pieces = []
    start, prefix = 0, ""
    while len(text) - start + len(prefix) > PIECE:
        most = start + PIECE - len(prefix) - len(_BLANK)
        cut = next((at for at in range(most, max(start, most - 256), -1) if text[at - 1] != " " != text[at]), 0)
        if cut:
            cut_pieces.append(prefix + text[start:cut])
            start, prefix = cut, ""
            continue
        ends_blank = text[most - 1] == " "
        cut_pieces.append(prefix + text[start : most - ends_blank] + _BLANK * ends_blank)
        starts_blank = text[most] == " "
        start, prefix = most + starts_blank, _BLANK * starts_blank
    return [*cut_pieces, prefix + text[start:]]


def whole(call: Call) -> bytes:
    """Every event of a finished call."""
    assert call.result is not None
    told = events(call.result)
    return b"".join([opening(call), *told] if call.task_id else told)


async def stream(
    call: Call, keepalive_seconds: float, has_left: Callable[[], bool], on_leave: Callable[[], None]
) -> AsyncGenerator[bytes, None]:
    """Events as they come: the id at once, comments while the call runs, the result.

    `on_leave` is called once, when everything was sent or the client has gone. `has_left` says whether it has gone:
    what is sent to a lost connection vanishes without an error.
    """
    try:
        if call.task_id:
            yield opening(call)
        while not await call.wait(keepalive_seconds):
            if has_left():
                return
            yield comment()
        assert call.result is not None
        told = events(call.result)
        *groups, last = [b"".join(told[start : start + TOGETHER]) for start in range(0, len(told), TOGETHER)]
        for group in groups:
            yield group
            await asyncio.sleep(0)  # a connection that broke under this write is known to be lost one round later
        was_there = not has_left()  # asked before: a client that has read the end may be gone right after it
        yield last
        call.is_delivered = call.is_delivered or was_there
    finally:
        on_leave()


def whole_response(body: bytes) -> Response:
    return Response(body, headers=_headers())


def stream_response(source: AsyncGenerator[bytes, None]) -> Response:
    return Response(source, headers=_headers())


@cache
def _headers() -> Headers:
    """django-eventstream's headers (no caching, no buffering) and the references'. CORS is never allowed here."""
    given: dict[str, str] = {}
    add_default_headers(given, None)
    wanted = {"Cache-Control": given["Cache-Control"], "X-Accel-Buffering": given["X-Accel-Buffering"]}
    pairs = {"Content-Type": "text/event-stream; charset=utf-8", **wanted, "Connection": "keep-alive"}
    return tuple((name.lower().encode("ascii"), value.encode("ascii")) for name, value in pairs.items())
