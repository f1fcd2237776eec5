"""The root of an input schema in the form that the APIs of model providers accept. For MCP, the
player and exports.

Documented rules (OpenAI's function calling, Anthropic's tool use, Google's function calling, MCP's
`inputSchema`): the root of a schema is of type object; OpenAI and Anthropic allow no anyOf, oneOf
or allOf there, OpenAI neither enum nor not. MCP's clients refuse a whole list of tools if
`properties` of one is no map of objects, or `required` no list.

Schemas come from authors and from remote servers: each keyword can have any value, and references
can double the work at every level, so the work is bounded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from environments.display.portable_schemas import names_in, portable
from environments.display.schema_references import References

Schema = dict[str, Any]

NO_PARAMETERS: Schema = {"type": "object", "properties": {}}
MAX_CHARACTERS = 400_000
"""Work of merging a root, in characters of JSON that are compared; a large union of a real tool
takes 20,000."""
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
    """Return whether the root of a schema says, or leaves to its branches, that the input is an
    object."""
    return schema.get("type") == "object" or (
        "type" not in schema and bool(schema.keys() & _NOT_AT_ROOT)
    )


def object_schema(schema: Any) -> Schema:
    """Return the schema with an object at its root, which says type, properties and required there.

    A reference is resolved. Of alternatives, the object has the properties of all, and requires
    those that all require; the tool itself refuses what fits none of them. If they cannot be
    merged, it has what stands next to them.
    """
    return _merged(schema)[0]


def schema_problems(schema: Any) -> list[str]:
    """Return what `object_schema` cannot say, such as "it refers to '#/x', which it does not
    contain"."""
    return _merged(schema)[1]


def unsent_schemas(schemas: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each tool, by its name, whose schema is not sent to models as it is."""
    sentences = []
    for name, schema in schemas.items():
        if not isinstance(schema, Mapping):
            continue
        label, reasons = f"Input schema of tool {name!r}", "; ".join(schema_problems(schema))
        if not has_object_root(schema):
            because = f"; {reasons}" if reasons else ""
            sentences.append(
                f"{label} is a union or a reference at its root{because}; write type, properties "
                "and required there."
            )
        elif reasons:
            sentences.append(f"{label} cannot be sent to models as it is: {reasons}.")
    return sentences


def _merged(schema: Any) -> tuple[Schema, list[str]]:
    root, problems = portable(_mapping(schema))
    if has_object_root(root):
        return _valid(root), problems
    merge = _Merge(root)
    try:
        merged = merge.part(root) or {}
        problems += dict.fromkeys(merge.problems)
    except _TooLarge as error:
        merged = {keyword: value for keyword, value in root.items() if keyword not in _NOT_AT_ROOT}
        problems.append(str(error))
    return _valid({**NO_PARAMETERS, **merged}), problems


def _valid(schema: Mapping[str, Any]) -> Schema:
    """Return a schema whose type and properties are what clients read there."""
    properties = {
        name: form if isinstance(form, Mapping) else {"not": {}} if form is False else {}
        for name, form in _mapping(schema.get("properties")).items()
    }
    return {**schema, "type": "object", "properties": properties}


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
        """Return a part of the root without references and unions; None if no object fits it that
        fits no other."""
        self._spend(PART_CHARACTERS)
        if not isinstance(part, Mapping):
            return None if part is False else {}
        if id(part) in self._open:
            return None
        if len(self._open) == MAX_LEVELS:
            raise _TooLarge(f"its root has more than {MAX_LEVELS} levels of unions and references")
        self._open.append(id(part))
        parts = [self.part(self._references.target(part["$ref"]))] if "$ref" in part else []
        parts += [self.part(each) for each in _list(part.get("allOf"))]
        parts += [
            self._alternatives(part[union])
            for union in ("anyOf", "oneOf")
            if _list(part.get(union))
        ]
        is_root = len(self._open) == 1
        hidden = _NOT_AT_ROOT if is_root else _NOT_AT_ROOT | _OF_A_DOCUMENT
        parts.append({keyword: value for keyword, value in part.items() if keyword not in hidden})
        self._open.pop()
        if None in parts and not is_root:
            return None
        if None in parts:
            self.problems.append("no object fits a union or reference at its root")
        merged = self._all_of([each for each in parts if each])
        if not is_root and "object" not in names_in(merged.get("type", "object")):
            return None
        if merged.get("unevaluatedProperties") is False and not merged.keys() & {
            "if",
            "dependentSchemas",
        }:
            # all others are evaluated by now
            merged["additionalProperties"] = merged.pop("unevaluatedProperties")
        return merged

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
            dict.fromkeys(name for part in parts for name in names_in(part.get("required"))),
        )
        if closed := [
            _mapping(part.get("properties")).keys() for part in parts if _is_closed(part)
        ]:
            merged["additionalProperties"] = False
            allowed = set[str].intersection(*map(set, closed))
            if refused := [name for name in [*required, *forms] if name not in allowed]:
                verb = "requires" if refused[0] in required else "has"
                self.problems.append(
                    f"a part of its root {verb} {refused[0]!r}, which another part does not allow"
                )
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
        shared = set[str].intersection(
            *({*names_in(branch.get("required"))} for branch in branches)
        )
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
        # what tells the alternatives apart: converters of providers keep an enum whole, and one
        # branch of a union
        values = {self._text(value): value for form in forms for value in _values(form)}
        types = {self._text(form.get("type")): form.get("type") for form in forms}
        kind = types.popitem()[1] if len(types) == 1 else None
        return {"enum": list(values.values())} | ({"type": kind} if kind else {})

    def _text(self, value: Any) -> str:
        """Return the JSON of a value, by which values are compared: 1 and true are equal in
        Python."""
        text = json.dumps(value, sort_keys=True)
        self._spend(len(text))
        return text

    def _spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise _TooLarge(f"merging its root takes more than {MAX_CHARACTERS} characters")


def _is_closed(part: Schema) -> bool:
    return part.get("additionalProperties") is False and not part.get("patternProperties")


def _values(form: Mapping[str, Any]) -> list[Any]:
    return _list(form.get("enum")) or ([form["const"]] if "const" in form else [])


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
