"""Tests that values are unchanged by the controls of a page, for each feature of JSON Schema that
forms support."""

from __future__ import annotations

import json
from typing import Any

import pytest

from episodes.people.forms.form import Form
from tests.episodes.people.forms.browser import Page

STRING, NUMBER, WHOLE = {"type": "string"}, {"type": "number"}, {"type": "integer"}
TREE = {
    "type": "object",
    "properties": {"name": STRING, "children": {"type": "array", "items": {"$ref": "#"}}},
}
CIRCLE = {
    "type": "object",
    "properties": {"kind": {"const": "circle"}, "r": NUMBER},
    "required": ["kind", "r"],
}
BOX = {
    "type": "object",
    "properties": {"kind": {"const": "box"}, "w": NUMBER, "h": NUMBER},
    "required": ["kind"],
}
EXPRESSION = {
    "$defs": {
        "E": {"anyOf": [WHOLE, {"$ref": "#/$defs/Sum"}]},
        "Sum": {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/E"}, "b": {"$ref": "#/$defs/E"}},
        },
    },
    "$ref": "#/$defs/E",
}
MOVE = {
    "allOf": [
        {"properties": {"x": WHOLE}, "required": ["x"]},
        {"properties": {"x": {"minimum": 3}, "y": WHOLE}},
    ]
}

