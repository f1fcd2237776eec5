"""A JSON Schema as a list of fields with their types and limits in words, for pages about tools and
tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from environments.errors import shorten
from environments.schemas.schema_references import References

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
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "above {}",
    "exclusiveMaximum": "below {}",
    "minLength": "{} characters or more",
    "maxLength": "{} characters at most",
    "pattern": "like {}",
    "minItems": "{} or more",
    "maxItems": "{} at most",
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
    return list(islice(_members(schema, schema, "", MAX_DEPTH), MAX_FIELDS))


def _members(
    schema: dict[str, Any], root: dict[str, Any], prefix: str, depth: int
) -> Iterator[SchemaField]:
    schema = resolved(schema, root)
    members, required_names = schema.get("properties"), schema.get("required")
    if not isinstance(members, dict) or not depth:
        return
    names = set(map(str, required_names)) if isinstance(required_names, list) else set()
    for name, member in members.items():
        if not isinstance(member, dict):
            continue
        inner, path = resolved(member, root), f"{prefix}{name}"
        description = inner.get("description")
        yield SchemaField(
            path,
            kind_of(inner, root),
            name in names,
            description if isinstance(description, str) else "",
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
    schema: dict[str, Any], root: dict[str, Any], depth: int, kinds: dict[tuple[int, int], str]
) -> str:
    """Return the type in words. `kinds`: by part and depth, as unions of references multiply the
    work at each level."""
    place = (id(schema), depth)
    if place not in kinds:
        kinds[place] = _new_kind(resolved(schema, root), root, depth, kinds)
    return kinds[place]


def _new_kind(
    schema: dict[str, Any], root: dict[str, Any], depth: int, kinds: dict[tuple[int, int], str]
) -> str:
    if "const" in schema:
        return _json(schema["const"])
    if isinstance(schema.get("enum"), list):
        words = " or ".join(_json(value) for value in schema["enum"][:12])
        return f"{words} …" if len(schema["enum"]) > 12 else words
    choices = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(choices, list) and depth:
        return _either(
            [
                _kind(choice, root, depth - 1, kinds)
                for choice in choices
                if isinstance(choice, dict)
            ]
        )
    kind = schema.get("type")
    if isinstance(kind, list):
        return _either([_NAMES.get(str(name), str(name)) for name in kind])
    if kind == "array" and isinstance(schema.get("items"), dict) and depth:
        return f"list of {_kind(schema['items'], root, depth - 1, kinds)}"
    return _NAMES.get(str(kind), str(kind)) if kind else "anything"


def _either(kinds: list[str]) -> str:
    """Join distinct kinds; "whole number" is left out if "number" is there."""
    if "number" in kinds:
        kinds = [kind for kind in kinds if kind != "whole number"]
    return " or ".join(dict.fromkeys(kinds))


def limits_of(schema: dict[str, Any]) -> str:
    texts = [
        words.format(limit_shown(key, schema[key]))
        for key, words in _LIMITS.items()
        if key in schema
    ]
    texts = ["not empty" if text == _NOT_EMPTY else text for text in texts]
    if "default" in schema:
        texts.append(f"default {_json(schema['default'])}")
    return ", ".join(texts)


def limit_shown(key: str, value: Any) -> str:
    """Return the value of a keyword as text; patterns without the double backslashes of JSON."""
    if key == "pattern" and isinstance(value, str):
        return f'"{shorten(value, MAX_SHOWN - 2)}"'
    return _json(value)


def _json(value: Any) -> str:
    return shorten(json.dumps(value, ensure_ascii=False), MAX_SHOWN)
