"""The server-sent events of a call: how its result is split into events, and how these are sent.

Source: Open Reward Standard, "SSE"; `_reconnect.py` of ors-sdk 0.1.0. Encoding and headers are
django-eventstream's.

Divergences from the references: no piece of a result starts or ends with a space, because both SDK
clients strip the leading white space of every data line; results are ASCII, so that no client takes
a character for a line separator; a call that ends within half a second is answered with one body
instead of a chunked stream.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable
from functools import cache

from django_eventstream.utils import add_default_headers, sse_encode_event

from environments.agents.http.response import Headers, Response, header_pairs
from environments.runtime.call_outcome import CallResult
from environments.runtime.call_table import Call

MAX_PIECE_CHARACTERS = 4096
"""Longest part of a result in one event."""
EVENTS_PER_WRITE = 16
"""Events of a long result that are sent together."""
_ESCAPED_SPACE = "\\u0020"
_LINE_ENDS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def event(kind: str, data: str) -> bytes:
    """Return one encoded event. Data of one line goes into a cached template; only errors have more
    lines."""
    if "\n" in data or "\r" in data:
        text: str = sse_encode_event(kind, data)
        return text.encode("utf-8", "replace")
    before, after = _template(kind)
    return b"%b%b%b" % (before, data.encode("utf-8", "replace"), after)


@cache
def _template(kind: str) -> tuple[bytes, bytes]:
    before, _, after = sse_encode_event(kind, "\0").partition("\0")
    return before.encode(), after.encode()


def comment() -> bytes:
    """Return a comment, which shows the client that the call is still running."""
    return f": ping - {time.strftime('%Y-%m-%d %H:%M:%S+00:00', time.gmtime())}\n\n".encode()


def first_event(call: Call) -> bytes:
    """Return the event with the task_id, which may have characters that some readers take for
    newlines."""
    return event("task_id", _LINE_ENDS.sub("\n", call.task_id))


def events(result: CallResult, most: int = 1) -> list[bytes]:
    """Return the events of a result, up to `most` in each: `chunk`s and `end`, or `error`; none if
    there is none, so that clients repeat the call.
    """
    if result.event == "cut":
        return []
    if result.event == "error":
        return [event("error", _LINE_ENDS.sub("\n", result.data))]
    *first, last = pieces(result.data)
    if not first:
        return [event("end", last)]
    before, after = _template("chunk")
    between = (after + before).decode()
    groups = [first[start : start + most] for start in range(0, len(first), most)]
    parts = [
        b"%b%b%b" % (before, between.join(group).encode("utf-8", "replace"), after)
        for group in groups
    ]
    if len(groups[-1]) < most:
        parts[-1] += event("end", last)
    else:
        parts.append(event("end", last))
    return parts


def pieces(text: str) -> list[str]:
    """Split `text` (compact ASCII JSON) into pieces of at most 4096 characters that neither start
    nor end with a space.

    The joined pieces are the same JSON. A space where the text was cut may have become its escape
    `\\u0020`, which is safe because compact JSON has spaces only inside strings, and never within
    an escape.
    """
    if len(text) <= MAX_PIECE_CHARACTERS:
        return [text]
    cut_pieces = []
    start, prefix = 0, ""
    while len(text) - start + len(prefix) > MAX_PIECE_CHARACTERS:
        most = start + MAX_PIECE_CHARACTERS - len(prefix) - len(_ESCAPED_SPACE)
        cut, least = most, max(start, most - 256)
        while cut > least and (text[cut - 1] == " " or text[cut] == " "):
            cut -= 1
        if cut > least:
            cut_pieces.append(prefix + text[start:cut])
            start, prefix = cut, ""
            continue
        ends_blank = text[most - 1] == " "
        cut_pieces.append(prefix + text[start : most - ends_blank] + _ESCAPED_SPACE * ends_blank)
        starts_blank = text[most] == " "
        start, prefix = most + starts_blank, _ESCAPED_SPACE * starts_blank
    return [*cut_pieces, prefix + text[start:]]


def whole_response(call: Call) -> Response:
    """Return a response with all events of a finished call in one body."""
    assert call.result is not None
    parts = events(call.result, EVENTS_PER_WRITE)
    return response(b"".join([first_event(call), *parts] if call.task_id else parts))


async def stream(
    call: Call, keepalive_seconds: float, has_left: Callable[[], bool], on_leave: Callable[[], None]
) -> AsyncGenerator[bytes, None]:
    """Yield the events of a call as they happen: its id at once, comments while it runs, and its
    result.

    `on_leave` is called once, when everything was sent or the client has left. `has_left` says
    whether the client has left, because sending to a lost connection raises no error.
    """
    try:
        if call.task_id:
            yield first_event(call)
        while not await call.wait(keepalive_seconds):
            if has_left():
                return
            yield comment()
        assert call.result is not None
        *groups, last = events(call.result, EVENTS_PER_WRITE) or [b""]
        for group in groups:
            yield group
            # if this write broke the connection, the next iteration of the loop notices
            await asyncio.sleep(0)
        # checked before the last event: a client may leave right after reading it
        was_there = not has_left()
        if call.task_id and was_there:
            # The client has the id, by which it asks again. With the note, a server that replaces this
            # one right after the write would take the client's next equal call for this one.
            call.forget_note()
        yield last
        call.is_delivered = call.is_delivered or was_there
    finally:
        on_leave()


def response(events: bytes | AsyncGenerator[bytes, None]) -> Response:
    """Return a response with these events, which may come one after the other."""
    return Response(events, headers=_headers())


@cache
def _headers() -> Headers:
    """Return django-eventstream's headers against caching and buffering, and the references'; no
    CORS headers."""
    defaults: dict[str, str] = {}
    add_default_headers(defaults, None)
    return header_pairs(
        {
            "Content-Type": "text/event-stream; charset=utf-8",
            "Cache-Control": defaults["Cache-Control"],
            "X-Accel-Buffering": defaults["X-Accel-Buffering"],
            "Connection": "keep-alive",
        }
    )
