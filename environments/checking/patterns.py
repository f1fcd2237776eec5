"""Texts that match a regular expression, for the simple ones that stand in JSON Schemas.

Walks Python's own parse of the expression; anchors are taken as met and look-arounds are passed over, so whoever asks
checks the text against the expression.
"""

from __future__ import annotations

import re
import string
from random import Random
from typing import Any

MOST_REPEATS = 4
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
    """A text that `pattern` may match. Raises: re.error, ValueError for an expression beyond this module."""
    parse = re._parser.parse  # type: ignore[attr-defined]  # no public name; its shape is the same from 3.11 to 3.14
    return "".join(_text(str(kind), value, random) for kind, value in parse(pattern))


def _text(kind: str, value: Any, random: Random) -> str:
    match kind:
        case "LITERAL":
            return chr(value)
        case "ANY" | "NOT_LITERAL":
            return random.choice([char for char in _PRINTABLE if kind == "ANY" or ord(char) != value])
        case "IN":
            return random.choice(_set(value))
        case "BRANCH":
            return _sequence(random.choice(value[1]), random)
        case "SUBPATTERN":
            return _sequence(value[-1], random)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            low, high, repeated = value
            times = random.randint(low, max(low, min(int(high), low + MOST_REPEATS)))
            return "".join(_sequence(repeated, random) for _ in range(times))
        case "AT" | "ASSERT" | "ASSERT_NOT":
            return ""
    raise ValueError(f"{kind} is not understood")


def _sequence(items: Any, random: Random) -> str:
    return "".join(_text(str(kind), value, random) for kind, value in items)


def _set(items: Any) -> list[str]:
    """The characters of a `[…]`. Raises: ValueError when it has none that can be printed."""
    chosen: set[str] = set()
    is_negated = False
    for kind, value in items:
        match str(kind):
            case "NEGATE":
                is_negated = True
            case "LITERAL":
                chosen.add(chr(value))
            case "RANGE":
                chosen.update(map(chr, range(value[0], min(value[1], value[0] + 200) + 1)))
            case "CATEGORY":
                chosen.update(_CATEGORIES[str(value)])
    found = sorted(set(_PRINTABLE) - chosen if is_negated else chosen)
    if not found:
        raise ValueError("a set without characters")
    return found
