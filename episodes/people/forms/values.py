"""Exact conversion between JSON values and the texts that people type, with errors that name line
and column.

Controls contain text. A text that a page's field would change (with a carriage return, NUL or half
of a surrogate pair) is not plain and is shown as JSON, which escapes it.
"""

from __future__ import annotations

import json
import math
import re
from enum import Enum
from typing import Any, Final

from environments.database.storable import is_storable
from environments.wire import check_depth

NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"[+-]?[0-9]+")


class Nothing(Enum):
    """The value of a member that is left out, as opposed to null."""

    NOTHING = "nothing"


NOTHING: Final = Nothing.NOTHING


def is_plain(text: str) -> bool:
    """Return whether a text field of a page returns `text` unchanged."""
    return "\r" not in text and is_storable(text)


def is_same(one: Any, other: Any) -> bool:
    """Return whether both are the same JSON. 1, 1.0 and true are three different values."""
    return _exact(one) == _exact(other)


def _exact(value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return repr(type(value))


def number_text(value: float) -> str:
    """Return the text that `parsed_number` converts to exactly the same number."""
    return repr(value)


def parsed_number(text: str) -> int | float:
    """Return the number in `text`, an int if it has neither point nor exponent.

    Raises: ValueError, with a sentence for the person who typed it.
    """
    text = text.strip()
    if not NUMBER.fullmatch(text):
        raise ValueError(
            f"{shown(text)} is not a number. Enter digits, such as 42 or 0.75."
            if text
            else "Enter a number."
        )
    try:
        value = int(text) if _WHOLE.fullmatch(text) else float(text)
    except ValueError:
        raise ValueError(f"The number has {len(text):,} digits, which is too many.") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{shown(text)} is too large. The largest number is about 1.8e308.")
    return value


def json_text(value: Any) -> str:
    """Return `value` as indented JSON that a page can show, with unescaped non-ASCII characters
    where possible."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if is_plain(text) else json.dumps(value, indent=2)


def parsed_json(text: str) -> Any:
    """Return the JSON value in `text`. Raises: ValueError, with a sentence that names line and
    column."""
    if not text.strip():
        raise ValueError('Enter JSON, such as 42, "text", [1, 2] or {"name": true}.')
    try:
        value = json.loads(
            text, parse_constant=_refuse, parse_float=parsed_number, parse_int=parsed_number
        )
        check_depth(value)
    except json.JSONDecodeError as error:
        found = f"{error.msg[:1].lower()}{error.msg[1:]}"
        raise ValueError(
            f"This is not JSON: line {error.lineno}, column {error.colno}: {found}."
        ) from None
    except RecursionError:
        raise ValueError("The JSON is nested too deeply.") from None
    return value


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON. Enter a number, null or a text in quotes.")


def shown(value: Any, limit: int = 60) -> str:
    """Return `value` as JSON for a sentence, shortened to `limit` characters."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = repr(type(value))
    return text if len(text) <= limit else f"{text[: limit - 1]}\N{HORIZONTAL ELLIPSIS}"


def kind_named(value: Any) -> str:
    """Return the type of a JSON value in words, such as "a list" or "a number"."""
    if value is None:
        return "null"
    names = {
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), type(value).__name__)