CASES: list[tuple[str, Any, list[Any]]] = [
    (
        "text",
        STRING,
        [
            "",
            "a",
            " a ",
            "\n",
            "\n\na\n",
            "two\nlines",
            "tab\there",
            "<b>&\"'</b>",
            "ünï ☃ 😀",
            "</textarea>",
        ],
    ),
    ("text that a field would change", STRING, ["a\r\nb", "\0", "\ud800", "\r"]),
    ("long text", {"type": "string", "maxLength": 50_000}, ["x" * 30_000, "def f():\n    pass\n"]),
    (
        "number",
        NUMBER,
        [0, 1, 1.0, -0.0, 0.1, 1e20, 1e-320, 1.7976931348623157e308, 3.141592653589793, 10**400],
    ),
    ("whole number", WHOLE, [0, -5, 2**53 + 1, 123456789012345678901234567890, 3.0]),
    (
        "range",
        {"type": "integer", "exclusiveMinimum": 0, "maximum": 9, "multipleOf": 3},
        [3, 9, 4, -1],
    ),
    ("boolean", {"type": "boolean"}, [True, False]),
    (
        "enumeration",
        {"enum": ["a", "b", 1, 1.5, None, {"k": [1]}, "1", True]},
        ["a", 1, 1.5, None, {"k": [1]}, "1", True],
    ),
    ("outside the enumeration", {"enum": ["a", 1]}, ["c", True, 1.0]),
    ("constant", {"const": {"a": [1, None]}}, [{"a": [1, None]}, {"a": [1.0, None]}, None]),
    ("null", {"type": "null"}, [None, 0]),
    ("list", {"type": "array", "items": STRING}, [[], ["a"], ["", "b", ""], ["a", 1], [None]]),
    (
        "list of lists",
        {"type": "array", "items": {"type": "array", "items": WHOLE}},
        [[[]], [[1], [], [2, 3]]],
    ),
    (
        "tuple",
        {"type": "array", "prefixItems": [STRING, WHOLE], "items": False},
        [["a", 1], ["a"], [], ["a", 1, 2]],
    ),
    (
        "tuple of draft 7",
        {"type": "array", "items": [STRING, WHOLE], "additionalItems": NUMBER},
        [["a", 1, 2.5], [1, "a"]],
    ),
    (
        "tree",
        TREE,
        [
            {},
            {
                "name": "a",
                "children": [{"name": "b"}, {"children": [{"name": "c", "children": []}]}],
            },
        ],
    ),
    (
        "map",
        {"type": "object", "additionalProperties": WHOLE},
        [{}, {"a": 1, "": 2, "b/c~d.e'\"": 3}, {"a": "x"}],
    ),
    (
        "patterns",
        {"patternProperties": {"^n_": NUMBER, "^s_": STRING}},
        [{"n_a": 1.5, "s_b": "1.5", "other": [1]}],
    ),
    (
        "unnamed members",
        {"type": "object", "properties": {"a": STRING}},
        [{"a": "x", "b": 1}, {"b": {"c": None}}],
    ),
    (
        "union",
        {"oneOf": [CIRCLE, BOX]},
        [{"kind": "circle", "r": 1}, {"kind": "box", "w": 1, "h": 2.0}, {"kind": "tree"}, 1],
    ),
    (
        "text or number",
        {"anyOf": [NUMBER, STRING]},
        [42, "42", "3/4", 1.0, "1.0", "", " 1", "1e5", "1e999", -0.0, None, []],
    ),
    ("text or whole number", {"type": ["integer", "string"]}, [42, "42", "1.5", 1.5]),
    ("nullable", {"anyOf": [WHOLE, {"type": "null"}]}, [1, None, "x"]),
    ("nullable by type", {"type": ["string", "null"]}, ["", None, "null"]),
    (
        "nullable list",
        {"anyOf": [{"type": "array", "items": WHOLE}, {"type": "null"}]},
        [None, [], [1, 2]],
    ),
    ("types", {"type": ["boolean", "integer", "array"]}, [True, 1, [1, "a"], None]),
    ("merged", MOVE, [{"x": 3}, {"x": 4, "y": 5}, {"x": 1}]),
    ("reference", {"$defs": {"a/b~": WHOLE}, "$ref": "#/$defs/a~1b~0"}, [1, "a"]),
    ("recursive expression", EXPRESSION, [1, {"a": 1, "b": {"a": {"a": 2, "b": 3}, "b": 4}}]),
    ("broken reference", {"$ref": "#/nowhere"}, [1, {"a": None}]),
    ("a circle", {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, ["x"]),
    ("anything", {}, [1, "a", None, {"b": [1.0, {}]}]),
    ("true", True, [[1, 2], "a"]),
    ("nothing", False, [1]),
    ("no schema", "what", [1, None]),
    ("not", {"not": STRING}, [1, "a"]),
    (
        "conditions",
        {"type": "object", "properties": {"a": STRING}, "anyOf": [{"required": ["a"]}]},
        [{"a": "x"}, {"b": 1}],
    ),
    (
        "deep",
        {"$defs": {"L": {"items": {"$ref": "#/$defs/L"}}}, "$ref": "#/$defs/L"},
        [json.loads("[" * 30 + "]" * 30)],
    ),
]
SCHEMAS = [(schema, values) for _, schema, values in CASES]
each_schema = pytest.mark.parametrize(
    ("schema", "values"), SCHEMAS, ids=[name for name, _, _ in CASES]
)


@each_schema
def test_a_value_on_a_page_is_unchanged(schema: Any, values: list[Any]) -> None:
    assert [_page_with(schema, value).read() for value in values] == [
        json.dumps({"in": value}) for value in values
    ]


@each_schema
def test_a_value_in_controls_is_unchanged(schema: Any, values: list[Any]) -> None:
    for value in values:
        filled, loaded = Form(schema), Form(schema)
        filled.fill(value)
        loaded.load(filled.state())
        assert [json.dumps(one) for one in loaded.value()] == [json.dumps(value), "[]"]


@each_schema
def test_switching_between_form_and_raw_view_loses_nothing(schema: Any, values: list[Any]) -> None:
    for value in values:
        page = _page_with(schema, value)
        for do in ("raw", "form", "raw"):
            page.do(do)
        assert page.read() == json.dumps({"in": value})


def _page_with(schema: Any, value: Any) -> Page:
    page = Page({"type": "object", "properties": {"in": _without_defs(schema)}, **_defs(schema)})
    page.do("set", text=json.dumps({"in": value}))
    return page


def _without_defs(schema: Any) -> Any:
    return (
        {key: one for key, one in schema.items() if key != "$defs"}
        if isinstance(schema, dict)
        else schema
    )


def _defs(schema: Any) -> dict[str, Any]:
    return {"$defs": schema["$defs"]} if isinstance(schema, dict) and "$defs" in schema else {}
