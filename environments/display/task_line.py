"""A task's content as one readable line, which lists and pages of the admin show.

The line is the class's `title_field`, which the environment's schema names (`"x-summary": "field"`),
otherwise a question, prompt, goal or title, otherwise the longest text, without Markdown. A task
without text is shown by all its members, `size 5 · seed 3`. Fields that the environment hides from
agents, such as the answer, are never shown, because other people see these lists too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

from pydantic_core import from_json

MAX_SUMMARY_CHARACTERS = 200
MAX_READ_CHARACTERS = 8_000
"""Characters of a spec that are read; callers may pass no more than these."""

_DESCRIPTIVE = (
    "question", "prompt", "goal", "title", "problem", "instruction", "instructions", "query", "task",
    "description", "statement", "text", "name", "input", "content", "message", "messages",
)  # fmt: skip
_WORDS = re.compile(r"\S+\s+\S+")
_HEADINGS = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_LINES = re.compile(
    r"^ {0,3}(?:```[^`\n]*|~~~[^~\n]*|=+|-{3,}|\*{3,})[ \t]*$|^ {0,3}>[ \t]?", re.MULTILINE
)
"""Fences of code, rules, underlines of headings, and marks of quotations."""
_COMMENTS = re.compile(r"<!--.*?-->", re.DOTALL)
_MARKS = re.compile(
    r"(?P<ticks>`{1,3})(?P<code>[^`]+)(?P=ticks)"
    r"|(?<!\w)!?\[(?P<label>[^\[\]]*)\]\((?:[^()\s]+)(?: \"[^\"]*\")?\)"
    r"|(?<![\w*])(?P<stars>\*{1,3})(?=[^\s*])(?P<stress>(?:(?!(?P=stars))[^\n])*[^\s*])(?P=stars)(?![\w*])"
)
"""Code, links, images and stressed words. Underscores stay, because most are part of names."""
_ODD = re.compile(r"[\s\x00-\x1f\x7f]+")


def summary(spec: str, field: str = "", hidden_fields: Collection[str] | None = None) -> str:
    """Return one line for `spec`, a JSON text that may be cut off. `field` is preferred, and
    `hidden_fields` are left out.

    A spec without content is 'empty', or 'no visible fields' if some may be hidden.
    """
    try:
        line = _line(_description(_read(spec[:MAX_READ_CHARACTERS], hidden_fields or ()), field))
        return line or ("no visible fields" if hidden_fields else "empty")
    except RecursionError:
        return "nested too deeply to be summarized"


def summary_field(schema: str) -> str:
    """Return the member that a task schema (JSON text) names as the summary, or an empty text."""
    try:
        value = json.loads(schema) if schema else {}
    except (ValueError, RecursionError):
        return ""
    name = value.get("x-summary") if isinstance(value, dict) else None
    return name if isinstance(name, str) else ""


def _read(spec: str, hidden_fields: Collection[str]) -> Any:
    """Return the value without hidden members, or what can be read of one that was cut off."""
    try:
        value = json.loads(spec)
    except (ValueError, RecursionError):
        try:
            value = from_json(spec, allow_partial="trailing-strings")
        except ValueError:
            return {} if hidden_fields else spec
    if not isinstance(value, dict):
        return value
    return {name: value[name] for name in value if name not in hidden_fields}


def _description(value: Any, field: str = "") -> str:
    """Return the text that describes `value` best."""
    if isinstance(value, list) and value:
        if isinstance(value[0], dict):
            return _description(value[0])
        return ", ".join(_short(item) for item in value)
    if not isinstance(value, dict):
        return value if isinstance(value, str) else _short(value)
    by_name = {str(name).lower(): name for name in reversed(value)}
    for name in (field, *(by_name[word] for word in _DESCRIPTIVE if word in by_name)):
        if name in value and (text := _inner(value[name])):
            return text
    texts = [
        member for member in value.values() if isinstance(member, str) and _WORDS.search(member)
    ]
    if longest := max(texts, key=len, default=""):
        return longest
    return " · ".join(f"{name} {_short(member)}" for name, member in value.items())


def _inner(value: Any) -> str:
    """Return the text of a member; empty if it has none, because a number is not a question."""
    if isinstance(value, str):
        return value.strip()
    return _description(value) if isinstance(value, dict | list) and value else ""


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) <= 60:
        return text
    return f"{len(value)} items" if isinstance(value, list) else f"{text[:59]}…"


def _without_markdown(text: str) -> str:
    """Return `text` without the marks of Markdown; a heading ends with a dot in the middle."""
    text = _LINES.sub("", _HEADINGS.sub(r"\1 ·", _COMMENTS.sub("", text)))
    return _without_marks(text).strip(" ·\n")


def _without_marks(text: str) -> str:
    return _MARKS.sub(
        lambda match: match["code"] or _without_marks(match["label"] or match["stress"] or ""), text
    )


def _line(text: str) -> str:
    """Return `text` cut, on one line, and without lone surrogates, which JSON can contain and UTF-8
    cannot."""
    line = _ODD.sub(" ", _without_markdown(text[: 4 * MAX_SUMMARY_CHARACTERS])).strip()
    line = line.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(line) <= MAX_SUMMARY_CHARACTERS:
        return line
    return f"{line[: MAX_SUMMARY_CHARACTERS - 1].rstrip()}…"
