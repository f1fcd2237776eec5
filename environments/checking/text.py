"""Texts for string schemas: by format or pattern, otherwise words of the length that is asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random
from typing import Any

from environments.checking.patterns import matching

SEEN_SHARE = 0.6
"""Of the values that are taken from what the environment said."""
MOST_SEEN = 200
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,9}(?![\w.]*\d)")
_WORD = re.compile(r"`([^`\n]{1,80})`|\"([^\"\n]{1,80})\"|([\w./:-]{2,80})")


class Seen:
    """Numbers and words that prompts and outputs mentioned, the latest last: what an agent would answer with."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.words: list[str] = []

    def add(self, text: str) -> None:
        self.numbers = [*self.numbers, *map(int, _NUMBER.findall(text))][-MOST_SEEN:]
        self.words = [*self.words, *("".join(groups) for groups in _WORD.findall(text))][-MOST_SEEN:]


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


def text_for(schema: Mapping[str, Any], random: Random, seen: Seen) -> str:
    """A text that the schema may allow. Raises: re.error, ValueError for a pattern that is too clever."""
    if "pattern" in schema:
        return matching(schema["pattern"], random)
    if (known := _FORMATS.get(schema.get("format", ""))) is not None:
        return known
    text = random.choice(seen.words if seen.words and random.random() < SEEN_SHARE else _WORDS)
    low, high = int(schema.get("minLength", 0)), schema.get("maxLength")
    while len(text) < low:
        text += f" {random.choice(_WORDS)}"
    return text if high is None else text[: max(low, int(high))]
