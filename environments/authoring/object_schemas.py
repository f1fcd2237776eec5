"""The root of an input schema in the form that the APIs of model providers accept. For MCP, the player and exports.

Documented rules (OpenAI's function calling, Anthropic's tool use, Google's function calling, MCP's `inputSchema`): the
root of a schema is of type object; OpenAI and Anthropic allow no anyOf, oneOf or allOf there, OpenAI neither enum nor
not. MCP's clients refuse a whole list of tools if `properties` of one is no map of objects, or `required` no list.

Schemas come from authors and from remote servers: each keyword can have any value, and references can double the work
at every level, so the work is bounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from environments.display.schema_references import References, parts_of, with_references

Schema = dict[str, Any]

NO_PARAMETERS: Schema = {"type": "object", "properties": {}}
MAX_CHARACTERS = 400_000
"""Work of merging a root, in characters of JSON that are compared; a large union of a real tool takes 20,000."""
PART_CHARACTERS = 200
"""Work of reading a part without members."""
MAX_LEVELS = 32
"""Levels of unions and references at the root."""
_UNIONS = ("anyOf", "oneOf", "allOf")
_NOT_AT_ROOT = frozenset((*_UNIONS, "$ref", "enum", "const", "not", "discriminator"))
_OF_A_DOCUMENT = frozenset({"$defs", "definitions", "$id", "$schema", "$anchor", "$dynamicAnchor"})


def has_object_root(schema: Mapping[str, Any]) -> bool:
    """Return whether all of these APIs accept the root of a schema."""
    return schema.get("type") == "object" and not schema.keys() & _NOT_AT_ROOT


def is_of_objects(schema: Mapping[str, Any]) -> bool:
    """Return whether the root of a schema says, or leaves to its branches, that the input is an object."""
    return schema.get("type") == "object" or ("type" not in schema and bool(schema.keys() & _NOT_AT_ROOT))


def object_schema(schema: Any) -> Schema:
    """Return the schema with an object at its root, which says type, properties and required there.

    A reference is resolved. Of alternatives, the object has the properties of all, and requires those that all require;
    the tool itself refuses what fits none of them. If they cannot be merged, it has what stands next to them.
    """
    return _merged(schema)[0]


def merge_problems(schema: Any) -> list[str]:
    """Return what `object_schema` cannot say at the root, such as "it refers to '#/x', which it does not contain"."""
    return _merged(schema)[1]


def _merged(schema: Any) -> tuple[Schema, list[str]]:
    root = _mapping(schema)
    if has_object_root(root):
        return _valid(root), []
    merge = _Merge(root)
    try:
        merged = merge.with_definitions(merge.part(root) or {})
        problems = list(dict.fromkeys(merge.problems))
    except _TooLarge as error:
        merged = {keyword: value for keyword, value in root.items() if keyword not in _NOT_AT_ROOT}
        problems = [str(error)]
    return _valid({**NO_PARAMETERS, **merged}), problems


def _valid(schema: Mapping[str, Any]) -> Schema:
    """Return a schema whose type, properties and required are what clients read there."""
    properties = {
        name: form if isinstance(form, Mapping) else {"not": {}} if form is False else {}
        for name, form in _mapping(schema.get("properties")).items()
    }
    valid = {**schema, "type": "object", "properties": properties}
    return {**valid, "required": _names(schema["required"])} if "required" in schema else valid


class _TooLarge(ValueError):
    """A root takes more work than the limits allow."""


class _Merge:
    """Merges the parts at the root of one schema."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.problems: list[str] = []
        self._references = References(root)
        self._left = MAX_CHARACTERS
        self._open: list[int] = []
        """Parts that are being merged. A reference back to one adds no alternative."""

    def part(self, part: Any) -> Schema | None:
        """Return a part of the root without references and unions; None if no object fits it that fits no other."""
        self._spend(PART_CHARACTERS)
        if not isinstance(part, Mapping):
            return None if part is False else {}
        if id(part) in self._open:
            return None
        if len(self._open) == MAX_LEVELS:
            raise _TooLarge(f"its root has more than {MAX_LEVELS} levels of unions and references")
        self._open.append(id(part))
        parts = [self._target(part["$ref"])] if "$ref" in part else []
        parts += [self.part(each) for each in _list(part.get("allOf"))]
        parts += [self._alternatives(part[union]) for union in ("anyOf", "oneOf") if _list(part.get(union))]
        is_root = len(self._open) == 1
        hidden = _NOT_AT_ROOT if is_root else _NOT_AT_ROOT | _OF_A_DOCUMENT
        parts.append({keyword: value for keyword, value in part.items() if keyword not in hidden})
        self._open.pop()
        if None in parts and not is_root:
            return None
        if None in parts:
            self.problems.append("no object fits a union or reference at its root")
        merged = self._all_of([each for each in parts if each])
        if not is_root and "object" not in _names(merged.get("type", "object")):
            return None
        if merged.get("unevaluatedProperties") is False and not merged.keys() & {"if", "dependentSchemas"}:
            merged["additionalProperties"] = merged.pop("unevaluatedProperties")  # all others are evaluated by now
        return merged

    def _target(self, reference: Any) -> Schema | None:
        try:
            return self.part(self._references.target(reference))
        except LookupError as error:
            self.problems.append(str(error.args[0]))
            return {}

    def _alternatives(self, union: list[Any]) -> Schema | None:
        branches = [branch for each in union if (branch := self.part(each)) is not None]
        return self._any_of(branches) if branches else None

    def _all_of(self, parts: Sequence[Schema]) -> Schema:
        """Return an object that fits all parts."""
        if len(parts) == 1:
            return dict(parts[0])
        merged = {keyword: value for part in parts for keyword, value in part.items()}
        forms, required = (
            self._forms(parts),
            dict.fromkeys(name for part in parts for name in _names(part.get("required"))),
        )
        if closed := [_mapping(part.get("properties")).keys() for part in parts if _is_closed(part)]:
            merged["additionalProperties"] = False
            allowed = set[str].intersection(*map(set, closed))
            forms = {name: form for name, form in forms.items() if name in allowed}
            required = {name: None for name in required if name in allowed}
        if "properties" in merged:
            merged["properties"] = {
                name: each[0] if len(each) == 1 else {"allOf": each} for name, each in forms.items()
            }
        if "required" in merged:
            merged["required"] = list(required)
        return merged

    def _any_of(self, branches: Sequence[Schema]) -> Schema:
        """Return an object with the properties of all branches."""
        if len(branches) == 1:
            return branches[0]
        forms = self._forms(branches)
        shared = set[str].intersection(*({*_names(branch.get("required"))} for branch in branches))
        merged: Schema = {"properties": {name: self._choice(each) for name, each in forms.items()}}
        if required := [name for name in forms if name in shared]:
            merged["required"] = required
        if all(map(_is_closed, branches)):
            merged["additionalProperties"] = False
        return merged

    def _forms(self, parts: Sequence[Schema]) -> dict[str, list[Any]]:
        """Return the distinct forms that the parts give to each property."""
        forms: dict[str, dict[str, Any]] = {}
        for part in parts:
            for name, form in _mapping(part.get("properties")).items():
                forms.setdefault(name, {}).setdefault(self._text(form), form)
        return {name: list(each.values()) for name, each in forms.items()}

    def _choice(self, forms: Sequence[Any]) -> Any:
        if len(forms) == 1:
            return forms[0]
        if not all(isinstance(form, Mapping) and _values(form) for form in forms):
            return {"anyOf": forms}
        # what tells the alternatives apart: converters of providers keep an enum whole, and one branch of a union
        values = {self._text(value): value for form in forms for value in _values(form)}
        types = {self._text(form.get("type")): form.get("type") for form in forms}
        kind = types.popitem()[1] if len(types) == 1 else None
        return {"enum": list(values.values())} | ({"type": kind} if kind else {})

    def with_definitions(self, merged: Schema) -> Schema:
        """Return the merged root with definitions of what its references point at, and what is elsewhere now."""
        definitions = dict(_mapping(merged.get("$defs")))
        names: dict[str, str] = {}
        present, waiting = References(merged), [merged]
        while waiting:
            for reference in _references(waiting.pop()):
                if reference in names or reference == "#":
                    continue
                target = _found(self._references, reference)
                if target is None or target is _found(present, reference):
                    continue
                self._text(target)
                name = re.sub(r"[^a-zA-Z0-9_-]+", "_", reference).strip("_")
                while name in definitions:
                    name += "_"
                names[reference], definitions[name] = f"#/$defs/{name}", target
                waiting.append(target)
        renamed: Schema = with_references({**merged, "$defs": definitions}, names) if names else merged
        return renamed

    def _text(self, value: Any) -> str:
        """Return the JSON of a value, by which values are compared: 1 and true are equal in Python."""
        text = json.dumps(value, sort_keys=True)
        self._spend(len(text))
        return text

    def _spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise _TooLarge(f"merging its root takes more than {MAX_CHARACTERS} characters")


def _references(schema: Any) -> Iterable[str]:
    return [part["$ref"] for part in parts_of(schema) if isinstance(part.get("$ref"), str)]


def _found(references: References, reference: str) -> Any:
    try:
        return references.target(reference)
    except LookupError:
        return None


def _is_closed(part: Schema) -> bool:
    return part.get("additionalProperties") is False and not part.get("patternProperties")


def _values(form: Mapping[str, Any]) -> list[Any]:
    return _list(form.get("enum")) or ([form["const"]] if "const" in form else [])


def _names(value: Any) -> list[str]:
    names = [value] if isinstance(value, str) else _list(value)
    return [name for name in names if isinstance(name, str)]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
