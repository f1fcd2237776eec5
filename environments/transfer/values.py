"""JSON values as a task may hold them: strict, storable, not nested without end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from environments.errors import shorten
from environments.transfer.rows import MOST_ROW_BYTES, BadRow
from environments.wire import check_depth, object_json

TOO_LONG = f"is longer than {MOST_ROW_BYTES // 1024**2} MiB, the most that a task may take"
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_SHOWN = 60


# NaN and infinities are read, and refused when the spec is written: so they refuse one row, not the rest of an array
_decoder = json.JSONDecoder()
raw_decode = _decoder.raw_decode


def parsed(text: str) -> Any:
    """The value of a JSON text. Raises: BadRow."""
    try:
        return _decoder.decode(text)
    except json.JSONDecodeError as error:
        raise BadRow(f"is not JSON: {error.msg} at character {error.pos + 1}") from error
    except RecursionError as error:
        raise BadRow("is nested too deeply") from error
    except ValueError as error:  # a whole number of thousands of digits
        raise BadRow(f"is not JSON: {error}") from error


def as_object(value: Any) -> dict[str, Any]:
    """Raises: BadRow."""
    if not isinstance(value, dict):
        shown = "" if isinstance(value, list) or value is None else f" ({shorten(json.dumps(value), _SHOWN)})"
        raise BadRow(f"is {_KINDS[type(value)]}{shown}, not an object; a task is a JSON object")
    return value


def spec_text(spec: dict[str, Any]) -> str:
    """The spec as it is stored, compact ASCII in its own key order. Raises: BadRow."""
    try:
        check_depth(spec)
        text = object_json(spec)
    except ValueError as error:
        raise BadRow(_advice(str(error))) from error
    except (TypeError, RecursionError) as error:
        raise BadRow(f"has no JSON form: {error}") from error
    if len(text) > MOST_ROW_BYTES:
        raise BadRow(TOO_LONG)
    if "\\u" in text and (bad := next((part for part in _strings(spec) if not is_storable(part)), None)):
        what = "a NUL character" if "\0" in bad else "half a surrogate pair, which is no character"
        raise BadRow(f"holds {what}, in {shorten(ascii(bad), _SHOWN)}; remove it")
    return text


def is_storable(text: str) -> bool:
    """Without NUL and lone surrogates."""
    return not _UNSTORABLE.search(text)


def _advice(message: str) -> str:
    if message.startswith("Out of range float"):
        return "holds NaN, an infinity or a number beyond 1.8e308; write a finite number or null"
    return f"cannot be kept: {message}"


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


_KINDS: dict[type, str] = {
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}
