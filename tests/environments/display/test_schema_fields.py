"""JSON Schemas as lists of fields."""

from __future__ import annotations

from typing import Any, Literal
from unittest.mock import patch

import pytest
from pydantic import BaseModel, Field

from environments.display import schema_fields
from environments.display.schema_fields import MAX_FIELDS, fields_of
from tests.rows import each


class Case(BaseModel):
    input: list[int]
    hidden: bool = False


class Task(BaseModel):
    question: str = Field(description="What to ask.", max_length=100)
    level: Literal["easy", "hard"] = "easy"
    limit: float | None = Field(None, gt=0)
    cases: list[Case]


def rows(schema: Any) -> list[tuple[str, str, bool]]:
    return [(field.path, field.kind, field.is_required) for field in fields_of(schema)]


def test_it_lists_a_models_fields_and_those_within() -> None:
    assert rows(Task.model_json_schema()) == [
        ("question", "text", True),
        ("level", '"easy" or "hard"', False),
        ("limit", "number or null", False),
        ("cases", "list of object", True),
        ("cases[].input", "list of whole number", True),
        ("cases[].hidden", "boolean", False),
    ]


@pytest.mark.parametrize("key", ["anyOf", "oneOf"])
def test_a_number_that_may_be_whole_is_a_number(key: str) -> None:
    schema = {
        "properties": {"answer": {key: [{"type": "integer"}, {"type": "number"}, {"type": "null"}]}}
    }
    assert rows(schema) == [("answer", "number or null", False)]


def test_a_text_of_a_character_or_more_is_not_empty() -> None:
    schema = {
        "properties": {
            "one": {"type": "string", "minLength": 1},
            "two": {"type": "string", "minLength": 2},
        }
    }
    assert [field.limits for field in fields_of(schema)] == ["not empty", "2 characters or more"]


def test_it_tells_a_pattern_as_the_schema_has_it() -> None:
    [field] = fields_of({"properties": {"code": {"type": "string", "pattern": r"^[a-z]+\d$"}}})
    assert field.limits == r'like "^[a-z]+\d$"'


def test_it_tells_limits_defaults_and_descriptions() -> None:
    first, second, *_ = fields_of(Task.model_json_schema())
    assert (first.description, first.limits) == ("What to ask.", "100 characters at most")
    assert second.limits == 'default "easy"'


@each(
    "odd",
    [
        None,
        [],
        "text",
        {},
        {"properties": []},
        {"properties": {"n": 3}},
        {"$ref": "#"},
        {"$ref": "#/none"},
    ],
)
def test_what_is_no_object_schema_has_none(odd: Any) -> None:
    assert fields_of(odd) == []


def test_a_schema_that_holds_itself_ends() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}}}
    assert [path for path, *_ in rows({**tree, "$defs": {"tree": tree}})] == [
        "next",
        "next.next",
        "next.next.next",
    ]


def test_a_circle_of_references_ends() -> None:
    schema = {
        "$ref": "#/$defs/a",
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
    }
    assert fields_of(schema) == []


@each("reference", ["#number", "#/$defs/a%20number", "#/$defs/list/prefixItems/0"])
def test_references_are_followed(reference: str) -> None:
    number = {"$anchor": "number", "type": "number"}
    schema = {"properties": {"n": {"$ref": reference}}}
    assert rows({**schema, "$defs": {"a number": number, "list": {"prefixItems": [number]}}}) == [
        ("n", "number", False)
    ]


def test_a_union_of_references_to_itself_takes_no_more_than_its_parts() -> None:
    union = {"anyOf": [{"$ref": "#/$defs/union"}] * 200 + [{"type": "number"}]}
    with patch.object(schema_fields, "resolved", wraps=schema_fields.resolved) as reading:
        assert len(rows({"properties": {"n": union}, "$defs": {"union": union}})) == 1
    assert reading.call_count < 1000


def test_it_lists_so_many_at_most() -> None:
    assert len(fields_of({"properties": {str(n): {} for n in range(1000)}})) == MAX_FIELDS
