"""Code with its tokens marked by classes (pygments), and a guess at the language of a text."""

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

from environments.display.visible import visible

LANGUAGES = (
    "bash",
    "c",
    "css",
    "diff",
    "html",
    "java",
    "javascript",
    "json",
    "python",
    "pytb",
    "rust",
    "sql",
    "yaml",
)
"""Languages whose lexers take time linear in the length of the text; code in any other is shown
without marks."""
_ALIASES = {
    "sh": "bash",
    "shell": "bash",
    "zsh": "bash",
    "console": "bash",
    "py": "python",
    "python3": "python",
    "js": "javascript",
    "ts": "javascript",
    "typescript": "javascript",
    "xml": "html",
    "yml": "yaml",
    "patch": "diff",
    "cpp": "c",
    "c++": "c",
    "traceback": "pytb",
}
FORMATTER = HtmlFormatter(nowrap=True, classprefix="tok-")
MAX_MARKED = 20_000
"""Characters of a text; a longer one is shown without marks."""
MAX_LINE = 4_000
"""Characters of a line; a text with a longer one is shown without marks."""

_SIGNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("pytb", re.compile(r"^Traceback \(most recent call last\):$", re.MULTILINE)),
    ("diff", re.compile(r"^(?:diff --git |--- .+\n\+\+\+ |@@ -\d+)", re.MULTILINE)),
    ("bash", re.compile(r"\A#!.*\b(?:ba|z|)sh\b")),
    ("python", re.compile(r"\A#!.*python|^(?:def \w+\(.*:|class \w+.*:|from [\w.]+ import |import "
                          r"\w+)", re.MULTILINE)),
    ("html", re.compile(r"\A\s*<(?:!doctype|html|\?xml|svg|div|table)\b", re.IGNORECASE)),
    ("sql", re.compile(r"\A\s*(?:select\s.+\sfrom|insert into|create table|update \w+ set)\s", re.IGNORECASE)),
)  # fmt: skip


def code(text: str, language: str = "") -> SafeString:
    """Return `text` as HTML, with marks if `language`, a name as in a Markdown fence, is one of
    `LANGUAGES`."""
    text, name = visible(text), language.lower()
    name = _ALIASES.get(name, name)
    if (
        name not in LANGUAGES
        or len(text) > MAX_MARKED
        or max(map(len, text.split("\n"))) > MAX_LINE
    ):
        return escape(text)
    html: str = highlight(text, _lexer(name), FORMATTER).rstrip("\n")
    # pygments escapes every token and adds only spans with classes
    return mark_safe(html)  # nosec B308 # escaped by Pygments


def language_of(text: str) -> str:
    """Return the language that `text` looks like, or an empty text for prose and unknown
    languages."""
    if is_json(text):
        return "json"
    head = text[:4_000]
    return next((name for name, sign in _SIGNS if sign.search(head)), "")


def begins_as_code(text: str) -> bool:
    """Return whether the first two lines of `text` look like code, or the whole is JSON."""
    first = text.lstrip()
    head = "\n".join(first.split("\n", 2)[:2])
    return first.startswith(('"""', "'''")) or bool(language_of(head)) or is_json(text)


def is_json(text: str) -> bool:
    """Return whether the whole of `text` is a JSON object or array of at most `MAX_MARKED`
    characters."""
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
