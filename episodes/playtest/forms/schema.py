"""A tool's JSON Schema as a form reads it: which kind of control each part of it asks for. Driven by `slot.py`.

Schemas are others' texts. References may lead nowhere or in circles, `allOf` may double at every level, an enumeration
may have a million entries: whatever is not understood, or too much, has the kind "raw": JSON in a text field.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from episodes.playtest.forms.schema_merge import Contradiction, Schema, merged, types_of
from episodes.playtest.forms.values import is_plain

Kind = Literal[
    "text", "number", "boolean", "options", "constant", "scalar", "array", "object", "choice", "nothing", "raw"
]

MAX_READ = 2_000
"""Schemas that one part of a form may be made of, references and branches counted each time."""
MAX_OPTIONS = 500
MAX_BRANCHES = 40
MAX_MEMBERS = 200
"""Of an object, those that are required counted twice."""
_ANNOTATIONS = ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment")
_UNIONS = ("oneOf", "anyOf")
_CONDITIONS = {"required", "not", "minProperties", "maxProperties", "dependentRequired", "if", "then", "else"}
_TELLTALES = {
    "object": ("properties", "patternProperties", "additionalProperties", "required", "propertyNames"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "string": ("minLength", "maxLength", "pattern", "format", "contentMediaType"),
}
_KINDS: dict[str, Kind] = {
    **{"string": "text", "number": "number", "integer": "number", "boolean": "boolean"},
    **{"array": "array", "object": "object", "null": "nothing"},
}


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a part of a schema asks for."""

    kind: Kind
    schema: Schema
    """Without references, `allOf`, `anyOf` and `oneOf`; all annotations of the part."""
    is_nullable: bool = False
    branches: list[Meaning] = field(default_factory=list)
    """Of a choice: what can be chosen."""
    refs: frozenset[str] = frozenset()
    """References that led here; one that is met again within is recursive."""


class SchemaDocument:
    """A whole schema, in which references lead."""

    def __init__(self, root: Any) -> None:
        self.root = root

    def meaning(self, schema: Any) -> Meaning:
        """What `schema`, a part of this document, asks for. Never raises."""
        try:
            return _Reading(self.root).meaning(schema)
        except (Contradiction, RecursionError, TypeError, ValueError):  # others wrote it: any keyword may be anything
            return Meaning("raw", _annotations(schema))


