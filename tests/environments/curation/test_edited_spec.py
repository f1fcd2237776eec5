"""Specs that people write: strict JSON, and what the environment's task schema asks for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from environments.curation.action import InvalidSpec
from environments.curation.edited_spec import checked_spec
from environments.models import Environment
from tests.rows import each


def environment(schema: Any = None) -> Environment:
    return Environment(name="math", task_schema="" if schema is None else json.dumps(schema))


def problems(text: str, schema: Any = None) -> list[tuple[str, str]]:
    with pytest.raises(InvalidSpec) as refused:
        checked_spec(environment(schema), text)
    return [(problem.path, problem.message) for problem in refused.value.problems]


def test_it_stores_compact_ascii_in_the_order_of_its_names() -> None:
    text = '{ "b": "ä",\n "a": [1, -0.0, 1e20, 123456789012345678901] }'
    assert (
        checked_spec(environment(), text)
        == '{"b":"\\u00e4","a":[1,-0.0,1e+20,123456789012345678901]}'
    )


def test_it_keeps_characters_that_no_database_can_as_escapes() -> None:
    assert (
        checked_spec(environment(), r'{"nul \u0000": "half \ud800"}')
        == r'{"nul \u0000":"half \ud800"}'
    )


@each(
    ("text", "why"),
    [
        ("", "line 1, column 1: Expecting value"),
        ('{"a": }', "line 1, column 7: Expecting value"),
        ("[1]", "it is a list, but a task has to be an object, such as {…}"),
        ("1", "it is a number, but a task has to be an object, such as {…}"),
        ("null", "it is null, but a task has to be an object, such as {…}"),
        ('{"a": NaN}', "NaN is not a JSON number; use a finite number, null or a string"),
        (
            '{"a": 1e999}',
            "it holds NaN, an infinity or a number beyond 1.8e308 in 'a'; write a "
            "finite number or null",
        ),
        ('{"a": 1, "a": 2}', "it has the key 'a' twice in one object; keep one of them"),
        ('{"a": ' + "[" * 300 + "]" * 300 + "}", "it cannot be stored: nested more than 200 deep"),
        ('{"a": "' + "x" * 8 * 1024**2 + '"}', "it is longer than 8 MiB, the limit for a task"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "it is nested too deeply; flatten it"),
    ],
)
def test_it_refuses_what_is_no_strict_json_object(text: str, why: str) -> None:
    [(path, message)] = problems(text)
    assert (path, message) == ("", why)


def test_it_reports_everything_that_the_schema_refuses_with_its_path() -> None:
    size = {"type": "object", "properties": {"size": {"type": "integer"}}}
    schema = {"properties": {"grid": {"type": "array", "items": size}}, "required": ["question"]}
    found = problems('{"grid": [{"size": 1}, {"size": "x"}]}', schema)
    assert sorted(found) == [
        ("", "'question' is a required property"),
        ("grid.1.size", "'x' is not of type 'integer'"),
    ]


def test_it_reports_the_first_of_very_many_problems_and_shortens_them() -> None:
    found = problems(
        json.dumps({"a": ["x" * 5000] * 500}), {"properties": {"a": {"items": {"type": "integer"}}}}
    )
    assert len(found) == 20
    assert max(len(message) for _, message in found) <= 300


def test_it_never_fetches_what_a_schema_refers_to() -> None:
    [(_, message)] = problems(
        '{"a": 1}', {"properties": {"a": {"$ref": "http://127.0.0.1:9/other.json"}}}
    )
    assert "127.0.0.1:9/other.json" in message


def test_it_says_all_of_it_in_one_sentence() -> None:
    with pytest.raises(
        InvalidSpec,
        match=r"^This spec cannot be saved: a: 'x' is not of type "
        r"'integer'\.$",
    ):
        checked_spec(environment({"properties": {"a": {"type": "integer"}}}), '{"a": "x"}')
