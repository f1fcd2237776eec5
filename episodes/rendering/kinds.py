"""The kinds of text that pages show (Markdown, code, terminal output …): their detection and
rendering as safe HTML."""

from __future__ import annotations

import json
import re
from typing import Literal, get_args

from django.utils.html import escape
from django.utils.safestring import SafeString

from environments.display.visible import visible
from episodes.rendering.ansi import ansi
from episodes.rendering.code import begins_as_code, code, is_json, language_of
from episodes.rendering.formulas import latex
from episodes.rendering.markdown import markdown

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
_LATEX = re.compile(  # delimiters as in formulas.py
    r"(?<!\\)\\\((?:\\\\|(?!\\\().){1,500}?\\\)|(?<!\\)\\\[(?:\\\\|(?!\\\[).){1,500}?\\\]|\$\$[^$]{1,500}?\$\$"
    r"|\$[^$\n]{0,200}?\\[a-z][^$\n]{0,200}\$",
    re.DOTALL,
)
MAX_PARSED = 20_000
"""Characters of Markdown or LaTeX that are parsed; a longer text is shown as it is."""
MAX_MARKS = 3_000
"""Characters with a meaning in Markdown that are parsed, because some take time that grows with
their square."""
_MARKS = "[]!*_`<>|\\$&~#\n"
_MAX_HEAD = 8_000
"""Characters at the beginning of a text from which its kind is derived."""
MIN_WIDTH, MIN_HEIGHT = 3, 3
"""Characters and lines of a drawing made of characters, which needs a monospaced font."""


def kind_of(text: str, *, is_prompt: bool = False) -> Kind:
    """Return the kind that shows `text` best; Markdown only if it has a fence, a table or two other
    signs of it, of which a prompt needs one.

    A text with a fence or a table that also looks like code is Markdown, unless it begins as code.
    """
    head = text[:_MAX_HEAD]
    if "\x1b[" in head:
        return "ansi"
    is_sure = bool(_MARKDOWN_SURE.search(head))
    if language_of(text) and (not is_sure or begins_as_code(text)):
        return "code"
    signs = sum(bool(sign.search(head)) for sign in _MARKDOWN_SIGNS)
    if is_sure or signs > 1 or (is_prompt and signs and not _is_drawing(head)):
        return "markdown"
    if _LATEX.search(head):
        return "latex"
    return "code" if _is_drawing(head) else "text"


def _is_drawing(text: str) -> bool:
    """Return whether `text` has consecutive lines of equal length and few letters, as a maze or a
    board has."""
    height = length = 0
    for line in text.splitlines():
        is_row = len(line) >= MIN_WIDTH and 2 * sum(map(str.isalnum, line)) <= len(line)
        height = (height + 1 if len(line) == length else 1) if is_row else 0
        length = len(line)
        if height >= MIN_HEIGHT:
            return True
    return False


def rendered(text: str, kind: Kind, language: str = "") -> SafeString:
    """Return `text` as safe HTML. `language` applies to code; if it is empty, the language is
    guessed.

    Markdown and LaTeX of more than `MAX_PARSED` characters are shown as plain text, and so is
    Markdown with more than `MAX_MARKS` marks.
    """
    if kind in ("markdown", "latex") and len(text) > MAX_PARSED:
        return escape(visible(text))
    if kind == "markdown" and sum(map(text.count, _MARKS)) <= MAX_MARKS:
        return markdown(text)
    if kind == "code":
        name = language or language_of(text)
        return code(indent_json(text) if name == "json" and is_json(text) else text, name)
    if kind == "ansi":
        return ansi(text)
    if kind == "latex":
        return latex(text)
    return escape(json.dumps(text)[1:-1] if kind == "raw" else visible(text))


_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_MAX_INDENTED = 20
"""Maximum number of levels that are indented; deeper levels start in the column of the last of
them."""


def indent_json(text: str) -> str:
    """Return valid JSON with one member or item on each line, indented by two spaces for each
    level.

    The text is not parsed into values, so numbers stay as they were written and keys stay in their
    order. Empty objects and arrays stay on one line.
    """
    tokens = _JSON_TOKEN.findall(text)
    pieces: list[str] = []
    depth = 0
    for token, following in zip(tokens, [*tokens[1:], ""], strict=True):
        is_empty = token in ("{", "[") and following in ("}", "]")
        if token in ("}", "]") and pieces[-1] not in ("{", "["):
            depth -= 1
            pieces.append(_line_break(depth))
        # letters instead of escapes, except for those that JSON requires
        is_string = token.startswith('"')
        pieces.append(json.dumps(json.loads(token), ensure_ascii=False) if is_string else token)
        if token in ("{", "[") and not is_empty:
            depth += 1
            pieces.append(_line_break(depth))
        elif token == ",":  # nosec B105 # a token of a text
            pieces.append(_line_break(depth))
        elif token == ":":  # nosec B105 # a token of a text
            pieces.append(" ")
    return "".join(pieces)


def _line_break(depth: int) -> str:
    return "\n" + "  " * min(depth, _MAX_INDENTED)