class _Reading:
    """One part being read; counts what it reads."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.read = 0
        self.refs: set[str] = set()

    def meaning(self, schema: Any) -> Meaning:
        return self._asked(self.flat(schema, frozenset()))

    def _asked(self, flat: Schema) -> Meaning:
        refs = frozenset(self.refs)
        ways = self._ways(flat)
        others = [way for way in ways if not _is_null(way.schema)]
        is_nullable = len(others) < len(ways)
        own = _without_unions(flat)
        if not others:
            return Meaning("nothing" if ways else _kind(own), own, refs=refs)
        if len(others) == 1:
            one = merged(others[0].schema, own)
            return Meaning(_kind(one), one, is_nullable, refs=refs | others[0].refs)
        if _is_scalar([way.schema for way in others]):
            return Meaning("scalar", {**_scalar([way.schema for way in others]), **_annotations(own)}, is_nullable)
        if len(others) > MAX_BRANCHES:
            return Meaning("raw", own)
        return Meaning("choice", own, is_nullable, others, refs)

    def flat(self, schema: Any, trail: frozenset[str]) -> Schema:
        """`schema` without `$ref` and `allOf`. Raises: Contradiction."""
        self._count()
        if schema is True:
            return {}
        if not isinstance(schema, dict):
            raise Contradiction
        flat = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
        for key in _UNIONS:
            if key in flat and _are_conditions(flat[key]):
                del flat[key]
        if "$dynamicRef" in schema or "$recursiveRef" in schema:
            raise Contradiction
        for part in _list(schema.get("allOf")):
            flat = merged(self.flat(part, trail), flat)
        if "$ref" in schema:
            target = schema["$ref"]
            if target in trail:
                raise Contradiction
            self.refs.add(target)
            flat = merged(self.flat(self._found(target), trail | {target}), flat)
        return flat

    def _found(self, target: Any) -> Any:
        """What a reference means. Raises: Contradiction for one that leads nowhere, or out of the document."""
        if not isinstance(target, str) or not (target == "#" or target.startswith("#/")):
            raise Contradiction
        found = self.root
        for part in target.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and name in found:
                found = found[name]
            elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            else:
                raise Contradiction
        return found

    def _ways(self, flat: Schema) -> list[Meaning]:
        """The ways in which a value may be, each whole in itself; empty: there is but one."""
        base = {key: value for key, value in flat.items() if key not in _ANNOTATIONS}
        union = next((key for key in _UNIONS if key in flat), None)
        if union:
            ways = [(merged(_without_unions(base), way), refs) for way, refs in self._spliced(flat[union], frozenset())]
        else:
            ways = [(way, frozenset[str]()) for way in _by_type(base)] if _has_types(flat) else []
        return [Meaning(_kind(way), way, refs=refs) for way, refs in ways]

    def _spliced(self, ways: Any, trail: frozenset[str]) -> list[tuple[Schema, frozenset[str]]]:
        """Ways without references, those of inner unions in their place, each with the references that led to it."""
        found: list[tuple[Schema, frozenset[str]]] = []
        for way in [way for way in _list(ways) if way is not False]:
            try:
                flat, refs = self._read_alone(way, trail)
                found += [(one, refs | more) for one, more in self._unfolded(flat, trail | refs)]
            except Contradiction:  # this way is JSON, the others are as good as they were
                found.append((_annotations(way), frozenset()))
        return found

    def _unfolded(self, flat: Schema, trail: frozenset[str]) -> list[tuple[Schema, frozenset[str]]]:
        union = next((key for key in _UNIONS if key in flat), None)
        if union:
            base = {key: value for key, value in _without_unions(flat).items() if key not in _ANNOTATIONS}
            return [(merged(base, one), refs) for one, refs in self._spliced(flat[union], trail)]
        return [(one, frozenset()) for one in (_by_type(flat) if _has_types(flat) else [flat])]

    def _read_alone(self, schema: Any, trail: frozenset[str]) -> tuple[Schema, frozenset[str]]:
        """A schema without references, and those that were followed for it."""
        before, self.refs = self.refs, set()
        try:
            return self.flat(schema, trail), frozenset(self.refs)
        finally:
            self.refs = before

    def _count(self) -> None:
        self.read += 1
        if self.read > MAX_READ:
            raise Contradiction


def _kind(schema: Schema) -> Kind:
    if "const" in schema:
        return "constant"
    if "enum" in schema:
        return "options" if 0 < len(_list(schema["enum"])) <= MAX_OPTIONS else "raw"
    kind = schema.get("type") or _guessed(schema)
    if isinstance(kind, list):
        kind = kind[0] if len(kind) == 1 else None
    if kind == "object" and not _is_plain_object(schema):
        return "raw"
    return _KINDS.get(kind, "raw") if isinstance(kind, str) else "raw"


def _guessed(schema: Schema) -> str | None:
    """The type that a schema without one seems to be about."""
    return next((kind for kind, words in _TELLTALES.items() if any(word in schema for word in words)), None)


def _is_plain_object(schema: Schema) -> bool:
    members, required = schema.get("properties", {}), _list(schema.get("required"))
    if not isinstance(members, dict) or len(members) + len(required) > MAX_MEMBERS:
        return False
    return all(isinstance(name, str) and is_plain(name) for name in (*members, *required))


def _are_conditions(ways: Any) -> bool:
    """Whether a union only tells which members go together, which the check of the value sees to."""
    return isinstance(ways, list) and all(isinstance(way, dict) and way.keys() <= _CONDITIONS for way in ways)


def _without_unions(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key not in _UNIONS}


def _has_types(schema: Schema) -> bool:
    return isinstance(schema.get("type"), list) and "enum" not in schema and "const" not in schema


def _by_type(schema: Schema) -> list[Schema]:
    return [{**schema, "type": name} for name in types_of(schema["type"])]


def _is_null(schema: Schema) -> bool:
    return (
        schema.get("type") == "null" or ("const" in schema and schema["const"] is None) or schema.get("enum") == [None]
    )


def _is_scalar(branches: list[Schema]) -> bool:
    """Whether it is a text or a number, each without a list of what is allowed."""
    kinds = [_kind(branch) for branch in branches]
    return set(kinds) == {"text", "number"} and kinds.count("text") == 1


def _scalar(branches: list[Schema]) -> Schema:
    types = [str(branch.get("type") or _guessed(branch)) for branch in branches]
    text = branches[[_kind(branch) for branch in branches].index("text")]
    return {**text, "type": [name for name in dict.fromkeys(types) if name in ("string", "number", "integer")]}


def _annotations(schema: Any) -> Schema:
    return {key: schema[key] for key in _ANNOTATIONS if key in schema} if isinstance(schema, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
