"""Reference: an OpenAPI document as what a page shows of it: addresses, their parameters, the members of answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Pieces = list[tuple[str, bool]]
"""Of a text: each with whether it stood between backticks."""


@dataclass(frozen=True, slots=True)
class DocumentedName:
    """A parameter or a member."""

    name: str
    kind: str
    text: Pieces
    depth: int = 0
    """Of a member: within how many others it stands."""


@dataclass(frozen=True, slots=True)
class DocumentedPath:
    id: str
    path: str
    text: Pieces
    parameters: Sequence[DocumentedName]
    media: str
    """Types of its answer."""
    members: Sequence[DocumentedName]
    """Of the answer, those within others after them."""

    @property
    def segments(self) -> list[str]:
        """Of its path, which may be broken between them."""
        return self.path.strip("/").split("/")

    @property
    def has_gaps(self) -> bool:
        """Whether something has to be filled in before it can be opened."""
        return "{" in self.path


@dataclass(frozen=True, slots=True)
class Subject:
    name: str
    addresses: Sequence[DocumentedPath]


def reference_of(document: Mapping[str, Any]) -> list[Subject]:
    """By tag, in the order of the document."""
    found: dict[str, list[DocumentedPath]] = {}
    for path, methods in document["paths"].items():
        told = methods["get"]
        found.setdefault(told["tags"][0], []).append(_address(path, told, document["components"]["schemas"]))
    return [Subject(name, addresses) for name, addresses in found.items()]


def _address(path: str, told: Mapping[str, Any], shapes: Mapping[str, Any]) -> DocumentedPath:
    contents = told["responses"]["200"]["content"]
    parameters = [
        DocumentedName(one["name"], _kind(one["schema"]), _pieces(one.get("description", "")))
        for one in told.get("parameters", ())
        if one["in"] != "path"
    ]
    members = [one for content in contents.values() for one in _members(content["schema"], shapes)]
    text = _pieces(told.get("description", ""))
    return DocumentedPath(told["operationId"], path, text, parameters, ", ".join(contents), members)


def _pieces(text: str) -> Pieces:
    return [(piece, place % 2 == 1) for place, piece in enumerate(text.split("`")) if piece]


def _members(schema: Mapping[str, Any], shapes: Mapping[str, Any], depth: int = 0) -> Iterator[DocumentedName]:
    schema = _resolved(schema, shapes)
    if schema.get("type") == "array":
        schema = _resolved(schema["items"], shapes)
    for name, member in schema.get("properties", {}).items():
        whole = _resolved(member, shapes)
        text = member.get("description", "") or ("" if "properties" in whole else whole.get("description", ""))
        yield DocumentedName(name, _kind(whole), _pieces(text.split("\n\n")[0]), depth)
        if "properties" in whole or whole.get("type") == "array":
            yield from _members(whole, shapes, depth + 1)


def _resolved(schema: Mapping[str, Any], shapes: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the schema refers to; of alternatives the first that refers to something."""
    choices = [*schema.get("allOf", ()), *schema.get("oneOf", ()), *schema.get("anyOf", ())]
    reference = schema.get("$ref") or next((one["$ref"] for one in choices if "$ref" in one), None)
    return shapes[reference.rpartition("/")[2]] if reference else schema


def _kind(schema: Mapping[str, Any]) -> str:
    """In a word or two: string or null, one of a, b."""
    if "enum" in schema:
        return " | ".join(repr(value) if value == "" else str(value) for value in schema["enum"] if value is not None)
    kinds = schema.get("type", "object" if "properties" in schema else "any JSON")
    words = [kinds] if isinstance(kinds, str) else list(kinds)
    form = schema.get("format")
    names = {"date-time": "time", "uri": "address"}
    return " or ".join(names.get(form or "", word) if word == "string" else word for word in words)
