"""The rows of a file as every reader yields them, and the errors of a single row and of a whole
file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from environments.errors import OrsError
from environments.tasks.stored_spec import MAX_BYTES

MAX_ROW_BYTES = MAX_BYTES
"""Limit of a row. It applies to the spec and to its labels."""

Unit = Literal["line", "row"]


class TransferError(OrsError):
    """An import or export is impossible. The message says why and what to change. Nothing was
    changed."""


class Unreadable(TransferError):
    """A file as a whole cannot be read."""


class BadRow(Exception):
    """A row cannot be imported. The message completes the sentence "line 3: …"."""


@dataclass(frozen=True, slots=True)
class FileRow:
    """A row of a file that could be read."""

    number: int
    """Number of the line or row in the file, from 1. If the row spans several lines, the first of
    them."""
    value: dict[str, Any]
    """The keys of the spec and the reserved columns."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row that is not imported."""

    number: int
    reason: str
    """Names the value and what is allowed. Has no full stop."""


class Rows(Protocol):
    """Reads the rows of one file once."""

    unit: Unit
    """What the number of a row counts."""
    total: int
    """The value of `done` at the end of the file."""

    @property
    def done(self) -> int:
        """Return how much has been read so far, in bytes or rows."""

    def __iter__(self) -> Iterator[FileRow | Refusal]:
        """Yield the rows in the order of the file. Raises: Unreadable."""


def many(count: int, noun: str) -> str:
    """Return a number with its noun, such as "1 task" and "2 tasks"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
