"""The events of POST /v1/rollouts as values of rows.

Source: what the recorder of openreward 0.1.167 sends; no reference server is published.

Every event that names its type and its rollout is stored. Fields that are missing or have the wrong
type get a default, and a sentence in the row's `problem`; characters that no database can store
become U+FFFD. Of the other events the response says why they are not stored, except that unknown
types are ignored. Unknown fields of a message are stored in `extra`, those of a rollout in its
`event`.

Parsing takes 0.4 of the 0.9 ms that 128 messages of 500 bytes take here, so nothing is validated by
models.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from environments.database.bulk_writer import Values
from environments.database.storable import (
    MAX_BIGINT,
    digest_of,
    storable,
    storable_id,
    storable_json,
)
from environments.errors import shorten
from environments.wire import infinite_place, may_be_infinite, value_json
from episodes.models.rollouts import RESPONSE_KINDS, environment_name_of
from episodes.uploads.upload_body import MAX_WHOLE_BYTES, events_in

MAX_CHUNK_EVENTS = 512
MAX_CHUNK_CHARACTERS = 256 * 1024
"""An upload is written in chunks of at most this size, exceeded by one event at most, so that the
steps of playing agents wait for one chunk of it only."""
MAX_CLOCK_SECONDS = 300.0
"""A client's clock that differs by more is reported on the rollout."""
MAX_PROBLEM_CHARACTERS = 300
ID_LENGTH, EVENT_ID_LENGTH, CALL_ID_LENGTH = 200, 64, 200
NO_INDEX = -1

_COLUMNED = frozenset(
    (
        "eventId",
        "eventType",
        "timestamp",
        "index",
        "rolloutEventId",
        "type",
        "content",
        "summary",
        "name",
        "callId",
        "reward",
        "isFinished",
        "environment_id",
        "metadata",
    )
)
"""Fields of a message that are stored in columns, or with its rollout."""


@dataclass(slots=True)
class RolloutStart:
    """The event that announces a rollout."""

    event_id: str
    fields: Mapping[str, Any]
    sent_ms: int | None

    @property
    def info(self) -> Mapping[str, Any] | None:
        """Its `rollout_info`."""
        info = self.fields.get("rollout_info")
        return info if isinstance(info, dict) else None

    @property
    def environment_name(self) -> str:
        """Last part of the environment's name in lower case, as episodes have it; empty if the
        client names none."""
        name = self.fields.get("environment")
        return environment_name_of(storable(name)) if isinstance(name, str) else ""


@dataclass(slots=True)
class RolloutUpdate:
    """Values for keys of a rollout's `rollout_info`."""

    event_id: str
    info: Mapping[str, Any]
    sent_ms: int | None


@dataclass(slots=True)
class UploadChunk:
    """A chunk of one request: events that are committed together."""

    key_label: str
    received: float
    hidden_environments: Collection[str] = ()
    """Names of the private environments that do not exist for the key, in lower case."""
    starts: list[RolloutStart] = field(default_factory=list)
    updates: list[RolloutUpdate] = field(default_factory=list)
    messages: list[tuple[str, Values]] = field(default_factory=list)
    """The id of the rollout, and the message as `_message` returns it."""
    characters: int = 0
    is_rejected: bool = False
    """Whether the database refused it."""

    def events(self) -> list[RolloutStart | RolloutUpdate]:
        """Return the events about rollouts as a whole."""
        return [*self.starts, *self.updates]

    def __len__(self) -> int:
        return len(self.starts) + len(self.updates) + len(self.messages)


@dataclass(slots=True)
class ReadEvents:
    """All events of one request."""

    chunks: list[UploadChunk]
    ignored: int = 0
    """Number of events of a type that this server does not know."""
    refused: dict[int, str] = field(default_factory=dict)
    """Position of each event that cannot be stored, and why."""


def read_events(
    content: bytes, key_label: str, now: float, hidden_environments: Collection[str] = ()
) -> ReadEvents:
    """Return the events in the body of a request. `hidden_environments` is that of UploadChunk.
    Raises: BadUpload."""
    chunk = UploadChunk(key_label, now, hidden_environments)
    read = ReadEvents([chunk])
    # a search holds the interpreter
    has_infinite = len(content) > MAX_WHOLE_BYTES or may_be_infinite(content)
    for position, event in enumerate(events_in(content)):
        if len(chunk) >= MAX_CHUNK_EVENTS or chunk.characters >= MAX_CHUNK_CHARACTERS:
            chunk = UploadChunk(key_label, now, hidden_environments)
            read.chunks.append(chunk)
        if problem := _add(chunk, event, has_infinite=has_infinite):
            if problem == IGNORED:
                read.ignored += 1
            else:
                read.refused[position] = problem
    read.chunks = [chunk for chunk in read.chunks if len(chunk)]
    return read


IGNORED = "ignored"


