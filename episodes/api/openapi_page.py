"""The contents of the page at /api/: the addresses of an OpenAPI document, their parameters and
responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Pieces = list[tuple[str, bool]]
"""Pieces of a text, each with whether it was between backticks."""


@dataclass(frozen=True, slots=True)
class DocumentedName:
    """A parameter of an address, or a member of a response."""

    name: str
    kind: str
    text: Pieces
    depth: int = 0
    """Number of members that enclose this one; 0 for a parameter."""


@dataclass(frozen=True, slots=True)
class DocumentedPath:
    id: str
    method: str
    path: str
    text: Pieces
    parameters: Sequence[DocumentedName]
    body: Sequence[DocumentedName]
    """Members of the body of the request; empty if it has none."""
    media: str
    """Media types of the response, separated by commas."""
    members: Sequence[DocumentedName]
    """Members of the response; nested members follow the member that contains them."""

    @property
    def segments(self) -> list[str]:
        """Segments of the path; the page allows line breaks between them."""
        return self.path.strip("/").split("/")

    @property
    def can_be_opened(self) -> bool:
        """Return whether a link can lead to the path: it is read with GET, and has no
        placeholders."""
        return self.method == "get" and "{" not in self.path


@dataclass(frozen=True, slots=True)
class Subject:
    name: str
    addresses: Sequence[DocumentedPath]


def reference_of(document: Mapping[str, Any]) -> list[Subject]:
    """Return the addresses grouped by tag, in the order of the document."""
    subjects: dict[str, list[DocumentedPath]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            address = _address(method, path, operation, document["components"]["schemas"])
            subjects.setdefault(operation["tags"][0], []).append(address)
    return [Subject(name, addresses) for name, addresses in subjects.items()]


def _address(
    method: str, path: str, operation: Mapping[str, Any], shapes: Mapping[str, Any]
) -> DocumentedPath:
    contents = operation["responses"]["200"]["content"]
    parameters = [
        DocumentedName(
            parameter["name"], _kind(parameter["schema"]), _pieces(parameter.get("description", ""))
        )
        for parameter in operation.get("parameters", ())
        if parameter["in"] != "path"
    ]
    members = [
        parameter
        for content in contents.values()
        for parameter in _members(content["schema"], shapes)
    ]
    bodies = operation.get("requestBody", {}).get("content", {})
    body = [
        parameter
        for content in bodies.values()
        for parameter in _members(content["schema"], shapes)
    ]
    text = _pieces(operation.get("description", ""))
    media = ", ".join(contents)
    return DocumentedPath(
        operation["operationId"], method, path, text, parameters, body, media, members
    )


def _pieces(text: str) -> Pieces:
    return [(piece, place % 2 == 1) for place, piece in enumerate(text.split("`")) if piece]


def _members(
    schema: Mapping[str, Any], shapes: Mapping[str, Any], depth: int = 0
) -> Iterator[DocumentedName]:
    schema = _resolved(schema, shapes)
    if schema.get("type") == "array":
        schema = _resolved(schema["items"], shapes)
    for name, member in schema.get("properties", {}).items():
        whole = _resolved(member, shapes)
        text = member.get("description", "") or (
            "" if "properties" in whole else whole.get("description", "")
        )
        yield DocumentedName(name, _kind(whole), _pieces(text.split("\n\n")[0]), depth)
        if "properties" in whole or whole.get("type") == "array":
            yield from _members(whole, shapes, depth + 1)


def _resolved(schema: Mapping[str, Any], shapes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema that `schema` refers to, for alternatives that of the first reference; else
    `schema` itself."""
    choices = [*schema.get("allOf", ()), *schema.get("oneOf", ()), *schema.get("anyOf", ())]
    reference = schema.get("$ref") or next(
        (choice["$ref"] for choice in choices if "$ref" in choice), None
    )
    return shapes[reference.rpartition("/")[2]] if reference else schema


def _kind(schema: Mapping[str, Any]) -> str:
    """Return a short name of the type, such as `string or null` or `a | b`."""
    if "enum" in schema:
        return " | ".join(
            repr(value) if value == "" else str(value)
            for value in schema["enum"]
            if value is not None
        )
    kinds = schema.get("type", "object" if "properties" in schema else "any JSON")
    words = [kinds] if isinstance(kinds, str) else list(kinds)
    form = schema.get("format")
    names = {"date-time": "time", "uri": "address"}
    return " or ".join(names.get(form or "", word) if word == "string" else word for word in words)
