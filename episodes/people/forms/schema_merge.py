"""Merging two schemas for one value into one, for `allOf` and for keywords next to a `$ref`.

Only the keywords that shape a control have to be right. The check of the whole value uses the
original schema.
"""

from __future__ import annotations

from typing import Any

from episodes.people.forms.values import is_same

Schema = dict[str, Any]
TYPES = ("string", "number", "integer", "boolean", "null", "array", "object")
_MINIMUMS = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_MAXIMUMS = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")


class Contradiction(Exception):
    """The schemas cannot be merged: no value satisfies both, or it cannot be decided."""


def merged(inner: Schema, outer: Schema) -> Schema:
    """Return both schemas as one. Annotations such as a description are those of `outer`. Raises:
    Contradiction."""
    both = {**inner, **outer}
    for key in inner.keys() & outer.keys():
        both[key] = _both(key, inner[key], outer[key])
    if (
        "const" in both
        and isinstance(both.get("enum"), list)
        and not _has(both["enum"], both["const"])
    ):
        raise Contradiction
    return both


def _both(key: str, one: Any, other: Any) -> Any:
    if key == "type":
        return _type(one, other)
    if key in _MINIMUMS + _MAXIMUMS and _is_number(one) and _is_number(other):
        return max(one, other) if key in _MINIMUMS else min(one, other)
    if (
        key in ("properties", "patternProperties", "$defs")
        and isinstance(one, dict)
        and isinstance(other, dict)
    ):
        shared = {name: {"allOf": [one[name], other[name]]} for name in one if name in other}
        return {**one, **other, **shared}
    if key == "required" and isinstance(one, list) and isinstance(other, list):
        return [*one, *(name for name in other if name not in one)]
    if key == "enum" and isinstance(one, list) and isinstance(other, list):
        return _not_empty([value for value in one if _has(other, value)])
    if key in ("additionalProperties", "items") and one is not other:
        return _inner(one, other)
    if key in ("const", "prefixItems", "anyOf", "oneOf") and not is_same(one, other):
        raise Contradiction
    return other


def _type(one: Any, other: Any) -> Any:
    first, second = types_of(one), types_of(other)
    if "number" in second and "integer" in first:
        second = [*second, "integer"]
    if "number" in first and "integer" in second:
        first = [*first, "integer"]
    names = _not_empty([name for name in first if name in second])
    if "number" in names and "integer" in names:
        names.remove("integer")
    return names[0] if len(names) == 1 else names


def types_of(kind: Any) -> list[str]:
    """Return the names of types in a `type`. Raises: Contradiction if there is no valid name."""
    names = kind if isinstance(kind, list) else [kind]
    return _not_empty([name for name in dict.fromkeys(map(str, names)) if name in TYPES])


def _inner(one: Any, other: Any) -> Any:
    if one is False or other is False:
        return False
    if one in (True, {}) or other in (True, {}):
        return other if one in (True, {}) else one
    return {"allOf": [one, other]}


def _not_empty(values: list[Any]) -> list[Any]:
    if not values:
        raise Contradiction
    return values


def _has(values: list[Any], value: Any) -> bool:
    return any(is_same(value, one) for one in values)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
