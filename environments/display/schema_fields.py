"""A JSON Schema as a list of fields with their types and limits in words; pages show tools and
tasks with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from environments.display.schema_references import References
from environments.errors import shorten

MAX_FIELDS = 60
MAX_DEPTH = 3
MAX_SHOWN = 60
"""Maximum number of characters of one value that are shown."""
_NAMES = {
    "object": "object",
    "array": "list",
    "string": "text",
    "integer": "whole number",
    "number": "number",
}
_LIMITS = {
    **{"minimum": "at least {}", "maximum": "at most {}"},
    **{"exclusiveMinimum": "above {}", "exclusiveMaximum": "below {}"},
    **{
        "minLength": "{} characters or more",
        "maxLength": "{} characters at most",
        "pattern": "like {}",
    },
    **{"minItems": "{} or more", "maxItems": "{} at most"},
}
_NOT_EMPTY = _LIMITS["minLength"].format(1)


@dataclass(frozen=True, slots=True)
class SchemaField:
    path: str
    """Path of the field in a value, such as `tests[].input`."""
    kind: str
    """The type in words, such as "whole number or null"."""
    is_required: bool
    description: str
    limits: str
    """The other restrictions and the default; may be empty."""


def fields_of(schema: Any) -> list[SchemaField]:
    """Return the named members of an object schema, each followed by those of the object in it."""
    if not isinstance(schema, dict):
        return []
    found: list[SchemaField] = []
    for field in _members(schema, schema, "", MAX_DEPTH):
        found.append(field)
        if len(found) == MAX_FIELDS:
            break
    return found


def _members(
    schema: dict[str, Any], root: dict[str, Any], prefix: str, depth: int
) -> Iterator[SchemaField]:
    schema = resolved(schema, root)
    members, required = schema.get("properties"), schema.get("required")
    if not isinstance(members, dict) or not depth:
        return
    needed = set(map(str, required)) if isinstance(required, list) else set()
    for name, member in members.items():
        if not isinstance(member, dict):
            continue
        inner, path = resolved(member, root), f"{prefix}{name}"
        yield SchemaField(
            path,
            kind_of(inner, root),
            name in needed,
            _text(inner.get("description")),
            limits_of(inner),
        )
        items = inner.get("items")
        if isinstance(items, dict):
            yield from _members(items, root, f"{path}[].", depth - 1)
        yield from _members(inner, root, f"{path}.", depth - 1)


def resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Return `schema` with the target of its reference merged in; its own keywords have
    precedence."""
    for _ in range(8):  # references may form a cycle
        if "$ref" not in schema:
            return schema
        try:
            target = References(root).target(schema["$ref"])
        except LookupError:
            return schema
        if not isinstance(target, dict):
            return schema
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def kind_of(schema: dict[str, Any], root: dict[str, Any]) -> str:
    """Return the type in words, such as "whole number or null". `root` is the document that
    references point into."""
    return _kind(schema, root, 3, {})


def _kind(
    schema: dict[str, Any], root: dict[str, Any], depth: int, known: dict[tuple[int, int], str]
) -> str:
    """Return the type in words. `known`: by part and depth, as unions of references multiply the
    work at each level."""
    place = (id(schema), depth)
    if place not in known:
        known[place] = _new_kind(resolved(schema, root), root, depth, known)
    return known[place]


def _new_kind(
    schema: dict[str, Any], root: dict[str, Any], depth: int, known: dict[tuple[int, int], str]
) -> str:
    if "const" in schema:
        return _json(schema["const"])
    if isinstance(schema.get("enum"), list):
        return " or ".join(_json(value) for value in schema["enum"][:12]) + (
            " …" if len(schema["enum"]) > 12 else ""
        )
    choices = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(choices, list) and depth:
        return _either(
            [
                _kind(choice, root, depth - 1, known)
                for choice in choices
                if isinstance(choice, dict)
            ]
        )
    kind = schema.get("type")
    if isinstance(kind, list):
        return _either([_NAMES.get(str(one), str(one)) for one in kind])
    if kind == "array" and isinstance(schema.get("items"), dict) and depth:
        return f"list of {_kind(schema['items'], root, depth - 1, known)}"
    return _NAMES.get(str(kind), str(kind)) if kind else "anything"


def _either(kinds: list[str]) -> str:
    """Join distinct kinds; "whole number" is left out if "number" is there."""
    named = [
        kind for kind in dict.fromkeys(kinds) if kind != "whole number" or "number" not in kinds
    ]
    return " or ".join(named)


def limits_of(schema: dict[str, Any]) -> str:
    said = [
        words.format(limit_shown(key, schema[key]))
        for key, words in _LIMITS.items()
        if key in schema
    ]
    said = ["not empty" if words == _NOT_EMPTY else words for words in said]
    if "default" in schema:
        said.append(f"default {_json(schema['default'])}")
    return ", ".join(said)


def limit_shown(key: str, value: Any) -> str:
    """Return the value of a keyword as text; patterns without the double backslashes of JSON."""
    if key == "pattern" and isinstance(value, str):
        return f'"{shorten(value, MAX_SHOWN - 2)}"'
    return _json(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return shorten(text, MAX_SHOWN)
