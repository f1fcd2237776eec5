"""Cursor: a place in an order of episodes, as text in an address. Opaque to its reader, checked when it comes back.

And Order: by which column episodes are sorted. Made and read by `browse.py`.
"""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from environments.database.storable import MAX_BIGINT
from environments.scoring.returns import Return
from episodes.filtering.parameters import BadFilter

SORTS = ("time", "return", "steps", "duration")
Segment = Literal["known", "null", "running"]
"""Episodes with a figure come first, then those that ended without one, then those that run, each by their ids."""
Value = float | int | str | None


@dataclass(frozen=True, slots=True)
class EpisodeOrder:
    column: str
    """`id`, another column that rises with time, or a figure; the id decides between equals."""
    is_descending: bool = True

    @classmethod
    def parse(cls, text: str, definition: Return) -> EpisodeOrder:
        """Empty: the newest first. Raises: BadFilter."""
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
    def segments(self) -> list[Segment]:
        if not self.is_figure:
            return ["known"]
        can_lack = self.column not in ("return_sum", "steps_count")
        return ["known", "null", "running"] if can_lack else ["known", "running"]


@dataclass(frozen=True, slots=True)
class EpisodeCursor:
    """The episode after which, or before which, a page begins."""

    segment: Segment
    value: Value
    """Of the order's column, a time as ISO text; None outside `known`."""
    pk: int
    is_backward: bool = False
    """The page ends before it."""

    def text(self, order: EpisodeOrder) -> str:
        told = [_sign(order), self.segment, self.value, self.pk, self.is_backward]
        return base64.urlsafe_b64encode(json.dumps(told, separators=(",", ":")).encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str, order: EpisodeOrder) -> EpisodeCursor:
        """Raises: BadFilter when it is no cursor, or one of another order."""
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            sign, segment, value, pk, is_backward = json.loads(raw)
        except (ValueError, TypeError, RecursionError):
            raise BadFilter("after", text, "it is no cursor that a page gave; leave it out to begin anew") from None
        if sign != _sign(order):
            raise BadFilter("after", text, "it belongs to another order or filter; leave it out to begin anew")
        known = segment in order.segments and _is_number(pk) and isinstance(is_backward, bool)
        if not known or not _is_value(value, order, segment):
            raise BadFilter("after", text, "it is no cursor that a page gave; leave it out to begin anew")
        return cls(segment, value, pk, is_backward)


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