def _add(chunk: UploadChunk, event: Any, *, has_infinite: bool) -> str:
    """Add the event to the chunk. Return why that is impossible; IGNORED if its type is unknown.

    `has_infinite`: whether it may hold NaN or an infinity.
    """
    if not isinstance(event, dict):
        return "An event must be an object."
    kind = event.get("eventType")
    if kind == "message":
        rollout = event.get("rolloutEventId")
        if not (isinstance(rollout, str) and rollout):
            return "A message needs rolloutEventId, the id of its rollout."
        values = _message(event, has_infinite=has_infinite)
        chunk.messages.append((_id(rollout), values))
        chunk.characters += len(values[CONTENT]) + len(values[SUMMARY]) + len(values[EXTRA]) + 200
        return ""
    if not (isinstance(kind, str) and kind):
        return (
            f"eventType is {shorten(value_json(kind), 40)}; it must be a text: message, rollout or "
            "rollout_update."
        )
    if kind not in ("rollout", "rollout_update"):
        return IGNORED
    rollout = event.get("eventId")
    if not (isinstance(rollout, str) and rollout):
        return f"A {kind} needs eventId, the id of the rollout."
    sent_ms = _whole(event.get("timestamp"))
    if kind == "rollout":
        chunk.starts.append(RolloutStart(_id(rollout), event, sent_ms))
        chunk.characters += _size(event) + 200
    elif isinstance(info := event.get("rollout_info"), dict):
        if has_infinite and (place := infinite_place(info)) is not None:
            return f"rollout_info.{shorten(place, 80)} isn't a finite number, and would be null."
        chunk.updates.append(RolloutUpdate(_id(rollout), info, sent_ms))
        chunk.characters += _size(info) + 200
    else:
        return (
            IGNORED if info is None else "The rollout_info of a rollout_update must be an object."
        )
    return ""


CONTENT, SUMMARY, EXTRA = 5, 6, 7
"""Positions in what `_message` returns."""


def _message(event: dict[str, Any], *, has_infinite: bool) -> Values:
    """Return index, event id, type, name, call id, content, summary, extra, reward, whether
    finished, characters that the model generated, time in ms, problem.
    """
    problems: list[str] = []
    get = event.get
    index = get("index")
    if type(index) is not int or not 0 <= index <= MAX_BIGINT:
        index = _whole(index) if index == _whole(index) else None
        if index is None or index < 0:
            index = NO_INDEX
            problems.append("no valid index")
    event_id = get("eventId")
    if type(event_id) is not str or not event_id:
        event_id = f"~{digest_of(value_json(event).encode())}"
        problems.append("no eventId")
    kind = _text(get("type"), "type", problems)
    content = _text(get("content"), "content", problems)
    summary = _text(get("summary"), "summary", problems)
    reward = get("reward")
    if reward is not None and (type(reward) is not float or not math.isfinite(reward)):
        reward = _reward(reward, problems)
    sent_ms = get("timestamp")
    if type(sent_ms) is not int or not 0 <= sent_ms <= MAX_BIGINT:
        sent_ms = _whole(sent_ms)
        if sent_ms is None:
            problems.append("no valid timestamp")
    is_finished = get("isFinished")
    if type(is_finished) is not bool and is_finished is not None:
        problems.append("isFinished wasn't true or false")
    call_id = get("callId")
    is_extra = event.keys() - _COLUMNED
    extra = ""
    if is_extra or get("metadata"):
        more = {
            key: value
            for key in ("metadata", *sorted(is_extra))
            if (value := get(key)) not in (None, {})
        }
        text = value_json(more) if more else ""
        extra = storable_json(text)
        if extra != text:
            problems.append("metadata or an unknown field had characters that cannot be stored")
        if has_infinite and (place := infinite_place(more)) is not None:
            problems.append(f"{shorten(place, 80)} wasn't a finite number")
    return (
        index,
        _id(event_id, EVENT_ID_LENGTH),
        kind[:40],
        _text(get("name"), "name", problems)[:200],
        storable_id(_text(call_id, "callId", problems), CALL_ID_LENGTH) if call_id else "",
        content,
        summary,
        extra,
        reward,
        is_finished is True,
        len(content) if kind in RESPONSE_KINDS else 0,
        sent_ms,
        "; ".join(problems)[:MAX_PROBLEM_CHARACTERS] if problems else "",
    )


def _text(value: Any, name: str, problems: list[str]) -> str:
    """Return a text that can be stored; a value of another type becomes its JSON."""
    if type(value) is str:
        if value.isascii() and "\0" not in value:
            return value
        text = storable(value)
        if text != value:
            problems.append(f"{name} had characters that cannot be stored")
        return text
    if value is None:
        return ""
    problems.append(f"{name} wasn't a text")
    return storable(value_json(value))


def _reward(value: Any, problems: list[str]) -> float | None:
    """Return the reward as a finite number; None if it is none."""
    if type(value) in (int, float):
        try:
            if math.isfinite(number := float(value)):
                return number
        except OverflowError:
            pass
    problems.append("reward wasn't a finite number")
    return None


def _whole(value: Any) -> int | None:
    """Return a whole number that 64 bits hold; None if the value is none."""
    if isinstance(value, float) and math.isfinite(value):
        value = int(value)
    return value if type(value) is int and abs(value) <= MAX_BIGINT else None


def _id(value: str, limit: int = ID_LENGTH) -> str:
    is_plain = len(value) <= limit and value.isascii() and "\0" not in value
    return value if is_plain else storable_id(value, limit)


def _size(value: Any) -> int:
    """Return about the number of characters that the texts in `value` have."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return sum(map(_size, value))
    return len(value) if isinstance(value, str) else 0
