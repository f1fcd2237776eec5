"""Texts for inputs of tools that the checks make from a string's schema, and from what prompts and
outputs mentioned.

Texts that match a regular expression are made from Python's own parse of it, for simple expressions
as they are in JSON Schemas. Anchors and look-arounds are ignored, so the caller has to check the
result against the expression.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from importlib import import_module
from random import Random
from typing import Any

MAX_REPEATS = 4
_PRINTABLE = string.ascii_letters + string.digits + " _-.,:;!?"
_CATEGORIES = {
    "CATEGORY_DIGIT": string.digits,
    "CATEGORY_WORD": string.ascii_letters + string.digits + "_",
    "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_DIGIT": string.ascii_letters,
    "CATEGORY_NOT_WORD": " -.,",
    "CATEGORY_NOT_SPACE": string.ascii_letters,
}


def matching(pattern: str, random: Random) -> str:
    """Return a text that `pattern` probably matches. Raises: re.error; ValueError for an
    unsupported expression."""
    # no public name; its shape is the same from 3.11 to 3.14
    parse = import_module("re._parser").parse
    return "".join(_text(str(kind), value, random) for kind, value in parse(pattern))


def _text(kind: str, value: Any, random: Random) -> str:
    match kind:
        case "LITERAL":
            return chr(value)
        case "ANY" | "NOT_LITERAL":
            return random.choice(
                [char for char in _PRINTABLE if kind == "ANY" or ord(char) != value]
            )
        case "IN":
            return random.choice(_set(value))
        case "BRANCH":
            return _sequence(random.choice(value[1]), random)
        case "SUBPATTERN":
            return _sequence(value[-1], random)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            low, high, part = value
            times = random.randint(low, max(low, min(int(high), low + MAX_REPEATS)))
            return "".join(_sequence(part, random) for _ in range(times))
        case "AT" | "ASSERT" | "ASSERT_NOT":
            return ""
    raise ValueError(f"{kind} is not supported")


def _sequence(items: Any, random: Random) -> str:
    return "".join(_text(str(kind), value, random) for kind, value in items)


def _set(items: Any) -> list[str]:
    """Return the printable characters of a set `[…]`. Raises: ValueError when there are none."""
    characters: set[str] = set()
    is_negated = False
    for kind, value in items:
        match str(kind):
            case "NEGATE":
                is_negated = True
            case "LITERAL":
                characters.add(chr(value))
            case "RANGE":
                characters.update(map(chr, range(value[0], min(value[1], value[0] + 200) + 1)))
            case "CATEGORY":
                characters.update(_CATEGORIES[str(value)])
    choices = sorted(set(_PRINTABLE) - characters if is_negated else characters)
    if not choices:
        raise ValueError("a set without printable characters")
    return choices


SEEN_SHARE = 0.6
"""Share of the values that are taken from what the environment said."""
MAX_SEEN = 200
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,9}(?![\w.]*\d)")
_WORD = re.compile(r"`([^`\n]{1,80})`|\"([^\"\n]{1,80})\"|([\w./:-]{2,80})")


class Seen:
    """Numbers and words that prompts and outputs mentioned, oldest first, because an agent would
    answer with them."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.words: list[str] = []

    def add(self, text: str) -> None:
        self.numbers = [*self.numbers, *map(int, _NUMBER.findall(text))][-MAX_SEEN:]
        self.words = [*self.words, *("".join(groups) for groups in _WORD.findall(text))][-MAX_SEEN:]


_WORDS = [
    "yes",
    "no",
    "hello",
    "42",
    "7",
    "north",
    "a",
    "the answer",
    "print(1)",
    "test.txt",
    "Ω and \u2028 and \t blanks",
]
_FORMATS = {
    "date": "2024-02-29",
    "date-time": "2024-02-29T12:30:00Z",
    "time": "12:30:00Z",
    "duration": "PT5M",
    "email": "someone@example.org",
    "uri": "https://example.org/page",
    "uuid": "6f1f6f8e-4b53-4f0c-9f4a-2a1f3f8f6d10",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "hostname": "example.org",
    "binary": "text",
    "byte": "dGV4dA==",
}


def text_for(schema: Mapping[str, Any], random: Random, observations: Seen) -> str:
    """Return a text that the schema probably allows. Raises: re.error; ValueError for an
    unsupported pattern."""
    if "pattern" in schema:
        return matching(schema["pattern"], random)
    if (example := _FORMATS.get(schema.get("format", ""))) is not None:
        return example
    text = random.choice(
        observations.words if observations.words and random.random() < SEEN_SHARE else _WORDS
    )
    low, high = int(schema.get("minLength", 0)), schema.get("maxLength")
    while len(text) < low:
        text += f" {random.choice(_WORDS)}"
    return text if high is None else text[: max(low, int(high))]
