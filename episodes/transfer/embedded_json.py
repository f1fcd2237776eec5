"""Embeds exact JSON texts in a line of JSON, and extracts them unchanged.

{"input": {"x": 1e20}}             the text is embedded as the value that it is, so readers see plain JSON
{"input_text": "{\\"x\\": NaN}"}     a string: the text is not one line of JSON, or would not be read back unchanged
{}                                 there is no text
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NoReturn

from environments.wire import MAX_DEPTH, check_depth, distinct_members, repeated

SCHEMA = "episode/1"
"""Value of the key `orsweb` of a line with an episode."""
TEXT = "_text"
"""Suffix of a key whose value is the text as a string."""
ENVELOPE_LEVELS = 20
"""More levels than a line or a trajectory has around a value."""
MAX_LEVELS = MAX_DEPTH - ENVELOPE_LEVELS
"""Levels of an embedded value. Readers of JSON, pydantic's among them, refuse more than MAX_DEPTH
in the whole."""
_MAX_CACHED_CHARACTERS = 16 * 1024
_BLANKS = " \t\r\n"
_BLANK = frozenset(_BLANKS)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    if math.isinf(value := float(text)):
        raise ValueError(f"{text[:40]} is beyond 1.8e308, the largest number")
    return value


_decoder = json.JSONDecoder(parse_constant=_refuse)
_plain_decoder = json.JSONDecoder(
    parse_constant=_refuse, parse_float=_finite, object_pairs_hook=distinct_members
)
"""Of what becomes values, which have no infinities and no key twice; exact texts stay as they
are."""


def embedded(key: str, text: str) -> str:
    """Return the member `, "key": value` for a text, or nothing for an empty text."""
    if not text:
        return ""
    is_value = _is_embeddable(text) if len(text) < _MAX_CACHED_CHARACTERS else is_embeddable(text)
    return f', "{key}": {text}' if is_value else f', "{key}{TEXT}": {json.dumps(text)}'


def is_embeddable(text: str) -> bool:
    """Return whether a text is one line of JSON without surrounding blanks, nested no deeper than
    can be read again."""
    if "\n" in text or "\r" in text or text[:1] in _BLANKS or text[-1:] in _BLANKS:
        return False
    try:
        value, end = _decoder.raw_decode(text)
        if len(text) > MAX_LEVELS and text.count("[") + text.count("{") > MAX_LEVELS:
            check_depth(value, MAX_LEVELS)
    except (ValueError, RecursionError):
        return False
    return end == len(text)


_is_embeddable = lru_cache(256)(is_embeddable)
"""Tools, prompts and many outputs are the same in many episodes."""


Shape = dict[str, Any] | list[Any] | None
"""Which parts of a value are exact texts: None for a text, a dict for an object's keys, a list for
an array's items."""


def sliced(text: str, shape: Shape) -> Any:
    """Parse `text` as JSON, with the exact text in place of every value that `shape` names.

    Raises: ValueError, RecursionError.
    """
    value, at = _value(text, _blank(text, 0), shape)
    if at != len(text.rstrip(_BLANKS)):
        raise ValueError(f"Extra data at character {at + 1}")
    return value


def _value(text: str, at: int, shape: Shape) -> tuple[Any, int]:
    """Return the value that starts at `at`, and its end."""
    start = text[at : at + 1]
    if start == "{" and isinstance(shape, dict):
        return _object(text, at, shape)
    if start == "[" and isinstance(shape, list):
        return _array(text, at, shape[0])
    if shape is None:
        _, end = _decoder.raw_decode(text, at)
        return text[at:end], end
    return _plain_decoder.raw_decode(text, at)


def _object(text: str, at: int, shape: dict[str, Any]) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    at = _blank(text, at + 1)
    while text[at : at + 1] != "}":
        _expect(text, at, '"')
        key, at = scanstring(text, at + 1, True)
        if key in found:
            raise repeated(key)
        at = _blank(text, at)
        _expect(text, at, ":")
        found[key], at = _value(text, _blank(text, at + 1), shape.get(key, _PLAIN))
        at = _next(text, at, "}")
    return found, at + 1


def _array(text: str, at: int, shape: Shape) -> tuple[list[Any], int]:
    found: list[Any] = []
    at = _blank(text, at + 1)
    while text[at : at + 1] != "]":
        value, at = _value(text, at, shape)
        found.append(value)
        at = _next(text, at, "]")
    return found, at + 1


_PLAIN: dict[str, Any] = {}
"""The shape of a value without exact texts."""


def _next(text: str, at: int, closing: str) -> int:
    """Return the start of the next member, or the position of `closing`."""
    at = _blank(text, at)
    if text[at : at + 1] == closing:
        return at
    _expect(text, at, ",")
    at = _blank(text, at + 1)
    if text[at : at + 1] == closing:
        raise ValueError(f"Something is expected after the comma at character {at + 1}")
    return at


def _blank(text: str, at: int) -> int:
    """Return the position of the next character that is not a blank."""
    while text[at : at + 1] in _BLANK:
        at += 1
    return at


def _expect(text: str, at: int, mark: str) -> None:
    if text[at : at + 1] != mark:
        raise ValueError(f"Expecting {mark!r} at character {at + 1}")
