"""Reads tasks from a JSON array of objects, in chunks, so that memory holds one element and one
chunk."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from environments.files.cells import as_object, decoded_at
from environments.files.json_lines import BOM
from environments.files.rows import MAX_ROW_BYTES, BadRow, FileRow, Refusal, Unit, Unreadable
from environments.tasks.stored_spec import TOO_LONG
from environments.wire import json_problem

PIECE_BYTES = 256 * 1024
_LOOKAHEAD = 16
"""An error this close to the end of the buffer may only mean that the element continues after
it."""
_BLANK = re.compile(r"[ \t\r\n]*")


class JsonArray:
    """The rows of a JSON file; see `rows.Rows`."""

    unit: Unit = "row"

    def __init__(self, file: BinaryIO, size_bytes: int, name: str) -> None:
        self.total, self.done = size_bytes, 0
        self._file, self._name = file, name
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._buffer, self._at, self._is_end = "", 0, False
        self._number = 0

    def __iter__(self) -> Iterator[FileRow | Refusal]:
        self._expect("[")
        if self._peek() == "]":
            self._at += 1
        else:
            yield from self._elements()
        if self._peek():
            raise Unreadable(
                f"{self._name} continues after the end of its array; a JSON file must hold one "
                "array of tasks."
            )

    def _elements(self) -> Iterator[FileRow | Refusal]:
        while True:
            self._number += 1
            try:
                yield FileRow(self._number, as_object(self._element()))
            except BadRow as error:
                yield Refusal(self._number, str(error))
            mark = self._expect(",]")
            if mark == "]":
                return

    def _element(self) -> Any:
        self._peek()
        while True:
            try:
                value, end, fault = decoded_at(self._buffer, self._at)
            except json.JSONDecodeError as error:
                self._more_or_raise(error)
                continue
            except (RecursionError, ValueError) as error:
                raise self._broken(f"cannot be read: {json_problem(error)}") from error
            if end == len(self._buffer) and self._read():  # a number may continue
                continue
            if end - self._at > MAX_ROW_BYTES:
                self._at = end
                raise BadRow(TOO_LONG)
            self._at = end
            if fault:
                raise fault
            return value

    def _more_or_raise(self, error: json.JSONDecodeError) -> None:
        """Read on if the element may be incomplete. Raises: Unreadable, because its end cannot be
        found."""
        is_cut = (
            error.msg.startswith("Unterminated string")
            or error.pos > len(self._buffer) - _LOOKAHEAD
        )
        if is_cut and len(self._buffer) - self._at > MAX_ROW_BYTES + PIECE_BYTES:
            raise self._broken(TOO_LONG) from error
        if not is_cut or not self._read():
            where = (
                "the file ends in the middle of it"
                if is_cut
                else f"{error.msg} at character {error.pos - self._at + 1} of it"
            )
            raise self._broken(f"is not JSON: {where}") from error

    def _expect(self, marks: str) -> str:
        mark = self._peek()
        if not mark or mark not in marks:
            expectation = " or ".join(repr(mark) for mark in marks)
            is_at = f"after row {self._number}" if self._number else "at the start"
            what = repr(mark) if mark else "its end"
            raise Unreadable(
                f"{self._name} has {what} {is_at}, where {expectation} is expected: it is not a JSON "
                "array, or is cut off."
            )
        self._at += 1
        return mark

    def _peek(self) -> str:
        """Return the next character that is not a blank; empty at the end."""
        while True:
            if blank := _BLANK.match(self._buffer, self._at):
                self._at = blank.end()
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if not self._read():
                return ""

    def _read(self) -> bool:
        """Read the next chunk and return whether there was one. Long elements are read in growing
        chunks."""
        if self._is_end:
            return False
        size = max(PIECE_BYTES, len(self._buffer) - self._at)
        piece = self._file.read(size)
        if not self.done:
            piece = piece.removeprefix(BOM)
        self.done += len(piece)
        self._is_end = not piece
        try:
            text = self._decoder.decode(piece, final=self._is_end)
        except UnicodeDecodeError as error:
            raise Unreadable(
                f"{self._name} is not UTF-8 after row {self._number}; save it as UTF-8."
            ) from error
        self._buffer, self._at = self._buffer[self._at :] + text, 0
        return not self._is_end

    def _broken(self, reason: str) -> Unreadable:
        return Unreadable(
            f"{self._name}: row {self._number} {reason}. The rest of the file cannot be read; fix "
            "this row first."
        )
