"""Schemas and states that mean harm, or were written without care: always a form, at least one text
field of JSON."""

from __future__ import annotations

import json
from typing import Any

from episodes.people.forms.checking import check
from episodes.people.forms.form import answer_form, html_of
from tests.rows import each


def doubling(levels: int) -> dict[str, Any]:
    defs = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": {**defs, f"d{levels}": {"type": "string"}}, "$ref": "#/$defs/d0"}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


ODD: dict[str, Any] = {
    "doubling": doubling(60),
    "nested": nested(90),
    "wide": {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(5000)}},
    "wide and deep": {
        "properties": {f"p{n}": nested(8) for n in range(100)},
        "required": [f"p{n}" for n in range(100)],
    },
    "many options": {"enum": list(range(10_000))},
    "many ways": {"anyOf": [{"const": n} for n in range(1000)]},
    "many items": {"type": "array", "items": {"type": "string"}, "minItems": 10**9},
    "ways in circles": {
        "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "string"}]}},
        "$ref": "#/$defs/a",
    },
    "required in circles": {
        "$defs": {
            "a": {"type": "object", "properties": {"b": {"$ref": "#/$defs/a"}}, "required": ["b"]}
        },
        "$ref": "#/$defs/a",
    },
    "keywords of other types": {
        "type": 5,
        "properties": [],
        "required": "a",
        "enum": {},
        "items": 3,
        "anyOf": {},
        "allOf": 1,
    },
    "members of other types": {
        "type": "object",
        "properties": {"a": 1, "b": None, "c": []},
        "required": [1, None, {}],
    },
    "limits of other types": {
        "type": "string",
        "maxLength": "x",
        "title": 5,
        "description": [],
        "format": {},
        "examples": 3,
    },
    "a far reference": {"$ref": "https://example.org/schema.json"},
    "a reference of another type": {"$ref": {"a": 1}},
    "names that no page can carry": {
        "type": "object",
        "properties": {"a\r\0\ud800": {"type": "string"}},
    },
    "bad patterns": {
        "type": "object",
        "patternProperties": {"(": {"type": "string"}, "a": True},
        "pattern": "(",
    },
    "numbers": {
        "type": "number",
        "minimum": float("inf"),
        "multipleOf": 0,
        "default": float("nan"),
    },
    "an impossible type": {"allOf": [{"type": "string"}, {"type": "integer"}]},
    "markup": {
        "type": "object",
        "title": "<script>",
        "properties": {"<img src=x>\"'": {"description": "</p><script>alert(1)</script>"}},
    },
    "text": "schema",
    "list": [1],
    "number": 7,
}


@each("is_member", [True, False])
@each("name", ODD)
def test_every_schema_makes_a_form_of_bounded_size(name: str, is_member: bool) -> None:
    schema = _around(ODD[name]) if is_member else ODD[name]
    html = html_of("t", schema, is_plain=False)
    assert 0 < len(html) < 2_000_000
    assert "<script>" not in html


@each("value", [{"a": {"b": ["x", None]}}, {"a": 1}, {"a": "x\r"}])
@each("name", ODD)
def test_a_value_survives_every_schema(name: str, value: Any) -> None:
    """In fields, or because it stays JSON."""
    tools, text = {"t": _around(ODD[name])}, json.dumps(value)
    answer = answer_form(tools, {"tool": "t", "entry": text})
    if "errors" not in answer:
        back = answer_form(tools, {"tool": "t", "entry": answer["entry"]})
        assert json.dumps(json.loads(back["entry"])) == text


@each("name", ODD)
def test_every_schema_can_be_checked_against(name: str) -> None:
    assert isinstance(check(ODD[name], {"a": {"b": "x"}}), list)


def test_a_check_whose_cost_grows_with_every_level_is_given_up() -> None:
    ways = [
        {"properties": {"is": {"const": n}, "l": {"$ref": "#/$defs/E"}, "r": {"$ref": "#/$defs/E"}}}
        for n in range(6)
    ]
    value: Any = {"is": 9}
    for _ in range(12):
        value = {"is": 9, "l": value, "r": value}
    assert check({"$defs": {"E": {"oneOf": ways}}, "$ref": "#/$defs/E"}, value) == []


@each("entry", [{}, {"a": "[" * 100_000}, {"a": None}, {"b": "x"}, ["a"], 7, "[" * 100_000, "{}"])
@each("name", ODD)
def test_every_entry_is_answered(name: str, entry: Any) -> None:
    answer = answer_form({"t": _around(ODD[name])}, {"id": 3, "tool": "t", "entry": entry})
    assert answer["type"] == "form" and answer["id"] == 3
    assert answer.keys() & {"entry", "errors", "error"}


def _around(schema: Any) -> dict[str, Any]:
    """Return the schema of an input whose member `a` has `schema`."""
    defs = schema.get("$defs", {}) if isinstance(schema, dict) else {}
    return {"type": "object", "properties": {"a": schema}, "required": ["a"], "$defs": defs}
