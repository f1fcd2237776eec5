"""Inputs checked against a tool's schema: each problem in words, at the member it is about."""

from __future__ import annotations

from typing import Any

from episodes.people.forms.checking import check
from tests.rows import each

STRING, WHOLE = {"type": "string"}, {"type": "integer"}
PET = {
    "oneOf": [
        {"properties": {"kind": {"const": "cat"}, "lives": {"maximum": 9}}},
        {"properties": {"kind": {"const": "dog"}, "tricks": {"items": STRING}}},
    ]
}
CASES: list[tuple[Any, Any, list[Any], str]] = [
    (WHOLE, "three", ["a"], 'Expected whole number, not "three".'),
    ({"minimum": 1}, 0, ["a"], "0 is too small; the minimum is 1."),
    ({"exclusiveMaximum": 5}, 5, ["a"], "5 is too large; it has to be less than 5."),
    ({"multipleOf": 3}, 4, ["a"], "4 is not a multiple of 3."),
    ({"minLength": 2}, "x", ["a"], "1 character is too few; at least 2 are needed."),
    ({"maxItems": 1}, [1, 2], ["a"], "2 items are too many; at most 1 is allowed."),
    ({"pattern": "^x"}, "y", ["a"], '"y" does not have the expected form: "^x".'),
    (
        {"pattern": "^(a|b)$", "examples": ["a"]},
        "zz",
        ["a"],
        '"zz" does not have the expected form: such as "a".',
    ),
    ({"format": "date"}, "31.5.", ["a"], '"31.5." is not a date, such as 2024-05-31.'),
    ({"format": "email"}, "me", ["a"], '"me" is not an email address, such as name@example.org.'),
    (
        {"format": "uri"},
        "example",
        ["a"],
        '"example" is not an address, such as https://example.org.',
    ),
    ({"enum": ["x", 1]}, "y", ["a"], '"y" is not one of "x", 1.'),
    ({"const": "v1"}, "v2", ["a"], 'Expected "v1", not "v2".'),
    ({"uniqueItems": True}, [1, 1], ["a"], "Two items are equal; each item has to be unique."),
    ({"items": WHOLE}, [1, "b"], ["a", 1], 'Expected whole number, not "b".'),
    ({"required": ["b"]}, {}, ["a", "b"], "Required."),
    (
        {"properties": {"x": {}}, "additionalProperties": False},
        {"y": 1},
        ["a", "y"],
        'There is no member named "y"; the members are "x".',
    ),
    ({"anyOf": [WHOLE, {"type": "null"}]}, "x", ["a"], 'Expected whole number or null, not "x".'),
    (PET, {"kind": "cow"}, ["a", "kind"], '"cow" is not one of "cat", "dog".'),
    (PET, {"kind": "cat", "lives": 20}, ["a", "lives"], "20 is too large; the maximum is 9."),
    (PET, {"kind": "dog", "tricks": [1]}, ["a", "tricks", 0], "Expected text, not 1."),
    (PET, {}, ["a"], "{} matches several of the allowed kinds; it has to match exactly one."),
    ({"$ref": "#/$defs/name"}, 5, ["a"], "Expected text, not 5."),
]


@each(("schema", "value", "path", "message"), CASES)
def test_a_problem_is_at_its_member(schema: Any, value: Any, path: list[Any], message: str) -> None:
    tool = {"type": "object", "properties": {"a": schema}, "$defs": {"name": STRING}}
    assert check(tool, {"a": value}) == [(tuple(path), message)]


def test_an_input_that_fits_has_no_problems() -> None:
    assert check({"type": "object", "properties": {"a": WHOLE}, "required": ["a"]}, {"a": 5}) == []


def test_every_missing_member_is_reported_once() -> None:
    problems = check({"required": ["a", "b"], "properties": {"a": WHOLE}}, {})
    assert [problem.path for problem in problems] == [("a",), ("b",)]


def test_a_tool_without_parameters_takes_anything() -> None:
    assert check(None, {"a": 1}) == []


@each("schema", [{"type": "sausage"}, {"$ref": "#/nowhere"}, {"pattern": "("}, {"minimum": "x"}, 5])
def test_a_schema_that_is_none_refuses_nothing(schema: Any) -> None:
    assert check({"properties": {"a": schema}}, {"a": "x"}) == []
