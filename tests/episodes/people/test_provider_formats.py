"""Prompts and tools in providers' formats equal the results of the SDK."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import pytest
from openreward.api.environments import client
from openreward.api.environments.types import Message
from ors.client.environment import convert_tool_response as converted_by_ors

from environments.hosts import loading
from environments.schemas.callable_names import tool_called
from environments.schemas.object_schemas import object_schema
from episodes.people.provider_formats import Format, Unrepresentable, prompt_as, tools_as
from tests.images import BAD_IMAGES
from tests.rows import each

BUILTIN = [
    f"environments.builtin.{name.lower()}:{name}"
    for name in ("Chart", "Code", "Math", "Maze", "Shell", "Web")
]
ODD = {
    "title": "Odd",
    "$defs": {"T": {"type": "object", "title": "T", "properties": {"title": {"type": "string"}}}},
    "properties": {
        "union": {
            "anyOf": [{"type": "null"}, {"type": "integer", "default": 3}],
            "description": "kept",
        },
        "one": {"oneOf": [{"$ref": "#/$defs/T"}, {"type": "string"}]},
        "all": {"allOf": [{"$ref": "#/$defs/T"}], "default": {}},
        "only": {"anyOf": [{"type": "null"}]},
        "none": {"anyOf": []},
        "bare": {"type": "array"},
        "either": {"type": ["array", "null"], "examples": [1]},
        "map": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "not": {"required": ["x"]},
        },
        "any": True,
        "nested": {"anyOf": [{"oneOf": [{"type": "array"}]}, {"type": "string"}], "title": "N"},
    },
}
_X = {
    "type": "object",
    "properties": {"kind": {"const": "x", "type": "string"}, "a": {"type": "string"}},
    "required": ["kind", "a"],
}
_Y = {
    "type": "object",
    "properties": {"kind": {"const": "y", "type": "string"}, "b": {}},
    "required": ["kind"],
}
_DEFINED = {
    "$defs": {"X": _X, "Y": _Y, "Z": {"oneOf": [{"$ref": "#/$defs/X"}, {"$ref": "#/$defs/Y"}]}}
}
ROOTS: list[dict[str, Any]] = [
    {"anyOf": [_X, _Y]},
    {"type": "object", "oneOf": [_X, _Y], "discriminator": {"propertyName": "kind"}},
    {"$ref": "#/$defs/Z", **_DEFINED},
    {"allOf": [{"$ref": "#/$defs/Z"}, {"description": "d"}], **_DEFINED},
    {"anyOf": [{"$ref": "#/$defs/X"}, {"$ref": "#/$defs/Y"}, {"type": "null"}], **_DEFINED},
]
TEXT, IMAGE = (
    {"type": "text", "text": "Look:"},
    {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
)
CALL = {"type": "tool_call", "id": "c1", "name": "look", "input": {"at": 1.5}}
RESULT = {
    "type": "tool_result",
    "tool_call_id": "c1",
    "blocks": [TEXT, {"type": "text", "text": "two"}],
}
WRONG = {**RESULT, "is_error": True}
REASONING = {"type": "reasoning", "text": "Hm.", "signature": "s"}


def says(role: str, *blocks: Any) -> dict[str, Any]:
    return {"role": role, "blocks": list(blocks)}


PROMPTS: list[list[dict[str, Any]]] = [
    [TEXT],
    [TEXT, IMAGE],
    [{"type": "hologram"}, TEXT],
    [says("system", TEXT, TEXT), says("user", TEXT)],
    [says("user", TEXT), says("assistant", TEXT, CALL), says("user", TEXT, RESULT, IMAGE)],
    [says("user", TEXT), says("assistant", CALL, CALL), says("user", WRONG)],
    [says("user"), says("assistant")],
]
IMPOSSIBLE: list[list[dict[str, Any]]] = [
    [says("user", TEXT), says("assistant", REASONING, TEXT)],
    [says("user", TEXT), says("system", TEXT)],
    [says("system", IMAGE)],
    [says("user", RESULT)],
    [says("user", CALL)],
    [says("user", TEXT), says("assistant", CALL), says("user", {**RESULT, "blocks": [IMAGE]})],
]


def by_the_sdk(prompt: list[dict[str, Any]], provider: Format) -> Any:
    messages = prompt if "role" in prompt[0] else [says("user", *prompt)]
    read = [
        Message(role=one["role"], blocks=client._parse_blocks(one["blocks"])) for one in messages
    ]
    return client.convert_messages(read, format=provider)


@each("provider", get_args(Format))
@each("name", BUILTIN)
def test_bundled_tools_equal_those_of_both_sdks(name: str, provider: Format) -> None:
    [hosted] = loading.load([name])
    tools = [spec.model_dump() for spec in [*hosted.tools.shared, *hosted.tools.task_specific]]
    assert tools_as(tools, provider) == client.convert_tool_response({"tools": tools}, provider)
    of_ors = [tool["name"] for tool in converted_by_ors({"tools": tools}, provider)]
    assert [tool["name"] for tool in tools_as(tools, provider)] == of_ors


@each("provider", get_args(Format))
@each("schema", [ODD, {}, None, {"type": "array"}, {"anyOf": [True, {}]}])
def test_odd_schemas_equal_those_of_the_sdk(schema: Any, provider: Format) -> None:
    tools = [
        {
            "name": "odd",
            "description": "Odd.",
            "input_schema": schema,
            "title": "lost",
            "more": {"title": "x", "y": 1},
        }
    ]
    rooted = [{**tools[0], "input_schema": schema and object_schema(schema)}]
    assert tools_as(tools, provider) == client.convert_tool_response({"tools": rooted}, provider)


@each("provider", get_args(Format))
@each("root", ROOTS)
def test_the_root_of_a_schema_is_what_the_provider_documents(root: Any, provider: Format) -> None:
    [tool] = tools_as([{"name": "t", "description": "", "input_schema": root}], provider)
    schema = tool["input_schema" if provider == "anthropic" else "parameters"]
    assert schema["type"] == "object"
    assert not schema.keys() & {"anyOf", "oneOf", "allOf", "$ref", "ref", "enum", "not"}
    assert set(schema["properties"]) == {"kind", "a", "b"}
    assert schema["required"] == ["kind"]
    assert schema["properties"]["kind"] == {"enum": ["x", "y"], "type": "string"}


@each("provider", get_args(Format))
@each("name", ["a.b", "ü", "x" * 65, "", "two words", "a/b", "1a", "-a"])
def test_names_that_a_provider_refuses_are_replaced_and_found_again(
    name: str, provider: Format
) -> None:
    [tool] = tools_as([{"name": name, "description": "", "input_schema": None}], provider)
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool["name"])
    assert provider != "google" or re.match(r"[a-zA-Z_]", tool["name"])
    assert tool_called(tool["name"], ["other", name]) == name
    called = json.dumps(
        prompt_as([says("user", TEXT), says("assistant", {**CALL, "name": name})], provider)
    )
    assert f'"name": "{tool["name"]}"' in called


@each("provider", get_args(Format))
@each("number", range(len(PROMPTS)))
def test_prompts_equal_those_of_the_sdk(number: int, provider: Format) -> None:
    assert prompt_as(PROMPTS[number], provider) == by_the_sdk(PROMPTS[number], provider)


@each("provider", get_args(Format))
@each("number", range(len(IMPOSSIBLE)))
def test_prompts_that_the_sdk_refuses_are_refused(number: int, provider: Format) -> None:
    ours, theirs = (
        attempt(prompt_as, IMPOSSIBLE[number], provider),
        attempt(by_the_sdk, IMPOSSIBLE[number], provider),
    )
    assert ours == theirs


@each("provider", get_args(Format))
@each(("kind", "data"), BAD_IMAGES)
def test_images_that_no_model_takes_are_refused(kind: str, data: str, provider: Format) -> None:
    image = {"type": "image", "mimeType": kind, "data": data}
    with pytest.raises(
        Unrepresentable, match="Providers refuse an image of a 'user' message: the "
    ):
        prompt_as([TEXT, image], provider)


def attempt(convert: Any, prompt: list[dict[str, Any]], provider: Format) -> Any:
    """Return the result of `convert`, or Unrepresentable if it refuses."""
    try:
        return convert(prompt, provider)
    except ValueError:
        return Unrepresentable
