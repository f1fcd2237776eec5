"""A task's content as one readable line, which lists and pages of the admin show.

The line is the field that the environment's schema names (`"x-summary": "field"`), otherwise a
question, prompt, goal or title, otherwise the longest text. A task without text is shown by all its
members, `size 5 · seed 3`. Fields that the environment hides from agents, such as the answer, are
never shown, because other people see these lists too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

MAX_SUMMARY_CHARACTERS = 200
MAX_READ_CHARACTERS = 8_000
"""Characters of a spec that are read; callers may pass no more than these."""

_DESCRIPTIVE = (
    *(
        "question",
        "prompt",
        "goal",
        "title",
        "problem",
        "instruction",
        "instructions",
        "query",
        "task",
    ),
    *("description", "statement", "text", "name", "input", "content", "message", "messages"),
)
_WORDS = re.compile(r"\S+\s+\S+")
_STRINGS = re.compile(r'"((?:[^"\\]|\\.)*+)(?:"(?:\s*+:\s*+"((?:[^"\\]|\\.)*+))?)?')
"""A string, and the string of which it is the name. A string without an end is read once, to the
end of the text."""
_ODD = re.compile(r"[\s\x00-\x1f\x7f]+")


def summary(spec: str, field: str = "", hidden: Collection[str] | None = None) -> str:
    """Return one line for `spec`, JSON text that may be cut off; `field` is preferred, `hidden` are
    left out.

    A spec without content is 'empty', or 'no visible fields' if some may be hidden.
    """
    try:
        line = _line(_description(_read(spec[:MAX_READ_CHARACTERS], hidden or ()), field))
        return line or ("no visible fields" if hidden else "empty")
    except RecursionError:
        return "nested too deeply to be summarized"


def summary_field(schema: str) -> str:
    """Return the member that a task schema (JSON text) names as the summary, or an empty text."""
    try:
        declared = json.loads(schema) if schema else {}
    except (ValueError, RecursionError):
        return ""
    named = declared.get("x-summary") if isinstance(declared, dict) else None
    return named if isinstance(named, str) else ""


def _read(spec: str, hidden: Collection[str]) -> Any:
    """Return the value, or the members with string values that can be read from text that was cut
    off."""
    try:
        value = json.loads(spec)
    except (ValueError, RecursionError):
        return _read_cut(spec, hidden)
    return (
        {name: value[name] for name in value if name not in hidden}
        if isinstance(value, dict)
        else value
    )


def _read_cut(spec: str, hidden: Collection[str]) -> Any:
    """Return members of a spec that was cut off, up to the first hidden one, because its end cannot
    be found."""
    before = min(
        (at for name in hidden if (at := spec.find(json.dumps(name))) >= 0), default=len(spec)
    )
    members = _STRINGS.finditer(spec[:before] + '"')
    found = {member[1]: _unescaped(member[2]) for member in members if member[2] is not None}
    return found if found or hidden else spec


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text


def _description(value: Any, field: str = "") -> str:
    """Return the text that describes `value` best."""
    if isinstance(value, list) and value:
        return (
            _description(value[0])
            if isinstance(value[0], dict)
            else ", ".join(_short(item) for item in value)
        )
    if not isinstance(value, dict):
        return value if isinstance(value, str) else _short(value)
    by_name = {str(name).lower(): name for name in reversed(value)}
    for name in (field, *(by_name[word] for word in _DESCRIPTIVE if word in by_name)):
        if name in value and (found := _inner(value[name])):
            return found
    return _longest_words(value) or " · ".join(
        f"{name} {_short(member)}" for name, member in value.items()
    )


def _inner(value: Any) -> str:
    """Return the text of a member; empty if it has none, because a number is not a question."""
    if isinstance(value, str):
        return value.strip()
    return _description(value) if isinstance(value, dict | list) and value else ""


def _longest_words(members: dict[str, Any]) -> str:
    texts = [
        member for member in members.values() if isinstance(member, str) and _WORDS.search(member)
    ]
    return max(texts, key=len, default="")


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) <= 60:
        return text
    return f"{len(value)} items" if isinstance(value, list) else f"{text[:59]}…"


def _line(text: str) -> str:
    """Return `text` cut, on one line, and without lone surrogates, which JSON can contain and UTF-8
    cannot."""
    line = (
        _ODD.sub(" ", text[: 4 * MAX_SUMMARY_CHARACTERS])
        .strip()
        .encode("utf-8", "backslashreplace")
        .decode("utf-8")
    )
    return (
        line
        if len(line) <= MAX_SUMMARY_CHARACTERS
        else f"{line[: MAX_SUMMARY_CHARACTERS - 1].rstrip()}…"
    )
