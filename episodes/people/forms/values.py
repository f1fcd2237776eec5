"""JSON values as the texts that people type, and back, without loss."""

from __future__ import annotations

import json
import math
from enum import Enum
from typing import Any, Final

from environments.database.storable import is_storable, number_in
from environments.wire import check_depth, json_problem


class Nothing(Enum):
    """The value of a member that is left out, as opposed to null."""

    NOTHING = "nothing"


NOTHING: Final = Nothing.NOTHING


def is_plain(text: str) -> bool:
    """Return whether a text field of a page returns `text` unchanged."""
    return "\r" not in text and is_storable(text)


def is_same(value: Any, other: Any) -> bool:
    """Return whether both are the same JSON. 1, 1.0 and true are three different values."""
    return json.dumps(value, sort_keys=True) == json.dumps(other, sort_keys=True)


def parsed_number(text: str) -> int | float:
    """Return the number in `text`, an int if it has neither point nor exponent.

    Raises: ValueError, with a sentence for the person who typed it.
    """
    number = number_in(text.strip())
    if number is None:
        raise ValueError(f"{preview(text)} is not a number. Enter digits, such as 42 or 0.75.")
    if isinstance(number, float) and not math.isfinite(number):
        raise ValueError(f"{preview(text)} is too large. The largest number is about 1.8e308.")
    return number


def json_text(value: Any) -> str:
    """Return `value` as indented JSON that a page can show; characters that a page would change are
    escaped."""
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
        raise ValueError(f"This is not JSON: {json_problem(error)}.") from None
    except RecursionError:
        raise ValueError("The JSON is nested too deeply.") from None
    return value


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON. Enter a number, null or a text in quotes.")


def preview(value: Any, limit: int = 60) -> str:
    """Return `value` as JSON for a sentence, shortened to `limit` characters."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else f"{text[: limit - 1]}\N{HORIZONTAL ELLIPSIS}"


def kind_name(value: Any) -> str:
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
