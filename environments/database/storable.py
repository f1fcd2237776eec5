"""Changes texts, ids and numbers that a database would refuse, so that it can store them."""

from __future__ import annotations

import math
import re
import sys
from hashlib import blake2b

UNSTORABLE = re.compile("[\0\ud800-\udfff]")
"""Characters that PostgreSQL (NUL) or every driver (lone surrogates) refuses, so that no stored
text has them."""
SLICE_CHARACTERS = 1024 * 1024
"""A longer text is searched in slices, because no other thread runs during a search: 3 ms for a
slice."""
MAX_BIGINT = 2**63 - 1
"""Largest number that a column of 64 bits holds, so also the largest id."""
_WHOLE = re.compile("0|-?[1-9][0-9]{0,18}")
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]{1,4000}(\.[0-9]{0,4000})?|(\.[0-9]{1,4000}))([eE][+-]?[0-9]{1,9})?"
)
_ESCAPE = re.compile(r"\\(?:ud[89ab]..\\ud[c-f]..|(ud[89a-f]..|u0000)|.)", re.IGNORECASE)
"""An escape in ASCII JSON; the group is NUL or half of a surrogate pair."""
MAX_INDEX = 2**31 - 1
"""Largest number that a column of 32 bits holds, so also the largest index of a step."""


def is_storable(text: str) -> bool:
    """Return whether a database can store `text` as it is; one that it cannot store is also found
    nowhere."""
    return "\0" not in text and is_encodable(text)


def is_encodable(text: str) -> bool:
    """Return whether no lone surrogate is in `text`. Encoding takes a quarter of what a regular
    expression takes."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def storable(text: str, limit: int | None = None) -> str:
    """Return `text` without NUL and lone surrogates, which PostgreSQL or UTF-8 refuse, cut to
    `limit` characters."""
    if not is_storable(text):
        slices = (
            text[first : first + SLICE_CHARACTERS]
            for first in range(0, len(text), SLICE_CHARACTERS)
        )
        text = "".join([UNSTORABLE.sub("\ufffd", part) for part in slices])
    return text[:limit]


def storable_json(text: str) -> str:
    """Return ASCII JSON without escapes for NUL and lone surrogates, in names of members as well as
    in values."""
    if r"\ud" not in text and r"\u0000" not in text:
        return text
    return _ESCAPE.sub(lambda escape: r"\ufffd" if escape[1] else escape[0], text)


def storable_id(text: str, limit: int) -> str:
    """Return a storable id: a longer one is cut and ends in a digest of the whole, so that long ids
    stay distinct."""
    text = storable(text)
    return text if len(text) <= limit else f"{text[: limit - 33]}~{digest_of(text.encode())}"


def digest_of(data: bytes) -> str:
    """Return the key of a blob: blake2b-128 of its content as 32 hexadecimal digits."""
    return blake2b(data, digest_size=16).hexdigest()


def number_in(text: str) -> int | float | None:
    """Return the number that `text` is: a whole one if it has neither a point nor an exponent; None
    if it is none.

    The digits are 0 to 9. `int` and `float` would read `1_000` and the digits of every script, too.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    return float(text) if any(match.groups()) else int(text)


def double_of(number: float) -> float:
    """Return the number as a double: infinity for a whole one that is too large for it."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def whole_in(text: str) -> int | None:
    """Return the whole number that `text` is; None if it is none, or none that 64 bits hold.

    Each number has one spelling. `int` would read `+1`, `01`, `1_000`, blanks and the digits of
    every script, too.
    """
    return bigint(int(text)) if _WHOLE.fullmatch(text) else None


def id_in(text: str) -> int | None:
    """Return the number from 0 that `text` is, as `whole_in` does."""
    number = whole_in(text)
    return number if number is not None and number >= 0 else None


def index_in(text: str) -> int | None:
    """Return the index that `text` is, as `whole_in` does; None if it is none, or none that 32 bits
    hold."""
    number = id_in(text)
    return number if number is not None and number <= MAX_INDEX else None


def bigint(value: int | None) -> int | None:
    """Return the number; None if 64 bits cannot hold it."""
    return value if value is None or abs(value) <= MAX_BIGINT else None


def finite(value: float | None) -> float | None:
    """Return the nearest finite number, None for NaN, because sums of huge rewards may overflow."""
    if value is None or math.isfinite(value):
        return value
    return None if math.isnan(value) else math.copysign(sys.float_info.max, value)
