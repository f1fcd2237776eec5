"""JSONL: one JSON object a line. Blank lines are nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from environments.spec import TOO_LONG
from environments.transfer.lines import Lines
from environments.transfer.rows import BadRow, Refusal, Row, Unit
from environments.transfer.values import as_object, parsed


class JsonLines:
    unit: Unit = "line"

    def __init__(self, file: BinaryIO, size_bytes: int) -> None:
        self.total = size_bytes
        self._lines = Lines(file)

    @property
    def done(self) -> int:
        return self._lines.done

    def __iter__(self) -> Iterator[Row | Refusal]:
        for line in self._lines:
            number = self._lines.number
            if line is not None and not line.strip():
                continue
            try:
                yield Row(number, as_object(parsed(_text(line))))
            except BadRow as error:
                yield Refusal(number, str(error))


def _text(line: bytes | None) -> str:
    if line is None:
        raise BadRow(TOO_LONG)
    try:
        return line.decode().strip()
    except UnicodeDecodeError as error:
        byte = line[error.start]
        raise BadRow(f"is not UTF-8: byte 0x{byte:02x} at {error.start + 1}; save the file as UTF-8") from error
