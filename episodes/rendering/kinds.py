"""The ways to read a text, and which of them suits it. What pages call."""

from __future__ import annotations

import json
import re
from typing import Literal, get_args

from django.utils.html import escape
from django.utils.safestring import SafeString

from episodes.rendering.ansi import ansi
from episodes.rendering.code import code, is_json, language_of
from episodes.rendering.formulas import latex
from episodes.rendering.layout import laid_out
from episodes.rendering.markdown import markdown
from episodes.rendering.visible import visible

Kind = Literal["text", "markdown", "code", "ansi", "latex", "raw"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_MARKDOWN_SURE = re.compile(r"^(?:```|~~~)|^\|.+\|\s*\n\|[ :|-]+\|", re.MULTILINE)
_MARKDOWN_SIGNS = (
    re.compile(r"^#{1,6} \S", re.MULTILINE),
    re.compile(r"^(?:[-*+]|\d{1,3}[.)]) \S.*\n\s*(?:[-*+]|\d{1,3}[.)]) \S", re.MULTILINE),
    re.compile(r"\*\*\S[^*\n]*\*\*"),
    re.compile(r"`[^`\n]+`"),
    re.compile(r"\[[^\[\]\n]{1,200}\]\(https?://[^)\s]{1,500}\)"),
    re.compile(r"^> \S", re.MULTILINE),
)
_LATEX = re.compile(
    r"\\\(.{1,500}?\\\)|\\\[.{1,500}?\\\]|\$\$.{1,500}?\$\$|\$[^$\n]{0,200}\\[a-z]+[^$\n]{0,200}\$", re.DOTALL
)
MAX_PARSED = 20_000
"""Characters of Markdown or formulas."""
_LOOKED_AT = 8_000
"""Characters at the beginning that decide."""
MIN_WIDTH, MIN_HEIGHT = 3, 3
"""Of what is drawn with characters; it needs letters of one width."""


def kind_of(text: str) -> Kind:
    """The kind that shows `text` best: Markdown only when more than one sign speaks for it."""
    head = text[:_LOOKED_AT]
    if "\x1b[" in head:
        return "ansi"
    if language_of(text):
        return "code"
    signs = sum(bool(sign.search(head)) for sign in _MARKDOWN_SIGNS)
    if _MARKDOWN_SURE.search(head) or signs > 1:
        return "markdown"
    if _LATEX.search(head):
        return "latex"
    return "code" if _is_drawn(head) else "text"


def _is_drawn(text: str) -> bool:
    """Whether lines of it stand below each other as those of a maze or a board do."""
    height = length = 0
    for line in text.splitlines():
        is_row = len(line) >= MIN_WIDTH and 2 * sum(map(str.isalnum, line)) <= len(line)
        height = (height + 1 if len(line) == length else 1) if is_row else 0
        length = len(line)
        if height >= MIN_HEIGHT:
            return True
    return False


def rendered(text: str, kind: Kind, language: str = "") -> SafeString:
    """`text` as safe HTML. `language` is for code; without, it is guessed.

    Longer Markdown and formulas are shown as the text they are: hostile ones take the square of their length to parse.
    """
    if kind in ("markdown", "latex") and len(text) > MAX_PARSED:
        return escape(visible(text))
    if kind == "markdown":
        return markdown(text)
    if kind == "code":
        name = language or language_of(text)
        return code(laid_out(text) if name == "json" and is_json(text) else text, name)
    if kind == "ansi":
        return ansi(text)
    if kind == "latex":
        return latex(text)
    return escape(json.dumps(text)[1:-1] if kind == "raw" else visible(text))
