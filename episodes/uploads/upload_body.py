"""The events in the body of POST /v1/rollouts, as JSON values.

A small body is parsed at once. Parsing 30 MB at once would hold the interpreter for more than 100
ms, in which no other thread runs, so a large body is parsed event by event: `raw_decode` of the
standard library returns one value and where it ends. The thread that does this pauses after each
millisecond, because a loop that waits for the interpreter gets it from a thread that computes only
after 5 ms, at every one of its turns.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any

from environments.errors import OrsError
from environments.wire import MAX_DEPTH, check_depth, distinct_members, json_problem, repeated

MAX_WHOLE_BYTES = 64 * 1024
"""Larger bodies are parsed event by event, on a thread. This much takes the loop about 2 ms, and a
thread that competes with the loop for the interpreter costs everyone more than that."""
PAUSE_CHARACTERS = 64 * 1024
PAUSE_SECONDS = 0.0002
"""Shorter pauses are over before another thread has noticed them."""
_NO_EVENTS = 'The body must be an object {"events": [...]}.'
_SPACE = re.compile(r"[ \t\n\r]*")


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
    names: set[str] = set()
    try:
        body = _JsonText(content.decode())
        if body.next_mark == "[":
            raise BadUpload(_NO_EVENTS)
        for _ in body.items("{", "}"):
            if (name := body.name()) in names:
                raise repeated(name)
            names.add(name)
            if body.mark(":") and name == "events" and body.next_mark == "[":
                for _ in body.items("[", "]"):
                    yield body.value()
                    body.pause()
            elif name == "events":
                raise BadUpload(_NO_EVENTS)
            else:
                body.value()
        body.check_end()
    except (ValueError, RecursionError) as error:
        raise _not_json(error) from None
    if "events" not in names:
        raise BadUpload(_NO_EVENTS)


def _not_json(error: Exception) -> BadUpload:
    return BadUpload(f"The body cannot be read as JSON: {json_problem(error)}.")


class _JsonText:
    """A position in JSON text, which moves on with what is read. All methods raise ValueError."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._decode = json.JSONDecoder(object_pairs_hook=distinct_members).raw_decode
        self._pause_at = PAUSE_CHARACTERS

    @property
    def next_mark(self) -> str:
        """The next character that is no white space; empty at the end. Does not move on."""
        self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
        return self._text[self._at : self._at + 1]

    def mark(self, marks: str) -> str:
        """Return the next mark, which must be in `marks`."""
        mark = self.next_mark
        if not mark or mark not in marks:
            raise ValueError(f"expected {' or '.join(marks)} at character {self._at}, not {mark!r}")
        self._at += 1
        return mark

    def name(self) -> str:
        """Return the next value, which must be a text."""
        if self.next_mark != '"':
            raise ValueError(f"expected the name of a member at character {self._at}")
        return str(self.value())

    def value(self) -> Any:
        """Return the next value, and move behind it."""
        _ = self.next_mark
        value, self._at = self._decode(self._text, self._at)
        check_depth(value)
        return value

    def items(self, start: str, end: str) -> Iterator[None]:
        """Yield before each item of an object or array, which the caller reads."""
        self.mark(start)
        if self.next_mark == end:
            self.mark(end)
            return
        mark = ","
        while mark == ",":
            yield
            mark = self.mark("," + end)

    def pause(self) -> None:
        """Let other threads run if enough has been read since the last time."""
        if self._at > self._pause_at:
            self._pause_at = self._at + PAUSE_CHARACTERS
            time.sleep(PAUSE_SECONDS)

    def check_end(self) -> None:
        if mark := self.next_mark:
            raise ValueError(f"{mark!r} at character {self._at} follows the end")
