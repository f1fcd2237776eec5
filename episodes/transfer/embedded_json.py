"""Embeds exact JSON texts in a line of JSON, and extracts them unchanged.

{"input": {"x": 1e20}}             the text is embedded as the value that it is, so readers see plain JSON
{"input_text": "{\\"x\\": NaN}"}     a string: the text is not one line of JSON, or would not be read back unchanged
{}                                 there is no text
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any, NoReturn

from environments.wire import MAX_DEPTH, check_depth, distinct_members
from episodes.uploads.json_text import JsonText

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


def exact_member(key: str, text: str) -> str:
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
_PLAIN: dict[str, Any] = {}
"""The shape of a value without exact texts."""


def sliced(text: str, shape: Shape) -> Any:
    """Parse `text` as JSON, with the exact text in place of every value that `shape` names.

    Raises: ValueError, RecursionError.
    """
    json_text = JsonText(text, _plain_decoder.raw_decode)
    value = _value(json_text, shape)
    json_text.check_end()
    return value


def _value(text: JsonText, shape: Shape) -> Any:
    """Return the next value."""
    mark = text.next_mark()
    if mark == "{" and shape and isinstance(shape, dict):
        return {name: _value(text, shape.get(name, _PLAIN)) for name in text.members()}
    if mark == "[" and isinstance(shape, list):
        return [_value(text, shape[0]) for _ in text.items()]
    return text.exact(_decoder.raw_decode) if shape is None else text.value()
