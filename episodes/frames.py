"""Frames: HTML as a template makes it once for each shape that a thing can have, with places into which texts go.

For what stands on a page hundreds of times: a template takes longer for its conditions than for all else.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from html import escape
from typing import Any

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

MOST_SHAPES = 1024
"""Of one kind of thing, whose frames are kept."""
_MARK = secrets.token_hex(16)
"""In each place; nobody can have said it."""
_PLACE = re.compile(rf"{_MARK}-(\w+)-")

Frame = list[str]
"""HTML, and the name of the text that goes there, in turn."""


def place(name: str) -> SafeString:
    """Stands for the text `name` in the context of a template."""
    return SafeString(f"{_MARK}-{name}-")


def framed(template: str, context: Mapping[str, Any]) -> Frame:
    return _PLACE.split(render_to_string(template, dict(context)))


def filled(frame: Frame, texts: Mapping[str, str]) -> SafeString:
    """The texts in their places, escaped unless they are HTML."""
    pieces = frame.copy()
    pieces[1::2] = [text if isinstance(text := texts[name], SafeString) else escape(text) for name in frame[1::2]]
    return SafeString("".join(pieces))
