"""Inputs checked against a tool's schema: each problem in words, at the member it is about."""

from __future__ import annotations

from typing import Any

import pytest

from episodes.playtest.forms.answer import check_input

STRING, WHOLE = {"type": "string"}, {"type": "integer"}
PET = {
    "oneOf": [
        {"properties": {"kind": {"const": "cat"}, "lives": {"maximum": 9}}},
        {"properties": {"kind": {"const": "dog"}, "tricks": {"items": STRING}}},
    ]
}
CASES: list[tuple[Any, Any, list[Any], str]] = [
    (WHOLE, "three", ["a"], '"three" was given; needed is: whole number.'),
    ({"minimum": 1}, 0, ["a"], "0 is too small; at least 1 is needed."),
    ({"exclusiveMaximum": 5}, 5, ["a"], "5 is too large; it has to be below 5."),
    ({"multipleOf": 3}, 4, ["a"], "4 is no multiple of 3."),
    ({"minLength": 2}, "x", ["a"], "1 character is too few; at least 2 are needed."),
    ({"maxItems": 1}, [1, 2], ["a"], "2 items are too many; at most 1 is allowed."),
    ({"pattern": "^x"}, "y", ["a"], '"y" does not match "^x".'),
    ({"pattern": r"^[a-z]+\d$"}, "zz", ["a"], r'"zz" does not match "^[a-z]+\d$".'),
    ({"enum": ["x", 1]}, "y", ["a"], '"y" is none of "x", 1.'),
    ({"const": "v1"}, "v2", ["a"], '"v2" was given; it has to be "v1".'),
    ({"uniqueItems": True}, [1, 1], ["a"], "Two of the items are the same; each may stand here once."),
    ({"items": WHOLE}, [1, "b"], ["a", 1], '"b" was given; needed is: whole number.'),
    ({"required": ["b"]}, {}, ["a", "b"], "Required."),
    (
        {"properties": {"x": {}}, "additionalProperties": False},
        {"y": 1},
        ["a", "y"],
        'There is no member named "y"; known: "x".',
    ),
    ({"anyOf": [WHOLE, {"type": "null"}]}, "x", ["a"], '"x" was given; needed is: whole number or null.'),
    (PET, {"kind": "cow"}, ["a", "kind"], '"cow" is none of "cat", "dog".'),
    (PET, {"kind": "cat", "lives": 20}, ["a", "lives"], "20 is too large; at most 9 is allowed."),
    (PET, {"kind": "dog", "tricks": [1]}, ["a", "tricks", 0], "1 was given; needed is: text."),
    (PET, {}, ["a"], "{} fits several of the ways that it may be; it has to fit one alone."),
    ({"$ref": "#/$defs/name"}, 5, ["a"], "5 was given; needed is: text."),
]


@pytest.mark.parametrize(("schema", "value", "path", "message"), CASES)
def test_a_problem_stands_at_its_member(schema: Any, value: Any, path: list[Any], message: str) -> None:
    tool = {"type": "object", "properties": {"a": schema}, "$defs": {"name": STRING}}
    assert check_input(tool, {"a": value}) == [{"path": path, "message": message}]


def test_an_input_that_fits_has_no_problems() -> None:
    assert check_input({"type": "object", "properties": {"a": WHOLE}, "required": ["a"]}, {"a": 5}) == []


def test_every_missing_member_is_told_of_once() -> None:
    problems = check_input({"required": ["a", "b"], "properties": {"a": WHOLE}}, {})
    assert [one["path"] for one in problems] == [["a"], ["b"]]


def test_a_tool_without_parameters_takes_anything() -> None:
    assert check_input(None, {"a": 1}) == []


@pytest.mark.parametrize("schema", [{"type": "sausage"}, {"$ref": "#/nowhere"}, {"pattern": "("}, {"minimum": "x"}, 5])
def test_a_schema_that_is_none_refuses_nothing(schema: Any) -> None:
    assert check_input({"properties": {"a": schema}}, {"a": "x"}) == []
