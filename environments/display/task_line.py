"""Summary: a task's content in one line that a person can read. Pure; lists and pages of the admin show it.

What people would call the task comes first: the field that the environment's schema names (`"x-summary": "field"`),
else a question, prompt, goal or title, else the longest words in it. Without any words it is all its members, `size 5 ·
seed 3`. What the environment hides from agents, such as the answer, is never in it: lists are read over shoulders and
shown in talks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

SUMMARY_CHARACTERS = 200
READ_CHARACTERS = 8_000
"""So much of a spec is enough for its summary; what is given may be cut there."""

_TELLING = (
    *("question", "prompt", "goal", "title", "problem", "instruction", "instructions", "query", "task"),
    *("description", "statement", "text", "name", "input", "content", "message", "messages"),
)
_WORDS = re.compile(r"\S+\s+\S+")
_STRINGS = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:\s*"((?:[^"\\]|\\.)*)("?)')
_ODD = re.compile(r"[\s\x00-\x1f\x7f]+")


def summary(spec: str, field: str = "", hidden: Collection[str] | None = None) -> str:
    """One line of `spec`, JSON text that may be cut short; `field` is the member to prefer, `hidden` are those to leave
    out. Without content it is 'empty', or 'no visible fields' where some may be hidden."""
    try:
        told = _line(_telling(_read(spec[:READ_CHARACTERS], hidden or ()), field))
        return told or ("no visible fields" if hidden else "empty")
    except RecursionError:
        return "nested too deeply to be summed up"


def summary_field(schema: str) -> str:
    """The member that a task schema (JSON text) names as the summary; empty: it names none."""
    try:
        declared = json.loads(schema) if schema else {}
    except (ValueError, RecursionError):
        return ""
    named = declared.get("x-summary") if isinstance(declared, dict) else None
    return named if isinstance(named, str) else ""


def _read(spec: str, hidden: Collection[str]) -> Any:
    """The value; of text that was cut, the members with string values that can still be told."""
    try:
        value = json.loads(spec)
    except (ValueError, RecursionError):
        return _read_cut(spec, hidden)
    return {name: value[name] for name in value if name not in hidden} if isinstance(value, dict) else value


def _read_cut(spec: str, hidden: Collection[str]) -> Any:
    """Members of a spec that was cut, up to the first that is hidden: where that one ends, a part does not tell."""
    before = min((at for name in hidden if (at := spec.find(json.dumps(name))) >= 0), default=len(spec))
    found = {key: _unescaped(value) for key, value, _ in _STRINGS.findall(spec[:before] + '"')}
    return found if found or hidden else spec


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text


def _telling(value: Any, field: str = "") -> str:
    """The words that tell most about `value`."""
    if isinstance(value, list) and value:
        return _telling(value[0]) if isinstance(value[0], dict) else ", ".join(_short(item) for item in value)
    if not isinstance(value, dict):
        return value if isinstance(value, str) else _short(value)
    by_name = {str(name).lower(): name for name in reversed(value)}
    for name in (field, *(by_name[word] for word in _TELLING if word in by_name)):
        if name in value and (found := _inner(value[name])):
            return found
    return _longest_words(value) or " · ".join(f"{name} {_short(member)}" for name, member in value.items())


def _inner(value: Any) -> str:
    """A member's own words; empty when it has none (a number is no question)."""
    if isinstance(value, str):
        return value.strip()
    return _telling(value) if isinstance(value, dict | list) and value else ""


def _longest_words(members: dict[str, Any]) -> str:
    texts = [member for member in members.values() if isinstance(member, str) and _WORDS.search(member)]
    return max(texts, key=len, default="")


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) <= 60:
        return text
    return f"{len(value)} items" if isinstance(value, list) else f"{text[:59]}…"


def _line(text: str) -> str:
    """`text` without line breaks, cut, and without the lone surrogates that JSON can carry and UTF-8 cannot."""
    line = _ODD.sub(" ", text[: 4 * SUMMARY_CHARACTERS]).strip().encode("utf-8", "backslashreplace").decode("utf-8")
    return line if len(line) <= SUMMARY_CHARACTERS else f"{line[: SUMMARY_CHARACTERS - 1].rstrip()}…"
