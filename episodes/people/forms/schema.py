"""A tool's JSON Schema as a form reads it: the kind of control of each part. Used by slots and
choices.

Schemas come from authors of environments. References can be broken or circular, `allOf` can double
at every level, an enumeration can have a million entries. Anything that is not supported or too
large gets the kind "raw": JSON in a text field.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from environments.display.schema_references import References
from episodes.people.forms.schema_merge import Contradiction, Schema, merged, types_of
from episodes.people.forms.values import is_plain

Kind = Literal[
    "text",
    "number",
    "boolean",
    "options",
    "constant",
    "scalar",
    "array",
    "object",
    "choice",
    "nothing",
    "raw",
]

MAX_SCHEMAS = 2_000
"""Schemas that are read for one part of a form; references and branches count each time."""
MAX_OPTIONS = 500
MAX_BRANCHES = 40
MAX_MEMBERS = 200
"""Maximum number of members of an object; required ones count twice."""
_ANNOTATIONS = (
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
)
_UNIONS = ("oneOf", "anyOf")
_CONDITIONS = {
    "required",
    "not",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "if",
    "then",
    "else",
}
_KEYWORDS_OF_TYPE = {
    "object": (
        "properties",
        "patternProperties",
        "additionalProperties",
        "required",
        "propertyNames",
    ),
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
    """The meaning of a part of a schema for the form."""

    kind: Kind
    schema: Schema
    """The part without references, `allOf`, `anyOf` and `oneOf`, with all of its annotations."""
    is_nullable: bool = False
    branches: list[Meaning] = field(default_factory=list)
    """The branches of a choice."""
    refs: frozenset[str] = frozenset()
    """References that were followed. A reference that occurs again inside the part is recursive."""


class SchemaDocument:
    """A whole schema, in which references are resolved."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._references = References(root)

    def meaning(self, schema: Any) -> Meaning:
        """Return the meaning of `schema`, a part of this document. Never raises."""
        try:
            return _Reading(self._references).meaning(schema)
        except (
            Contradiction,
            RecursionError,
            TypeError,
            ValueError,
        ):  # any keyword can have any value
            return Meaning("raw", _annotations(schema))


class _Reading:
    """Reads one part and counts the schemas that it reads."""

    def __init__(self, references: References) -> None:
        self.references = references
        self.read = 0
        self.refs: set[str] = set()

    def meaning(self, schema: Any) -> Meaning:
        return self._meaning_of(self.flat(schema, frozenset()))

    def _meaning_of(self, flat: Schema) -> Meaning:
        refs = frozenset(self.refs)
        branches = self._branches(flat)
        others = [branch for branch in branches if not _is_null(branch.schema)]
        is_nullable = len(others) < len(branches)
        own = _without_unions(flat)
        if not others:
            return Meaning("nothing" if branches else _kind(own), own, refs=refs)
        if len(others) == 1:
            one = merged(others[0].schema, own)
            return Meaning(_kind(one), one, is_nullable, refs=refs | others[0].refs)
        if _is_scalar([other.schema for other in others]):
            return Meaning(
                "scalar",
                {**_scalar([branch.schema for branch in others]), **_annotations(own)},
                is_nullable,
            )
        if len(others) > MAX_BRANCHES:
            return Meaning("raw", own)
        return Meaning("choice", own, is_nullable, others, refs)

    def flat(self, schema: Any, trail: frozenset[str]) -> Schema:
        """Return `schema` without `$ref` and `allOf`. Raises: Contradiction."""
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
        """Return the schema at a reference. Raises: Contradiction for a broken one and for one to
        another document."""
        try:
            return self.references.target(target)
        except LookupError as error:
            raise Contradiction from error

    def _branches(self, flat: Schema) -> list[Meaning]:
        """Return the alternatives for a value, each a complete schema; empty if there is only
        one."""
        base = {key: value for key, value in flat.items() if key not in _ANNOTATIONS}
        union = next((key for key in _UNIONS if key in flat), None)
        if union:
            branches = [
                (merged(_without_unions(base), branch), refs)
                for branch, refs in self._spliced(flat[union], frozenset())
            ]
        else:
            branches = (
                [(branch, frozenset[str]()) for branch in _by_type(base)]
                if _has_types(flat)
                else []
            )
        return [Meaning(_kind(branch), branch, refs=refs) for branch, refs in branches]

    def _spliced(self, branches: Any, trail: frozenset[str]) -> list[tuple[Schema, frozenset[str]]]:
        """Return the branches without references and inner unions, each with the references
        followed for it."""
        found: list[tuple[Schema, frozenset[str]]] = []
        for branch in [branch for branch in _list(branches) if branch is not False]:
            try:
                flat, refs = self._read_alone(branch, trail)
                found += [(one, refs | more) for one, more in self._unfolded(flat, trail | refs)]
            except Contradiction:  # only this branch is entered as JSON
                found.append((_annotations(branch), frozenset()))
        return found

    def _unfolded(self, flat: Schema, trail: frozenset[str]) -> list[tuple[Schema, frozenset[str]]]:
        union = next((key for key in _UNIONS if key in flat), None)
        if union:
            base = {
                key: value
                for key, value in _without_unions(flat).items()
                if key not in _ANNOTATIONS
            }
            return [(merged(base, one), refs) for one, refs in self._spliced(flat[union], trail)]
        return [(one, frozenset()) for one in (_by_type(flat) if _has_types(flat) else [flat])]

    def _read_alone(self, schema: Any, trail: frozenset[str]) -> tuple[Schema, frozenset[str]]:
        """Return a schema without references, and the references that were followed for it."""
        before, self.refs = self.refs, set()
        try:
            return self.flat(schema, trail), frozenset(self.refs)
        finally:
            self.refs = before

    def _count(self) -> None:
        self.read += 1
        if self.read > MAX_SCHEMAS:
            raise Contradiction


