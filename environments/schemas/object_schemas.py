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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from environments.errors import shorten
from environments.schemas.portable_schemas import names_in, portable
from environments.schemas.schema_references import References, parts_of

Schema = dict[str, Any]

NO_PARAMETERS: Schema = {"type": "object", "properties": {}}
MAX_CHARACTERS = 400_000
"""Work of merging a root, in characters of JSON that are compared; a large union of a real tool
takes 20,000."""
PART_CHARACTERS = 200
"""Work of reading a part without members."""
MAX_LEVELS = 32
"""Levels of unions and references at the root."""
SHOWN_CHARACTERS = 100
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
    contain", and its parts that no value fits."""
    whole_schema, problems = _merged(schema)
    references = References(whole_schema)
    empty = [
        part["allOf"]
        for part in parts_of(whole_schema)
        if part is not whole_schema
        and _list(part.get("allOf"))
        and _is_empty([*_all_parts(part, references)])
    ]
    return [
        *problems,
        *[f"no value fits all of {shorten(json.dumps(each), SHOWN_CHARACTERS)}" for each in empty],
    ]


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


def _all_parts(part: Any, references: References) -> Iterator[Mapping[str, Any]]:
    """Yield up to MAX_LEVELS parts that a value has to fit all: what the part says itself, refers
    to, and has in `allOf`."""
    waiting = [part]
    for _ in range(MAX_LEVELS):
        if not waiting:
            return
        part = _mapping(waiting.pop())
        yield part
        waiting += _list(part.get("allOf"))
        if "$ref" in part:
            with suppress(LookupError):  # it is named elsewhere
                waiting.append(references.target(part["$ref"]))


def _is_empty(parts: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether types, values, or names of members contradict each other."""
    types = [set(names_in(part["type"])) for part in parts if "type" in part]
    types = [names | {"integer"} if "number" in names else names for names in types]
    values = [{json.dumps(each, sort_keys=True) for each in _values(part)} for part in parts]
    for choices in (types, [each for each in values if each]):
        if choices and not set.intersection(*choices):
            return True
    if not types or set.intersection(*types) != {"object"}:
        return False
    required_names = {name for part in parts for name in names_in(part.get("required"))}
    return any(
        _is_closed(part) and required_names - _mapping(part.get("properties")).keys()
        for part in parts
    )


def _merged(schema: Any) -> tuple[Schema, list[str]]:
    root, problems = portable(_mapping(schema))
    if has_object_root(root):
        return _valid(root), problems
    merge = _Merge(root)
    try:
        result = merge.part(root) or {}
        problems += dict.fromkeys(merge.problems)
    except _TooLarge as error:
        result = {keyword: value for keyword, value in root.items() if keyword not in _NOT_AT_ROOT}
        problems.append(str(error))
    return _valid({**NO_PARAMETERS, **result}), problems


def _valid(schema: Mapping[str, Any]) -> Schema:
    """Return the schema with an object's type, and a map for each property, as clients need."""
    properties = {}
    for name, form in _mapping(schema.get("properties")).items():
        if form is False:
            form = {"not": {}}
        properties[name] = form if isinstance(form, Mapping) else {}
    return {**schema, "type": "object", "properties": properties}


class _TooLarge(ValueError):
    """A root takes more work than the limits allow."""


class _Merge:
    """Merges the parts at the root of one schema."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.problems: list[str] = []
        self._references = References(root)
        self._budget = MAX_CHARACTERS
        self._open: list[int] = []
        """Parts that are being merged. A reference back to one adds no alternative."""

    def part(self, part: Any) -> Schema | None:
        """Return a part of the root without references and unions; None if it adds no object."""
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
        for union in ("anyOf", "oneOf"):
            if alternatives := _list(part.get(union)):
                branches = [self.part(each) for each in alternatives]
                parts.append(self._any_of([each for each in branches if each is not None]))
        is_root = len(self._open) == 1
        omissions = _NOT_AT_ROOT if is_root else _NOT_AT_ROOT | _OF_A_DOCUMENT
        parts.append({keyword: part[keyword] for keyword in part if keyword not in omissions})
        self._open.pop()
        if None in parts and not is_root:
            return None
        if None in parts:
            self.problems.append("no object fits a union or reference at its root")
        result = self._all_of([each for each in parts if each])
        if not is_root and "object" not in names_in(result.get("type", "object")):
            return None
        if result.get("unevaluatedProperties") is False and not result.keys() & {
            "if",
            "dependentSchemas",
        }:
            # all others are evaluated by now
            result["additionalProperties"] = result.pop("unevaluatedProperties")
        return result

    def _all_of(self, parts: Sequence[Schema]) -> Schema:
        """Return an object that fits all parts."""
        if len(parts) == 1:
            return dict(parts[0])
        result = {keyword: value for part in parts for keyword, value in part.items()}
        forms = self._forms(parts)
        required_names = list(
            dict.fromkeys(name for part in parts for name in names_in(part.get("required")))
        )
        closed_parts = [part for part in parts if _is_closed(part)]
        if closed_parts:
            result["additionalProperties"] = False
            names = set[str].intersection(
                *(set(_mapping(part.get("properties"))) for part in closed_parts)
            )
            for name in [*required_names, *forms]:
                if name not in names:
                    verb = "requires" if name in required_names else "has"
                    self.problems.append(
                        f"a part of its root {verb} {name!r}, which another part does not allow"
                    )
                    break
            forms = {name: form for name, form in forms.items() if name in names}
            required_names = [name for name in required_names if name in names]
        if "properties" in result:
            result["properties"] = {
                name: each[0] if len(each) == 1 else {"allOf": each} for name, each in forms.items()
            }
        if "required" in result:
            result["required"] = required_names
        return result

    def _any_of(self, branches: Sequence[Schema]) -> Schema | None:
        """Return an object with the properties of all branches; None without branches."""
        if len(branches) < 2:
            return branches[0] if branches else None
        forms = self._forms(branches)
        result: Schema = {"properties": {name: self._choice(each) for name, each in forms.items()}}
        always = set[str].intersection(*(set(names_in(each.get("required"))) for each in branches))
        if required_names := [name for name in forms if name in always]:
            result["required"] = required_names
        if all(map(_is_closed, branches)):
            result["additionalProperties"] = False
        return result

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
        # the discriminator: converters of providers keep a whole enum, but only one branch of a
        # union
        values = {self._text(value): value for form in forms for value in _values(form)}
        choice: Schema = {"enum": list(values.values())}
        types = {self._text(form.get("type")): form.get("type") for form in forms}
        if len(types) == 1 and (kind := types.popitem()[1]):
            choice["type"] = kind
        return choice

    def _text(self, value: Any) -> str:
        """Return the JSON of a value, by which values are compared: 1 and true are equal in
        Python."""
        text = json.dumps(value, sort_keys=True)
        self._spend(len(text))
        return text

    def _spend(self, characters: int) -> None:
        self._budget -= characters
        if self._budget < 0:
            raise _TooLarge(f"merging its root takes more than {MAX_CHARACTERS} characters")


def _is_closed(part: Mapping[str, Any]) -> bool:
    return part.get("additionalProperties") is False and not part.get("patternProperties")


def _values(form: Mapping[str, Any]) -> list[Any]:
    return _list(form.get("enum")) or ([form["const"]] if "const" in form else [])


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
