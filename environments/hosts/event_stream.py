"""Parses server-sent events as the protocol uses them: `event` and `data` fields, comments, either
kind of line end."""

from __future__ import annotations

from dataclasses import dataclass


class EventParser:
    """Collects the bytes of one stream. Comments and other fields are ignored."""

    __slots__ = ("_data", "_event", "_rest")

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # pieces of a line that has not ended
        self._event = ""
        self._data: list[str] = []

    def feed(self, data: bytes) -> list[tuple[str, str]]:
        """Return the name and the data of each event that is complete now. Raises:
        UnicodeDecodeError."""
        self._rest.append(data)
        if b"\n" not in data:
            return []
        *lines, rest = b"".join(self._rest).split(b"\n")
        self._rest = [rest]
        events = []
        for line in lines:
            line = line.removesuffix(b"\r")
            if line:
                field, _, value = line.partition(b":")
                text = value.removeprefix(b" ").decode("utf-8")
                if field == b"event":
                    self._event = text
                elif field == b"data":
                    self._data.append(text)
            elif self._event or self._data:
                events.append((self._event, "\n".join(self._data)))
                self._event, self._data = "", []
        return events


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The last event of a stream: `end` with the joined text of the result, or `error` with its
    message."""

    event: str
    data: str


class StreamReader:
    """Reads the events of one stream."""

    __slots__ = ("_max_bytes", "_parser", "_pieces", "_size", "task_id")

    def __init__(self, max_bytes: int) -> None:
        self._parser = EventParser()
        self._pieces: list[str] = []
        self._size, self._max_bytes = 0, max_bytes
        self.task_id = ""

    def feed(self, data: bytes) -> StreamEnd | None:
        """Return the end of the stream once it has arrived. Raises: ValueError, OverflowError if it
        is too long."""
        self._size += len(data)
        if self._size > self._max_bytes:
            raise OverflowError(
                f"it has more than {self._max_bytes} bytes, which ORSWEB_MAX_RESULT_BYTES allows"
            )
        for event, text in self._parser.feed(data):
            if event == "task_id":
                self.task_id = text
            elif event == "chunk":
                self._pieces.append(text)
            elif event == "end":
                return StreamEnd("end", "".join([*self._pieces, text]))
            elif event == "error":
                return StreamEnd("error", text)
        return None
