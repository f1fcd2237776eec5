"""Code with its words marked by class (pygments), and a guess at what language a text is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from pygments import highlight  # type: ignore[import-untyped]
from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
from pygments.lexer import Lexer  # type: ignore[import-untyped]
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]

from episodes.rendering.visible import visible

LANGUAGES = ("bash", "c", "css", "diff", "html", "java", "javascript", "json", "python", "pytb", "rust", "sql", "yaml")
"""Whose lexers take a time that grows with the text's length only; any other is shown plain."""
_ALIASES = {"sh": "bash", "shell": "bash", "zsh": "bash", "console": "bash", "py": "python", "python3": "python"}
_ALIASES |= {"js": "javascript", "ts": "javascript", "typescript": "javascript", "xml": "html", "yml": "yaml"}
_ALIASES |= {"patch": "diff", "cpp": "c", "c++": "c", "traceback": "pytb"}
MAX_MARKED = 20_000
"""Characters; a longer text is shown without marks."""
LONGEST_LINE = 4_000

_SIGNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("pytb", re.compile(r"^Traceback \(most recent call last\):$", re.MULTILINE)),
    ("diff", re.compile(r"^(?:diff --git |--- .+\n\+\+\+ |@@ -\d+)", re.MULTILINE)),
    ("bash", re.compile(r"\A#!.*\b(?:ba|z|)sh\b")),
    ("python", re.compile(r"\A#!.*python|^(?:def \w+\(.*:|class \w+.*:|from [\w.]+ import |import \w+)", re.MULTILINE)),
    ("html", re.compile(r"\A\s*<(?:!doctype|html|\?xml|svg|div|table)\b", re.IGNORECASE)),
    ("sql", re.compile(r"\A\s*(?:select\s.+\sfrom|insert into|create table|update \w+ set)\s", re.IGNORECASE)),
)  # fmt: skip


def code(text: str, language: str = "") -> SafeString:
    """`text` with marks where `language` (a name as in a Markdown fence) is known; escaped in any case."""
    shown, name = visible(text), language.lower()
    name = _ALIASES.get(name, name)
    if name not in LANGUAGES or len(shown) > MAX_MARKED or max(map(len, shown.split("\n"))) > LONGEST_LINE:
        return escape(shown)
    # pygments escapes every token, and writes nothing but spans with classes
    marked: str = highlight(shown, _lexer(name), _formatter()).rstrip("\n")
    return mark_safe(marked)


def language_of(text: str) -> str:
    """The language that `text` looks like; empty: like prose or nothing known."""
    if is_json(text):
        return "json"
    head = text[:4_000]
    return next((name for name, sign in _SIGNS if sign.search(head)), "")


def is_json(text: str) -> bool:
    """Whether it is a JSON object or list, whole."""
    start = text.lstrip()[:1]
    if start not in ("{", "[") or len(text) > MAX_MARKED:
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


@cache
def _lexer(name: str) -> Lexer:
    lexer: Callable[..., Lexer] = get_lexer_by_name
    return lexer(name, stripnl=False, ensurenl=False)


@cache
def _formatter() -> HtmlFormatter:
    return HtmlFormatter(nowrap=True, classprefix="tok-")
