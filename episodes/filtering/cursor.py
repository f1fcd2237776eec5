"""Orders of episodes, and cursors: positions in an order, as text in an address. Used by `page.py`.

A cursor is opaque to clients and is checked when it comes back.
"""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from environments.database.storable import MAX_BIGINT
from environments.scoring.returns import Return
from episodes.filtering.parameters import BadFilter

SORTS = ("time", "return", "steps", "duration")
Segment = Literal["known", "null", "running"]
"""Episodes with a figure come first, then those that ended without one, then those that run, each by their ids."""
Value = float | int | str | None
_NOT_A_CURSOR = "it is not a cursor from a page of episodes; leave it out for the first page"


@dataclass(frozen=True, slots=True)
class EpisodeOrder:
    column: str
    """`id`, another column that rises with time, or a figure. Equal values are ordered by id."""
    is_descending: bool = True

    @classmethod
    def parse(cls, text: str, definition: Return) -> EpisodeOrder:
        """Return the order that the parameter `sort` names; the newest first if it is empty. Raises: BadFilter."""
        name = (text or "-time").removeprefix("-")
        if name not in SORTS:
            legal = ", ".join(f"{name}, -{name}" for name in SORTS)
            raise BadFilter("sort", text, f"allowed are {legal} (with - the largest first)")
        columns = {"return": f"return_{definition}", "steps": "steps_count", "duration": "duration_seconds"}
        return cls(columns.get(name, "id"), (text or "-time").startswith("-"))

    @property
    def is_figure(self) -> bool:
        return self.column.startswith("return_") or self.column in ("steps_count", "duration_seconds")

    @property
    def part(self) -> str:
        """Part of a filter (`conditions.parts_of`) whose index has this order, so that the two are read together."""
        if not self.is_figure:
            return {"created": "time", "end_number": "ends"}.get(self.column, "")
        return "return" if self.column.startswith("return_") else self.column.removesuffix("_count")

    @property
    def segments(self) -> list[Segment]:
        if not self.is_figure:
            return ["known"]
        can_lack = self.column not in ("return_sum", "steps_count")
        return ["known", "null", "running"] if can_lack else ["known", "running"]


@dataclass(frozen=True, slots=True)
class EpisodeCursor:
    """The episode after which a page starts, or before which it ends."""

    segment: Segment
    value: Value
    """Value of the order's column, a time as ISO text; None outside the segment `known`."""
    pk: int
    is_backward: bool = False
    """Whether the page ends before the episode, instead of starting after it."""

    def text(self, order: EpisodeOrder) -> str:
        parts = [_sign(order), self.segment, self.value, self.pk, self.is_backward]
        return base64.urlsafe_b64encode(json.dumps(parts, separators=(",", ":")).encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str, order: EpisodeOrder) -> EpisodeCursor:
        """Return the cursor in `text`. Raises: BadFilter if it is not a cursor of this order."""
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            sign, segment, value, pk, is_backward = json.loads(raw)
        except (ValueError, TypeError, RecursionError):
            raise BadFilter("after", text, _NOT_A_CURSOR) from None
        if sign != _sign(order):
            raise BadFilter("after", text, "it belongs to another order or filter; leave it out for the first page")
        known = segment in order.segments and _is_number(pk) and isinstance(is_backward, bool)
        if not known or not _is_value(value, order, segment):
            raise BadFilter("after", text, _NOT_A_CURSOR)
        return cls(segment, value, pk, is_backward)


class Direction(NamedTuple):
    """An order and the cursor from which it is read, forwards or backwards; without a cursor, from the start."""

    order: EpisodeOrder
    cursor: EpisodeCursor | None

    @property
    def is_backward(self) -> bool:
        return self.cursor is not None and self.cursor.is_backward

    @property
    def is_down(self) -> bool:
        """Whether values and ids decrease in the direction of reading."""
        return self.order.is_descending != self.is_backward

    @property
    def start(self) -> tuple[Any, int]:
        """Value of the cursor, as the database stores it, and its id."""
        assert self.cursor is not None
        value = self.cursor.value
        return datetime.fromisoformat(str(value)) if self.order.column == "created" else value, self.cursor.pk

    @property
    def segments(self) -> list[Segment]:
        """Segments that remain to be read, in the order of reading."""
        found = self.order.segments[::-1] if self.is_backward else self.order.segments
        return found[found.index(self.cursor.segment) :] if self.cursor else found


def _sign(order: EpisodeOrder) -> str:
    return f"{'-' if order.is_descending else ''}{order.column}"


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_BIGINT


def _is_value(value: object, order: EpisodeOrder, segment: str) -> bool:
    if segment != "known":
        return value is None
    if order.column == "created":
        return isinstance(value, str) and _is_moment(value)
    return _is_number(value) or (order.is_figure and isinstance(value, float) and math.isfinite(value))


def _is_moment(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
