"""Reads tasks from JSON Lines: one JSON object per line. Blank lines are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from environments.files.cells import as_object, parsed
from environments.files.rows import MAX_ROW_BYTES, BadRow, FileRow, Refusal, Unit
from environments.tasks.stored_spec import TOO_LONG

BOM = b"\xef\xbb\xbf"
_PIECE_BYTES = 1024 * 1024


class Lines:
    """The lines of a binary file with their line ends, without the byte order mark; None for a line
    over the limit."""

    def __init__(self, file: BinaryIO, max_bytes: int = MAX_ROW_BYTES) -> None:
        self._file, self._max_bytes = file, max_bytes
        self.number = 0
        """Number of the last line, from 1."""
        self.done = 0
        """Number of bytes read so far."""

    def __iter__(self) -> Iterator[bytes | None]:
        while line := self._file.readline(self._max_bytes + 1):
            self.number += 1
            self.done += len(line)
            if len(line) > self._max_bytes and not line.endswith(b"\n"):
                self._skip_rest()
                yield None
            else:
                yield line.removeprefix(BOM) if self.number == 1 else line

    def _skip_rest(self) -> None:
        while piece := self._file.readline(_PIECE_BYTES):
            self.done += len(piece)
            if piece.endswith(b"\n"):
                return


class JsonLines:
    """The rows of a JSON Lines file; see `rows.Rows`."""

    unit: Unit = "line"

    def __init__(self, file: BinaryIO, size_bytes: int) -> None:
        self.total = size_bytes
        self._lines = Lines(file)

    @property
    def done(self) -> int:
        return self._lines.done

    def __iter__(self) -> Iterator[FileRow | Refusal]:
        for line in self._lines:
            number = self._lines.number
            if line is not None and not line.strip():
                continue
            try:
                if line is None:
                    raise BadRow(TOO_LONG)
                yield FileRow(number, as_object(parsed(text_of(line))))
            except BadRow as error:
                yield Refusal(number, str(error))


def text_of(line: bytes) -> str:
    """Return a line without blanks around it. Raises: BadRow."""
    try:
        return line.decode().strip()
    except UnicodeDecodeError as error:
        byte = line[error.start]
        raise BadRow(
            f"is not UTF-8: byte 0x{byte:02x} at {error.start + 1}; save the file as UTF-8"
        ) from error