def _kind(schema: Schema) -> Kind:
    if "const" in schema:
        return "constant"
    if "enum" in schema:
        return "options" if 0 < len(_list(schema["enum"])) <= MAX_OPTIONS else "raw"
    kind = schema.get("type") or _guessed_type(schema)
    if isinstance(kind, list):
        kind = kind[0] if len(kind) == 1 else None
    if kind == "object" and not _is_plain_object(schema):
        return "raw"
    return _KINDS.get(kind, "raw") if isinstance(kind, str) else "raw"


def _guessed_type(schema: Schema) -> str | None:
    """Return the type that the keywords of a schema without `type` suggest."""
    return next(
        (
            kind
            for kind, words in _KEYWORDS_OF_TYPE.items()
            if any(word in schema for word in words)
        ),
        None,
    )


def _is_plain_object(schema: Schema) -> bool:
    members, required = schema.get("properties", {}), _list(schema.get("required"))
    if not isinstance(members, dict) or len(members) + len(required) > MAX_MEMBERS:
        return False
    return all(isinstance(name, str) and is_plain(name) for name in (*members, *required))


def _are_conditions(branches: Any) -> bool:
    """Return whether a union only restricts which members go together. The check of the value
    enforces that."""
    return isinstance(branches, list) and all(
        isinstance(branch, dict) and branch.keys() <= _CONDITIONS for branch in branches
    )


def _without_unions(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key not in _UNIONS}


def _has_types(schema: Schema) -> bool:
    return isinstance(schema.get("type"), list) and "enum" not in schema and "const" not in schema


def _by_type(schema: Schema) -> list[Schema]:
    return [{**schema, "type": name} for name in types_of(schema["type"])]


def _is_null(schema: Schema) -> bool:
    return (
        schema.get("type") == "null"
        or ("const" in schema and schema["const"] is None)
        or schema.get("enum") == [None]
    )


def _is_scalar(branches: list[Schema]) -> bool:
    """Return whether the branches are a text and numbers, without lists of allowed values."""
    kinds = [_kind(branch) for branch in branches]
    return set(kinds) == {"text", "number"} and kinds.count("text") == 1


def _scalar(branches: list[Schema]) -> Schema:
    types = [str(branch.get("type") or _guessed_type(branch)) for branch in branches]
    text = branches[[_kind(branch) for branch in branches].index("text")]
    return {
        **text,
        "type": [name for name in dict.fromkeys(types) if name in ("string", "number", "integer")],
    }


def _annotations(schema: Any) -> Schema:
    return (
        {key: schema[key] for key in _ANNOTATIONS if key in schema}
        if isinstance(schema, dict)
        else {}
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
