"""Inputs made from JSON Schemas are allowed by them, invalid ones are not, and both follow the
seed."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import jsonschema
import pytest

from environments.schemas.input_texts import Seen, matching
from environments.schemas.inputs import Inputs, Unproducible
from tests.rows import each

SCHEMAS: list[dict[str, Any]] = [
    {"enum": ["a", 1, None]},
    {"const": {"a": 1}},
    {"type": "integer", "minimum": 3, "exclusiveMaximum": 9, "multipleOf": 2},
    {"type": "integer", "maximum": -5},
    {"type": "number", "exclusiveMinimum": 0, "maximum": 0.5},
    {"type": "number", "multipleOf": 0.5, "minimum": 1, "maximum": 3},
    {"type": "string", "minLength": 30, "maxLength": 31},
    {"type": "string", "pattern": r"^[A-Z]{2}-\d{3,}(x|y)?$"},
    {"type": "string", "format": "date"},
    {
        "type": "array",
        "items": {"type": "integer"},
        "minItems": 2,
        "maxItems": 3,
        "uniqueItems": True,
    },
    {
        "type": "array",
        "prefixItems": [{"type": "integer"}, {"type": "string"}],
        "minItems": 2,
        "maxItems": 2,
    },
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": ["integer", "null"]},
    {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    {"oneOf": [{"type": "boolean"}, {"type": "string", "maxLength": 3}]},
    {"allOf": [{"type": "object", "required": ["a"]}, {"properties": {"a": {"type": "integer"}}}]},
    {"$ref": "#/$defs/tree"},
]
TREE = {
    "type": "object",
    "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
    "required": ["kids"],
}


def _tool(schema: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"x": schema},
        "required": ["x"],
        "$defs": {"tree": TREE},
    }


@each("schema", SCHEMAS)
def test_inputs_are_what_the_schema_allows(schema: dict[str, Any]) -> None:
    inputs = Inputs(_tool(schema), Random(1))
    made = [inputs.valid() for _ in range(50)]
    assert not [
        value
        for value in made
        if not jsonschema.Draft202012Validator(_tool(schema)).is_valid(value)
    ]


@each("schema", SCHEMAS)
def test_invalid_inputs_are_what_it_forbids(schema: dict[str, Any]) -> None:
    wrong = list(Inputs(_tool(schema), Random(1)).invalid())
    assert ("without 'x'", {}) in wrong
    assert not [
        value
        for _, value in wrong
        if jsonschema.Draft202012Validator(_tool(schema)).is_valid(value)
    ]


def test_the_same_seed_makes_the_same_inputs() -> None:
    one, other = (Inputs(_tool({"type": "integer"}), Random(3)) for _ in range(2))
    assert [one.valid() for _ in range(5)] == [other.valid() for _ in range(5)]


@each("reference", ["#number", "#/$defs/a%20number", "#/$defs/list/prefixItems/0"])
def test_references_are_followed(reference: str) -> None:
    number = {"$anchor": "number", "type": "integer"}
    schema = {"type": "object", "properties": {"x": {"$ref": reference}}, "required": ["x"]}
    definitions = {"a number": number, "list": {"prefixItems": [{"type": "integer"}]}}
    assert isinstance(Inputs({**schema, "$defs": definitions}, Random(1)).valid()["x"], int)


def test_a_tool_without_parameters_takes_an_empty_object() -> None:
    assert Inputs(None, Random(1)).valid() == {}


def test_numbers_and_words_that_were_seen_are_used() -> None:
    seen = Seen()
    seen.add("Open `door` between 5000 and 5010.")
    inputs = Inputs(_tool({"type": "integer"}), Random(1), seen)
    assert [value for _ in range(20) if 5000 <= (value := inputs.valid()["x"]) <= 5010]
    texts = Inputs(_tool({"type": "string"}), Random(1), seen)
    assert "door" in [texts.valid()["x"] for _ in range(20)]


@each(
    ("schema", "words"),
    [
        ({"$ref": "#/$defs/missing"}, "does not contain"),
        ({"$ref": "http://example.org/schema"}, "does not contain"),
        ({"type": "integer", "minimum": 5, "maximum": 1}, "is"),
        ({"type": "whole"}, "not a JSON Schema"),
    ],
)
def test_a_schema_without_a_possible_input_is_an_error(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(Unproducible, match=words):
        Inputs(_tool(schema), Random(1)).valid()


@each("pattern", [r"[a-f0-9]{8}", r"(yes|no)!?", r"\w+@\w+\.org", r"[^abc]{3}", r"x.z", r"a*?b+"])
def test_texts_match_simple_patterns(pattern: str) -> None:
    assert all(re.fullmatch(pattern, matching(pattern, Random(seed))) for seed in range(20))
