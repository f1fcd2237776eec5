"""Roots of input schemas in the form that the APIs of models accept, whatever a schema has."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any, get_args

import jsonschema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from environments.agents.mcp.content import tools_of
from environments.schemas.object_schemas import has_object_root, object_schema, schema_problems
from environments.schemas.schema_references import References, parts_of
from episodes.people.provider_formats import Format, tools_as
from tests.rows import each

A, B, NO = {"type": "integer"}, {"type": "string"}, {"const": False}
PLAIN = {
    "anyOf": [
        {"properties": {f"p{n}": B, "kind": {"const": n}}, "required": ["kind"]} for n in range(200)
    ]
}
CHAIN = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 60} for n in range(8)}
ALL_TO_ALL = {f"d{n}": {"oneOf": [{"$ref": f"#/$defs/d{m}"} for m in range(10)]} for n in range(10)}
COSTLY: list[dict[str, Any]] = [
    {"anyOf": [{"$ref": "#"}] * 60, "oneOf": [{"$ref": "#"}] * 2},
    {"$ref": "#/$defs/d0", "$defs": {**CHAIN, "d8": {"properties": {"a": A}}}},
    {"$ref": "#/$defs/d0", "$defs": ALL_TO_ALL},
    {
        "anyOf": [{"$ref": "#/$defs/d0"}] * 2000,
        "$defs": {"d0": {"properties": {"a": {"enum": [*range(9000)]}}}},
    },
    {"allOf": [{"properties": {f"p{n}": {}}, "additionalProperties": False} for n in range(1500)]},
]


def has(**properties: Any) -> dict[str, Any]:
    return {"properties": properties}


def list_of(reference: str) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": reference}}


def spent(schema: dict[str, Any]) -> float:
    """Return the CPU time that a schema takes at best, in seconds."""
    times = []
    for _ in range(3):
        began = time.thread_time()
        object_schema(schema)
        times.append(time.thread_time() - began)
    return min(times)


@each("number", range(len(COSTLY)))
def test_the_work_for_a_schema_is_bounded(number: int) -> None:
    assert spent(COSTLY[number]) < 20 * spent(PLAIN)


def test_a_schema_that_is_too_large_keeps_what_stands_next_to_its_union() -> None:
    beside = {
        "type": "object",
        "description": "d",
        "properties": {"a": A},
        "$defs": {**CHAIN, "d8": {}},
    }
    schema = {**beside, "anyOf": [{"$ref": "#/$defs/d0"}] * 60}
    assert object_schema(schema) == beside
    assert "takes more than 400000 characters" in schema_problems(schema)[0]


def members(schema: Any) -> Any:
    """Return the properties of the object that a schema becomes."""
    return object_schema(schema)["properties"]


@each(
    ("schema", "properties"),
    [
        ({"$ref": "#Args", "$defs": {"A": {"$anchor": "Args", **has(a=A)}}}, {"a": A}),
        ({"$ref": "#/$defs/A%20B", "$defs": {"A B": has(a=A)}}, {"a": A}),
        ({"$ref": "#/$defs/a~1%25~0", "$defs": {"a/%~": has(a=A)}}, {"a": A}),
        (
            {
                "$ref": "#/$defs/list/prefixItems/1",
                "$defs": {"list": {"prefixItems": [A, has(b=B)]}},
            },
            {"b": B},
        ),
        ({"anyOf": [has(a={"const": True}), has(a={"const": 1})]}, {"a": {"enum": [True, 1]}}),
        ({"allOf": [has(a={"const": 0}), has(a=NO)]}, {"a": {"allOf": [{"const": 0}, NO]}}),
        ({"allOf": [{**has(a=A), "additionalProperties": False}, has(b=B)]}, {"a": A}),
        ({"allOf": [{**has(a=A), "unevaluatedProperties": False}, has(b=B)]}, {"a": A}),
        ({"allOf": [has(a=A), has(b=B)], "unevaluatedProperties": False}, {"a": A, "b": B}),
        ({"anyOf": [B, False, {"$ref": "#"}, has(a=A)]}, {"a": A}),
        ({"type": "object", **has(a=True, b=False, c=3)}, {"a": {}, "b": {"not": {}}, "c": {}}),
        ({"type": "object", "properties": ["a"]}, {}),
        (True, {}),
        (None, {}),
    ],
)
def test_it_keeps_the_properties(schema: Any, properties: Any) -> None:
    assert json.dumps(members(schema)) == json.dumps(properties)


def test_what_tells_alternatives_apart_can_have_any_type() -> None:
    first = {
        "type": "object",
        "properties": {"k": {"type": ["integer", "null"], "enum": [1, None]}},
    }
    second = {"type": "object", "properties": {"k": {"type": ["string"], "const": "x"}}}
    assert members({"anyOf": [first, second]}) == {"k": {"enum": [1, None, "x"]}}
    assert members(
        {"anyOf": [second, {"properties": {"k": {"type": ["string"], "enum": ["x", "y"]}}}]}
    ) == {"k": {"enum": ["x", "y"], "type": ["string"]}}


@each("required", [None, "a", ["a", 3], {"a": True}])
def test_required_is_a_list_of_names(required: Any) -> None:
    names = object_schema({"type": "object", "required": required})["required"]
    assert names == (["a"] if "a" in str(required) and not isinstance(required, dict) else [])


@each(
    ("schema", "fits", "does_not"),
    [
        ({"oneOf": [has(a=A), has(b={"$ref": "#/oneOf/0/properties/a"})]}, {"b": 1}, {"b": ""}),
        (
            {"anyOf": [{"$defs": {"T": A}, **has(a={"$ref": "#/anyOf/0/$defs/T"})}]},
            {"a": 1},
            {"a": ""},
        ),
        (
            {"anyOf": [has(a=list_of("#/anyOf/1")), has(b=list_of("#/anyOf/0"))]},
            {"b": [{"a": [{}]}]},
            {"b": [{"a": 1}]},
        ),
        ({"anyOf": [has(a={"$ref": "#x"}), has(b={"$anchor": "x", **A}), {}]}, {"a": 1}, {"a": ""}),
        ({**has(a=A), "allOf": [has(a={"$ref": "#/properties/a"})]}, {"a": 1}, {"a": ""}),
        (
            {"anyOf": [has(a={"const": {"$ref": "#/anyOf/0"}})]},
            {"a": {"$ref": "#/anyOf/0"}},
            {"a": {}},
        ),
        ({"anyOf": [has(a=list_of("#"))]}, {"a": [{"a": []}]}, {"a": [{"a": 1}]}),
        (
            {
                "$ref": "#/definitions/A",
                "definitions": {"A": has(a={"$ref": "#/definitions/b"}), "b": A},
            },
            {"a": 1},
            {"a": ""},
        ),
    ],
)
def test_references_point_at_what_they_did(schema: Any, fits: Any, does_not: Any) -> None:
    validator = jsonschema.Draft202012Validator(object_schema(schema))
    assert (validator.is_valid(fits), validator.is_valid(does_not)) == (True, False)


INNER = {"$id": "https://a.example/inner", "$defs": {"T": A}, **has(b={"$ref": "#/$defs/T"})}
OF_2019 = {"$schema": "https://json-schema.org/draft/2019-09/schema", "type": "object"}


@each(
    ("schema", "fits", "does_not"),
    [
        ({**has(a={"$dynamicRef": "#T"}), "$defs": {"x": {"$dynamicAnchor": "T", **A}}}, 1, ""),
        ({"$defs": {"x": B}, **has(a={"$id": "i", "$defs": {"x": A}, "$ref": "#/$defs/x"})}, 1, ""),
        ({**has(a={"$ref": "i#/$defs/T"}), "$defs": {"i": {"$id": "i", "$defs": {"T": A}}}}, 1, ""),
        ({"$id": "urn:x", **has(a={"$ref": "urn:x#/$defs/T"}), "$defs": {"T": A}}, 1, ""),
        (has(a=INNER), {"b": 1}, {"b": ""}),
        (has(a={"$ref": "https://a.example/inner"}, c={"items": INNER}), {"b": 1}, {"b": ""}),
        ({**OF_2019, **has(a={"$recursiveRef": "#"})}, {"a": {}}, {"a": 1}),
        (
            {
                **has(a={"$ref": "#/$defs/T", "$dynamicRef": "#U"}),
                "$defs": {"T": A, "U": {"$dynamicAnchor": "U", "not": NO}},
            },
            1,
            False,
        ),
    ],
)
def test_references_of_documents_within_it_become_local(
    schema: Any, fits: Any, does_not: Any
) -> None:
    whole = {"type": "object", **schema}
    sent = object_schema(whole)
    assert (schema_problems(whole), dangling(sent)) == ([], [])
    inputs = [{"a": value} for value in (fits, does_not)]
    for document in (whole, sent):
        validator = jsonschema.validators.validator_for(
            document, default=jsonschema.Draft202012Validator
        )(document)
        assert [validator.is_valid(value) for value in inputs] == [True, False]


def dangling(schema: Any) -> list[Any]:
    """Return the references of a schema that no client can follow."""
    references = [
        (word, part[word]) for part in parts_of(schema) for word in part if word.endswith("Ref")
    ]
    places = References(schema)
    for part in parts_of(schema):
        if "$ref" in part:
            with suppress(LookupError):
                places.target(part["$ref"])
                continue
            references.append(("$ref", part["$ref"]))
    return references


@each("required", [["a", "a"], ["a", 3, "a"], True, "a"])
def test_required_of_every_part_is_a_list_of_distinct_names(required: Any) -> None:
    schema = {
        "type": "object",
        "required": ["b", "b"],
        **has(a={"type": "object", "required": required}),
    }
    sent = object_schema(schema)
    assert (sent["required"], sent["properties"]["a"]["required"]) == (
        ["b"],
        [] if required is True else ["a"],
    )
    assert len(schema_problems(schema)) == 2


@each(
    ("schema", "problem"),
    [
        (
            {"type": "object", **has(a={"$ref": "#/$defs/X"})},
            "it refers to '#/$defs/X', which it does not contain",
        ),
        (
            {"type": "object", **has(a={"$dynamicRef": "#x"})},
            "it refers to '#x', which it does not contain",
        ),
        (
            {"type": "object", **has(a={"$id": "i", "$ref": "#/$defs/T"}), "$defs": {"T": A}},
            "it refers to '#/$defs/T'",
        ),
        ({"type": "object", **has(a={"$ref": 5})}, "it refers to 5, which it does not contain"),
        ({"type": "object", "required": ["a", "a"]}, "'required' has 'a' twice"),
        ({"type": "object", "required": "a"}, "'required' is 'a', which is no list of names"),
        (
            {
                "allOf": [
                    {**has(a=A), "additionalProperties": False},
                    {**has(b=B), "additionalProperties": False},
                ]
            },
            "a part of its root has 'a', which another part does not allow",
        ),
        (
            {
                "allOf": [
                    {**has(a=A), "additionalProperties": False},
                    {**has(b=B), "required": ["b"]},
                ]
            },
            "a part of its root requires 'b', which another part does not allow",
        ),
        (
            {"anyOf": [{"$ref": "#/$defs/X"}, {"properties": {"a": A}}]},
            "it refers to '#/$defs/X', which it does not",
        ),
        (
            {"$ref": "https://example.org/schema"},
            "it refers to 'https://example.org/schema', which it does not",
        ),
        ({"anyOf": [A, B]}, "no object fits a union or reference at its root"),
        ({"$ref": "#"}, "no object fits a union or reference at its root"),
    ],
)
def test_it_says_what_it_could_not_merge(schema: Any, problem: str) -> None:
    [said] = schema_problems(schema)
    assert said.startswith(problem)


STEPS = {"type": "integer"}


@each(
    ("parts", "is_empty"),
    [
        ([{"type": "string"}, {"type": "integer"}], True),
        ([{"type": "number"}, {"type": "integer"}], False),
        ([{"enum": ["a", "b"]}, {"const": "c"}], True),
        ([{"enum": ["a", "b"]}, {"const": "b"}], False),
        ([{"enum": [1]}, {"const": True}], True),
        ([{"$ref": "#/$defs/Steps"}, {"allOf": [{"type": "string"}]}], True),
        (
            [{**has(a=A), "additionalProperties": False}, {"type": "object", "required": ["b"]}],
            True,
        ),
        (
            [{**has(a=A), "additionalProperties": False}, {"type": "object", "required": ["a"]}],
            False,
        ),
        ([{**has(a=A), "additionalProperties": False}, {"required": ["b"]}], False),
    ],
)
def test_it_names_a_part_that_no_value_fits(parts: list[Any], is_empty: bool) -> None:
    schema = {**has(steps={"items": {"allOf": parts}}), "$defs": {"Steps": STEPS}}
    problems = schema_problems(schema)
    assert len(problems) == is_empty
    assert all(problem.startswith("no value fits all of [{") for problem in problems)


def test_it_names_what_it_merges_of_parts_that_contradict_each_other() -> None:
    schema = {"allOf": [has(a={"type": "string"}), has(a={"type": "integer"})]}
    assert schema_problems(schema) == [
        'no value fits all of [{"type": "string"}, {"type": "integer"}]'
    ]


KEYWORDS = st.sampled_from(
    [
        "type",
        "properties",
        "required",
        "anyOf",
        "oneOf",
        "allOf",
        "$ref",
        "$defs",
        "enum",
        "const",
        "a",
        "$anchor",
        "$id",
        "$dynamicRef",
        "$dynamicAnchor",
        "$recursiveRef",
        "additionalProperties",
        "unevaluatedProperties",
        "patternProperties",
    ]
)
JSON = st.recursive(
    st.sampled_from([None, True, False, 0, 1, "object", "a", "#", "#/anyOf/0", "#/$defs/a", "#a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=4),
    max_leaves=25,
)


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    # a busy machine may hold the process for a minute
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.dictionaries(KEYWORDS, JSON, max_size=6))
def test_any_schema_becomes_one_that_clients_read(schema: dict[str, Any]) -> None:
    tool = {"name": "t", "description": "", "input_schema": schema}
    merged = object_schema(schema)
    assert dangling(merged) == []
    assert has_object_root(merged) and all(
        isinstance(form, dict) for form in merged["properties"].values()
    )
    assert object_schema(merged) == merged
    assert tools_of({"tools": [tool]})[0]["inputSchema"] == merged
    assert [tools_as([tool], provider)[0]["name"] for provider in get_args(Format)] == ["t"] * 3
