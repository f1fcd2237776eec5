"""The events in the body of POST /v1/rollouts, as JSON values.

A small body is parsed at once. Parsing 30 MB at once would hold the interpreter for more than 100
ms, in which no other thread runs, so a large body is parsed event by event: `raw_decode` of the
standard library returns one value and where it ends. The thread that does this pauses after each
millisecond, because a loop that waits for the interpreter gets it from a thread that computes only
after 5 ms, at every one of its turns.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

from environments.errors import OrsError
from environments.wire import MAX_DEPTH, check_depth, distinct_members, json_problem
from episodes.uploads.json_text import JsonText

MAX_WHOLE_BYTES = 64 * 1024
"""Larger bodies are parsed event by event, on a thread. This much takes the loop about 2 ms, and a
thread that competes with the loop for the interpreter costs everyone more than that."""
PAUSE_CHARACTERS = 64 * 1024
PAUSE_SECONDS = 0.0002
"""Shorter pauses are over before another thread has noticed them."""
_NO_EVENTS = 'The body must be an object {"events": [...]}.'


class BadUpload(OrsError):
    """A body that is not `{"events": [...]}`."""


def events_in(content: bytes) -> Iterable[Any]:
    """Return the events. Raises: BadUpload, for a large body while the events are iterated."""
    if len(content) > MAX_WHOLE_BYTES:
        return _events_one_by_one(content)
    try:  # numbers that are not finite are a matter of each event
        body = json.loads(content.decode(), object_pairs_hook=distinct_members)
        check_depth(body, MAX_DEPTH + 2)  # of the events, as below
    except (ValueError, RecursionError) as error:
        raise _not_json(error) from None
    events = body.get("events") if isinstance(body, dict) else None
    if not isinstance(events, list):
        raise BadUpload(_NO_EVENTS)
    return events


def _events_one_by_one(content: bytes) -> Iterator[Any]:
    has_events, pause_at = False, PAUSE_CHARACTERS
    try:
        body = JsonText(content.decode(), _decode)
        if body.next_mark() == "[":
            raise BadUpload(_NO_EVENTS)
        for name in body.members():
            if name != "events":
                body.value()
                continue
            if body.next_mark() != "[":
                raise BadUpload(_NO_EVENTS)
            has_events = True
            for _ in body.items():
                yield body.value()
                if body.position > pause_at:
                    pause_at = body.position + PAUSE_CHARACTERS
                    time.sleep(PAUSE_SECONDS)
        body.check_end()
    except (ValueError, RecursionError) as error:
        raise _not_json(error) from None
    if not has_events:
        raise BadUpload(_NO_EVENTS)


def _decode(text: str, position: int) -> tuple[Any, int]:
    value, end = _decoder.raw_decode(text, position)
    check_depth(value)
    return value, end


_decoder = json.JSONDecoder(object_pairs_hook=distinct_members)


def _not_json(error: Exception) -> BadUpload:
    return BadUpload(f"The body cannot be read as JSON: {json_problem(error)}.")
