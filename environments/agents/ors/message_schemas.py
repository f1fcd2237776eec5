"""The JSON Schemas of the protocol's messages and of the events of its streams, as `openapi.py`
puts them together.

Divergences from pydantic's own schemas: fields that a message always has are required (pydantic
requires only those without a default); defaults, and titles that repeat a field's name, are left
out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from environments.agents.ors.operations import ENVIRONMENT_OPERATIONS, ROOT_OPERATIONS, ErrorBody

Schema = dict[str, Any]

COMPONENTS = "#/components/schemas/"
EVENT = "CallEvent"

EVENTS: dict[str, str] = {
    "task_id": "Id of the call, first and once.",
    "chunk": "A piece of the JSON text of the result.",
    "end": "The last or only piece of the JSON text of the result. Nothing follows.",
    "error": "Why there is no result, as plain text. Nothing follows.",
}


class WireSchema(GenerateJsonSchema):
    """JSON Schema without the titles that repeat a field's name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def message_schemas() -> tuple[dict[str, Schema], dict[str, Schema]]:
    """Return the schema of each operation's answer by its word, and all named types that they and
    requests use."""
    operations = {**ROOT_OPERATIONS, **ENVIRONMENT_OPERATIONS}
    received: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = [
        (word, "validation", TypeAdapter(one.request))
        for word, one in operations.items()
        if one.request
    ]
    sent: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = [
        (word, "serialization", TypeAdapter(one.answer)) for word, one in operations.items()
    ]
    refusal: tuple[str, JsonSchemaMode, TypeAdapter[Any]] = (
        "",
        "serialization",
        TypeAdapter(ErrorBody),
    )
    found, document = TypeAdapter.json_schemas(
        [*received, *sent, refusal],
        ref_template=f"{COMPONENTS}{{model}}",
        schema_generator=WireSchema,
    )
    types = document["$defs"]
    answers = {word: found[word, "serialization"] for word in operations}
    requested = _reached([found[word, "validation"] for word, *_ in received], types)
    for name, shape in types.items():
        _state_presence(shape, is_only_sent=name not in requested)
    return answers, {EVENT: _event(), **types}


def _reached(schemas: list[Schema], types: dict[str, Schema]) -> set[str]:
    """Return the names of the types that `schemas` contain, directly or through other types."""
    found = set[str]()
    todo = list(schemas)
    while todo:
        names = {text.removeprefix(COMPONENTS) for text in _references(todo.pop())} - found
        found |= names
        todo += [types[name] for name in names]
    return found


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        value = list(value.values())
    for member in value if isinstance(value, list) else ():
        yield from _references(member)


def _state_presence(shape: Schema, *, is_only_sent: bool) -> None:
    """Mark always-present fields as required: discriminators, and every field of responses."""
    shape.pop("discriminator", None)  # OpenAPI has them for texts only, and `ok` is a boolean
    properties = shape.get("properties", {})
    required = [
        name
        for name, one in properties.items()
        if is_only_sent or "const" in one or name in shape.get("required", ())
    ]
    if required:
        shape["required"] = required
    for one in properties.values():
        one.pop("default", None)  # openapi-typescript makes a field with a default required


def _event() -> Schema:
    kinds = [
        {
            "type": "object",
            "description": text,
            "properties": {"event": {"const": name}, "data": {"type": "string"}},
            "required": ["event", "data"],
        }
        for name, text in EVENTS.items()
    ]
    return {
        "title": EVENT,
        "description": "One event of the stream; lines that start with a colon are comments.",
        "oneOf": kinds,
    }


def defined_types() -> dict[str, Schema]:
    """Return all named types, as the `$defs` of a JSON Schema."""
    moved: dict[str, Schema] = _moved(message_schemas()[1])
    return moved


def _moved(value: Any) -> Any:
    """Return a copy whose references lead to `$defs`."""
    if isinstance(value, dict):
        return {key: _moved(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_moved(member) for member in value]
    return value.replace(COMPONENTS, "#/$defs/") if isinstance(value, str) else value
