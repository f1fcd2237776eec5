"""The lines that a process prints, put together from what is read of its output.

A part of a line is kept back until the rest has come, because the mask does not find half a secret.
Used by the server for worker processes, and by the printer for the server's own process.
"""

from __future__ import annotations

import re

MAX_LINE_BYTES = 64 * 1024
"""Data is read in such pieces. A line that is kept back and grows longer is replaced by a note."""
_NOTE = f"(a line of more than {MAX_LINE_BYTES} bytes)".encode()
_LINE_END = re.compile(rb"[\r\n]")
"""A progress bar ends its lines with a carriage return."""


class PrintedLines:
    """The lines of one output, in bounded memory."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def add(self, data: bytes) -> bytes:
        """Return the lines that `data` completes, with their ends; empty if it completes none."""
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        lines, rest = data[:cut], data[cut:]
        if lines:
            if len(self._rest) > MAX_LINE_BYTES and (end := _LINE_END.search(lines)):
                lines = lines[end.start() :]
            lines = self.end() + lines
        self._rest += rest
        del self._rest[MAX_LINE_BYTES + 1 :]
        return lines

    def end(self) -> bytes:
        """Return what was kept back, because nothing will complete it."""
        line = _NOTE if len(self._rest) > MAX_LINE_BYTES else bytes(self._rest)
        self._rest.clear()
        return line
