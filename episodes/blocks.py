"""Blocks: one thing that was said, as `templates/episodes/said.html` shows it, for pages that show many of them.

Most of a block's HTML is the same for every block of its shape, so the template is asked once for each shape, and only
what differs is put in. A template takes longer for a block's conditions than all else that a short step needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from episodes.cards import Said
from episodes.frames import MOST_SHAPES, Frame, filled, framed, place
from episodes.rendering.kinds import Kind


@dataclass(frozen=True, slots=True)
class _Shape:
    """All that a block's HTML depends on, but for the text and the addresses themselves."""

    place: str
    label: str
    kind: Kind
    kinds: tuple[Kind, ...]
    omitted: int
    is_short: bool
    is_long: bool
    is_empty: bool
    has_source: bool
    has_whole: bool
    swap: str
    is_open: bool
    is_alone: bool


def block_html(
    one: Said, source: str = "", whole: str = "", swap: str = "", *, is_open: bool = False, is_alone: bool = False
) -> SafeString:
    """The arguments are those that the template describes. An image keeps its data: address."""
    if one.kind == "image":
        addresses = {"source": source, "whole": whole, "swap": swap}
        return render_to_string(
            "episodes/said.html", {"one": one, "is_open": is_open, "is_alone": is_alone, **addresses}
        )
    shape = _Shape(
        *(one.place, one.label, one.kind, one.kinds, one.omitted, one.is_short, one.is_long, not one.html),
        *(bool(source), bool(whole), swap, is_open, is_alone),
    )
    return filled(_frame(shape), {"html": one.html, "source": source, "whole": whole})


@lru_cache(maxsize=MOST_SHAPES)
def _frame(shape: _Shape) -> Frame:
    one = Said(
        place=shape.place,
        label=shape.label,
        kind=shape.kind,
        html=SafeString() if shape.is_empty else place("html"),
        kinds=shape.kinds,
        omitted=shape.omitted,
        is_short=shape.is_short,
        is_long=shape.is_long,
        number=0,
    )
    ways = {"swap": shape.swap, "is_open": shape.is_open, "is_alone": shape.is_alone}
    source, whole = place("source") if shape.has_source else "", place("whole") if shape.has_whole else ""
    return framed("episodes/said.html", {"one": one, "source": source, "whole": whole, **ways})
