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
EVENT_SCHEMA: Schema = {
    "title": EVENT,
    "description": "One event of the stream; lines that start with a colon are comments.",
    "oneOf": [
        {
            "type": "object",
            "description": text,
            "properties": {"event": {"const": name}, "data": {"type": "string"}},
            "required": ["event", "data"],
        }
        for name, text in EVENTS.items()
    ],
}


class WireSchema(GenerateJsonSchema):
    """JSON Schema without the titles that repeat a field's name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def message_schemas() -> tuple[dict[str, Schema], dict[str, Schema]]:
    """Return the schema of each operation's answer by its word, and all named types that they and
    requests use."""
    operations = {**ROOT_OPERATIONS, **ENVIRONMENT_OPERATIONS}
    requests: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = [
        (word, "validation", TypeAdapter(operation.request))
        for word, operation in operations.items()
        if operation.request
    ]
    responses: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = [
        (word, "serialization", TypeAdapter(operation.answer))
        for word, operation in operations.items()
    ]
    responses.append(("", "serialization", TypeAdapter(ErrorBody)))
    schemas, document = TypeAdapter.json_schemas(
        [*requests, *responses],
        ref_template=f"{COMPONENTS}{{model}}",
        schema_generator=WireSchema,
    )
    types = document["$defs"]
    answers = {word: schemas[word, "serialization"] for word in operations}
    request_types = _referenced_types([schemas[word, "validation"] for word, *_ in requests], types)
    for name, shape in types.items():
        _state_presence(shape, is_only_sent=name not in request_types)
    return answers, {EVENT: EVENT_SCHEMA, **types}


def _referenced_types(schemas: list[Schema], types: dict[str, Schema]) -> set[str]:
    """Return the names of the types that `schemas` contain, directly or through other types."""
    names = set[str]()
    queue = list(schemas)
    while queue:
        new_names = {text.removeprefix(COMPONENTS) for text in _references(queue.pop())} - names
        names |= new_names
        queue += [types[name] for name in new_names]
    return names


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
    names = [
        name
        for name, field in properties.items()
        if is_only_sent or "const" in field or name in shape.get("required", ())
    ]
    if names:
        shape["required"] = names
    for field in properties.values():
        field.pop("default", None)  # openapi-typescript makes a field with a default required


def defined_types() -> dict[str, Schema]:
    """Return all named types, as the `$defs` of a JSON Schema."""
    types: dict[str, Schema] = _with_local_references(message_schemas()[1])
    return types


def _with_local_references(value: Any) -> Any:
    """Return a copy whose references lead to `$defs`."""
    if isinstance(value, dict):
        return {key: _with_local_references(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_with_local_references(member) for member in value]
    return value.replace(COMPONENTS, "#/$defs/") if isinstance(value, str) else value
