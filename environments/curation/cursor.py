"""Cursor: where a page of tasks begins or ends, as its address has it: `1200` is a place in a split, `n1200` an id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Order = Literal["newest", "split"]
"""Newest first, or as agents get them from the split."""

_MARK = "n"


@dataclass(frozen=True, slots=True)
class Cursor:
    key: int | None
    """A place or a task's id; None: from the very end."""
    order: Order | None = None
    """None: of neither, nothing was read."""

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """What cannot be read counts as none."""
        digits = text.removeprefix(_MARK).removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 19):
            return cls(None)
        return cls(int(text.removeprefix(_MARK)), "newest" if text.startswith(_MARK) else "split")

    def __str__(self) -> str:
        return "" if self.key is None else f"{_MARK if self.order == 'newest' else ''}{self.key}"
