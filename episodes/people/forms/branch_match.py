"""Finding the branch of a union to which a value belongs.

The value is compared with each branch to a depth of _MAX_DEPTH. A complete check of recursive
unions would take time exponential in their depth.
"""

from __future__ import annotations

from typing import Any

from episodes.people.forms.schema import SchemaDocument
from episodes.people.forms.schema_merge import Schema
from episodes.people.forms.values import is_same

_MAX_DEPTH = 3
_TYPES: dict[str, tuple[type, ...]] = {
    **{
        "string": (str,),
        "boolean": (bool,),
        "array": (list,),
        "object": (dict,),
        "null": (type(None),),
    },
    **{"number": (int, float), "integer": (int,)},
}


def matches(document: SchemaDocument, schema: Any, value: Any, depth: int = _MAX_DEPTH) -> bool:
    """Return whether `value` has the type, the constants and the members of `schema`, to the given
    depth."""
    meaning = document.meaning(schema)
    if meaning.is_nullable and value is None:
        return True
    if meaning.kind in ("choice", "scalar"):
        return meaning.kind == "scalar" or any(
            matches(document, branch.schema, value, depth - 1) for branch in meaning.branches
        )
    expected = meaning.schema
    if "const" in expected:
        return is_same(expected["const"], value)
    if isinstance(expected.get("enum"), list):
        return any(is_same(one, value) for one in expected["enum"])
    if not _has_type(expected.get("type"), value):
        return False
    if isinstance(value, dict):
        return _matches_object(document, expected, value, depth)
    return not isinstance(value, list) or _matches_array(document, expected, value, depth)


def has_own_constant(document: SchemaDocument, schema: Any, value: Any) -> bool:
    """Return whether `value` has a constant member of this branch, such as `"kind": "circle"`."""
    members = _members(document.meaning(schema).schema)
    constants = {
        name: one["const"]
        for name, one in members.items()
        if isinstance(one, dict) and "const" in one
    }
    return isinstance(value, dict) and any(
        name in value and is_same(value[name], constants[name]) for name in constants
    )


def _has_type(kind: Any, value: Any) -> bool:
    names = kind if isinstance(kind, list) else [kind]
    if isinstance(value, bool):
        return kind is None or "boolean" in names
    return kind is None or any(isinstance(value, _TYPES.get(str(name), object)) for name in names)


def _matches_object(
    document: SchemaDocument, expected: Schema, value: dict[str, Any], depth: int
) -> bool:
    members, required = _members(expected), expected.get("required")
    if isinstance(required, list) and any(
        isinstance(name, str) and name not in value for name in required
    ):
        return False
    is_closed = expected.get("additionalProperties") is False and not expected.get(
        "patternProperties"
    )
    if is_closed and value.keys() - members.keys():
        return False
    inner = [name for name in members if name in value]
    return depth <= 0 or all(
        matches(document, members[name], value[name], depth - 1) for name in inner
    )


def _members(expected: Schema) -> dict[str, Any]:
    members = expected.get("properties")
    return members if isinstance(members, dict) else {}


def _matches_array(
    document: SchemaDocument, expected: Schema, value: list[Any], depth: int
) -> bool:
    items = expected.get("items")
    return (
        depth <= 0
        or not value
        or not isinstance(items, dict)
        or matches(document, items, value[0], depth - 1)
    )
