"""Lines of a binary file, none of which can fill the memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from environments.transfer.rows import MOST_ROW_BYTES

BOM = b"\xef\xbb\xbf"
_PIECE_BYTES = 1024 * 1024


class Lines:
    """Each line with its end, None for one that is longer than a row may be; without the byte order mark."""

    def __init__(self, file: BinaryIO, most_bytes: int = MOST_ROW_BYTES) -> None:
        self._file, self._most_bytes = file, most_bytes
        self.number = 0
        """Of the line that was given last, from 1."""
        self.done = 0
        """Bytes read."""

    def __iter__(self) -> Iterator[bytes | None]:
        while line := self._file.readline(self._most_bytes + 1):
            self.number += 1
            self.done += len(line)
            if len(line) > self._most_bytes and not line.endswith(b"\n"):
                self._skip_rest()
                yield None
            else:
                yield line.removeprefix(BOM) if self.number == 1 else line

    def _skip_rest(self) -> None:
        while piece := self._file.readline(_PIECE_BYTES):
            self.done += len(piece)
            if piece.endswith(b"\n"):
                return
