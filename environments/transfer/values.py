"""JSON values as files hold them: strict, and texts that a database keeps."""

from __future__ import annotations

import json
import re
from typing import Any

from environments.errors import shorten
from environments.transfer.rows import BadRow

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_SHOWN = 60


# NaN and infinities are read, and refused when the spec is written: so they refuse one row, not the rest of an array
def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these members, for a decoder. Raises: BadRow when a name stands twice."""
    members = dict(pairs)
    if len(members) < len(pairs):
        seen = set[str]()
        name = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise BadRow(f"has the key {shorten(ascii(name), _SHOWN)} twice in one object; keep one of them")
    return members


_decoder = json.JSONDecoder(object_pairs_hook=distinct)
_lenient = json.JSONDecoder()


def decoded_at(text: str, at: int) -> tuple[Any, int, BadRow | None]:
    """The value that begins there, its end, and why it is refused although it is whole. Raises as `raw_decode`."""
    try:
        return *_decoder.raw_decode(text, at), None
    except BadRow as error:
        return *_lenient.raw_decode(text, at), error


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


def is_storable(text: str) -> bool:
    """Without NUL and lone surrogates."""
    return not _UNSTORABLE.search(text)


_KINDS: dict[type, str] = {
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}
