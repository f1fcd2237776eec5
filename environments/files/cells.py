"""Converts the cells of a CSV file to JSON values and back, so that an exported task is imported
unchanged.

    an empty cell                                 the key is absent
    a column that the schema makes a string       the text as it is
    a column that the schema makes something else JSON: 3, true, ["a"], {"x": 1}
    any other column                              JSON if every cell of the column is JSON, otherwise texts

A text that would not be read back unchanged (an empty one, or one that is itself JSON) is written
as a JSON string in quotes, and so is a text that a spreadsheet would run as a formula. A cell that
is a JSON string in quotes therefore means the text inside the quotes, in every column.

The functions that decode JSON strictly are used by the other readers too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

from environments.database.storable import is_storable
from environments.errors import shorten
from environments.files.rows import BadRow
from environments.wire import RepeatedKey, distinct_members, json_problem

_SHOWN_CHARACTERS = 60


_KINDS: dict[type, str] = {
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}
FORMULA_STARTS = (*"=+-@\t\r\n", *"\uff1d\uff0b\uff0d\uff20")
"""Characters that start a formula, with the full-width forms that spreadsheets in East Asia accept
too."""
_STARTS = frozenset('"{[-0123456789tfn \t\r\n')


class Kind(Enum):
    """The type as which the cells of a column are read."""

    TEXT = "text"
    NULLABLE = "text or null"
    JSON = "JSON"
    OPEN = "depends on the cells"


# NaN and infinities are decoded here and refused when the spec is stored, so that they refuse one
# row and not the rest of an array.
_decoder = json.JSONDecoder(object_pairs_hook=distinct_members)
_lenient = json.JSONDecoder()


def decoded_at(text: str, at: int) -> tuple[Any, int, BadRow | None]:
    """Return the value that starts at `at`, its end, and the reason why it must be refused, if any.

    Raises: what `json.JSONDecoder.raw_decode` raises.
    """
    try:
        return *_decoder.raw_decode(text, at), None
    except RepeatedKey as error:
        return *_lenient.raw_decode(text, at), BadRow(str(error))


def parsed(text: str) -> Any:
    """Return the value of a JSON text. Raises: BadRow."""
    try:
        return _decoder.decode(text)
    except json.JSONDecodeError as error:
        raise BadRow(f"is not JSON: {error.msg} at character {error.pos + 1}") from error
    except RecursionError as error:
        raise BadRow("is nested too deeply") from error
    except RepeatedKey as error:
        raise BadRow(str(error)) from error
    except ValueError as error:  # an integer of thousands of digits
        raise BadRow(f"cannot be read: {json_problem(error)}") from error


def as_object(value: Any) -> dict[str, Any]:
    """Return `value` if it is an object. Raises: BadRow."""
    if not isinstance(value, dict):
        kind = (
            ""
            if isinstance(value, list) or value is None
            else f" ({shorten(json.dumps(value), _SHOWN_CHARACTERS)})"
        )
        raise BadRow(f"is {_KINDS[type(value)]}{kind}, not an object; a task is a JSON object")
    return value


def read(cell: str, kind: Kind, column: str) -> Any:
    """Return the value of a non-empty cell. Raises: BadRow."""
    if kind is Kind.JSON:
        try:
            return _json(cell, distinct_members)
        except RepeatedKey as error:
            raise BadRow(str(error)) from error
        except (ValueError, RecursionError) as error:
            raise BadRow(
                f"column {column!r} has {shorten(repr(cell), _SHOWN_CHARACTERS)}, which is not JSON"
            ) from error
    if kind is Kind.NULLABLE and cell == "null":
        return None
    return _json(cell) if cell[0] == '"' and is_json(cell) else cell


def write(value: Any, *, is_text: bool) -> str:
    """Return the cell for a value. `is_text`: all values of the column are texts."""
    if is_text and isinstance(value, str) and _is_plain(value):
        return value
    text = json.dumps(value, ensure_ascii=False)
    return text if is_storable(text) else json.dumps(value)


def _is_plain(text: str) -> bool:
    """Return whether a text can be a cell as it is."""
    return (
        bool(text)
        and is_storable(text)
        and not text.startswith(FORMULA_STARTS)
        and not is_json(text)
    )


def is_json(cell: str) -> bool:
    """Return whether a cell is a JSON text."""
    if cell[:1] not in _STARTS:  # decides most texts at a tenth of the cost
        return False
    try:
        _json(cell)
    except (ValueError, RecursionError):
        return False
    return True


def _json(cell: str, members: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    value = json.loads(cell, parse_constant=_refuse, object_pairs_hook=members)
    if isinstance(value, float) and math.isinf(value):
        raise ValueError("too large for a number")
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def kind_of(schema: Mapping[str, Any], column: str) -> Kind:
    """Return how a column is read according to the task schema."""
    types = _types(schema, schema.get("properties", {}).get(column))
    if not types:
        return Kind.OPEN
    if types <= {"string", "null"}:
        return Kind.TEXT if types == {"string"} else Kind.NULLABLE
    return Kind.OPEN if "string" in types else Kind.JSON


def _types(root: Mapping[str, Any], schema: Any, depth: int = 0) -> set[str]:
    """Return the JSON types that a subschema allows, or nothing if it does not say so in a simple
    way."""
    if not isinstance(schema, Mapping) or depth > 8:
        return set()
    if "$ref" in schema:
        return _types(root, _resolved(root, schema["$ref"]), depth + 1)
    if "type" in schema:
        return {schema["type"]} if isinstance(schema["type"], str) else set(schema["type"])
    if "const" in schema or "enum" in schema:
        return {_type(value) for value in schema.get("enum", [schema.get("const")])}
    choices = [
        _types(root, choice, depth + 1)
        for key in ("anyOf", "oneOf")
        for choice in schema.get(key, ())
    ]
    return set().union(*choices) if all(choices) else set()


def _resolved(root: Mapping[str, Any], reference: Any) -> Any:
    at: Any = root
    path: Iterable[str] = str(reference).removeprefix("#/").split("/")
    for key in path:
        at = at.get(key) if isinstance(at, Mapping) else None
    return at


def _type(value: Any) -> str:
    return "string" if isinstance(value, str) else "null" if value is None else "other"
