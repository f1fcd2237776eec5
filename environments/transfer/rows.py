"""Rows of a file, as every format gives them, and the two ways of being unreadable: one row, or the whole file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from environments.errors import OrsError
from environments.tasks.task_text import MAX_BYTES

MAX_ROW_BYTES = MAX_BYTES
"""More is refused, of a spec or of the labels beside it."""

Unit = Literal["line", "row"]


class TransferError(OrsError):
    """An import or an export cannot be done; one sentence that says why and what to change. Nothing was changed."""


class Unreadable(TransferError):
    """The file as a whole is not what it should be."""


class BadRow(Exception):
    """Why one row cannot be taken, as the end of the sentence "line 3: …"."""


@dataclass(frozen=True, slots=True)
class FileRow:
    number: int
    """Of the line or row in the file, from 1; of a row that spans lines the first."""
    value: dict[str, Any]
    """The spec and the reserved columns."""


@dataclass(frozen=True, slots=True)
class Refusal:
    number: int
    reason: str
    """Names the value and what is allowed; no full stop."""


class Rows(Protocol):
    """One reading of one file."""

    unit: Unit
    """What `number` counts."""
    total: int
    """What `done` is at the end."""

    @property
    def done(self) -> int:
        """How far the reading is, in bytes or rows."""

    def __iter__(self) -> Iterator[FileRow | Refusal]:
        """Raises: Unreadable."""
