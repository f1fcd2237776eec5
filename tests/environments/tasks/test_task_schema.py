"""Task schemas: what classes may declare, and what is reported about a spec that does not match."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from environments.display.task_line import summary_field
from environments.errors import Unhostable
from environments.tasks.task_schema import MAX_PROBLEMS, check, schema_json
from tests.environments.listings import listing
from tests.rows import each


class Question(BaseModel):
    question: str
    level: int = Field(1, ge=1, le=4)


def schema_of(task_schema: Any) -> str:
    return schema_json(listing({"train": []}, task_schema=task_schema))


NUMBERS = '{"properties": {"n": {"type": "array", "items": {"type": "integer"}}}}'


def test_a_class_without_one_accepts_everything() -> None:
    assert schema_of(None) == "" and check("", {"anything": 1}) == []


@each(
    "task_schema",
    [
        Question,
        Question.model_json_schema(),
        staticmethod(lambda: Question),
        classmethod(lambda cls: Question),
    ],
)
def test_it_is_a_model_a_schema_or_a_method(task_schema: Any) -> None:
    assert [
        problem.path for problem in check(schema_of(task_schema), {"question": "?", "level": 9})
    ] == ["$.level"]


@each("task_schema", [None, Question])
def test_it_has_the_field_that_the_class_names_as_title(task_schema: Any) -> None:
    shop = listing({"train": []}, task_schema=task_schema, title_field="instance_id")
    assert summary_field(schema_json(shop)) == "instance_id"
    assert bool(check(schema_json(shop), {"instance_id": "a-1"})) is (task_schema is not None)


def test_a_title_field_is_a_text() -> None:
    with pytest.raises(Unhostable, match="title_field is 3; use the name of one field"):
        listing({"train": []}, title_field=3)


def test_a_problem_tells_where_and_what() -> None:
    [problem] = check(NUMBERS, {"n": [1, 2, "three"]})
    assert str(problem) == "$.n[2]: 'three' is not of type 'integer'"


def test_a_problem_with_a_long_value_tells_what_too() -> None:
    [problem] = check(NUMBERS, {"n": ["9" * 999]})
    assert str(problem) == "$.n[0]: the value is not of type 'integer'"


def test_a_missing_field_is_a_problem_of_the_whole() -> None:
    [problem] = check(schema_of(Question), {})
    assert str(problem) == "$: 'question' is a required property"


def test_a_choice_that_nothing_matches_tells_of_the_nearest() -> None:
    schema = (
        '{"properties": {"n": {"anyOf": [{"type": "integer", "minimum": 3}, {"type": "null"}]}}}'
    )
    assert [str(problem) for problem in check(schema, {"n": 1})] == [
        "$.n: 1 is less than the minimum of 3"
    ]


class Point(BaseModel):
    x: int


class Size(BaseModel):
    width: int


class Choices(BaseModel):
    level: int | None = None
    mode: Literal["a", "b"] | int = 1
    mark: Point | Size | None = None


@each(
    ("spec", "detail"),
    [
        ({"level": "x"}, "$.level: 'x' was given; expected is whole number or null"),
        ({"mode": []}, '$.mode: [] was given; expected is "a" or "b" or whole number'),
        (
            {"mark": {"y": 1}},
            "$.mark: {'y': 1} was given; expected is object with 'x' or object "
            "with 'width' or null",
        ),
        ({"level": ["x"] * 99}, "expected is whole number or null"),
    ],
)
def test_a_choice_that_nothing_comes_near_tells_what_was_expected(spec: Any, detail: str) -> None:
    [problem] = check(schema_of(Choices), spec)
    assert str(problem).endswith(detail)


def test_it_tells_so_many_problems_at_most() -> None:
    assert len(check(NUMBERS, {"n": ["x"] * 1000})) == MAX_PROBLEMS


def test_a_schema_elsewhere_is_never_fetched() -> None:
    schema = '{"properties": {"n": {"$ref": "https://schemas.invalid/n.json"}}}'
    [problem] = check(schema, {"n": 1})
    assert (
        "refers to 'https://schemas.invalid/n.json', which it does not contain" in problem.message
    )


def test_a_deeply_nested_spec_is_a_problem_and_no_crash() -> None:
    schema, spec = '{"additionalProperties": {"$ref": "#"}}', {}
    for _ in range(5000):
        spec = {"n": spec}
    assert [problem.message for problem in check(schema, spec)] == [
        "it is nested too deeply for the task schema; flatten it"
    ]


def broken() -> None:
    raise KeyError("lost")


@each(
    ("task_schema", "sentence"),
    [
        ({"type": "strnig"}, "task_schema is not a JSON Schema ($.type: 'strnig' is not valid"),
        (["question"], "it is list, not a pydantic model or a JSON Schema as a dict"),
        (staticmethod(broken), "task_schema cannot be read: KeyError: 'lost'"),
        ({"default": float("nan")}, "Out of range float values"),
        ({"$ref": "https://schemas.invalid/n.json"}, "refers to 'https://schemas.invalid/n.json'"),
    ],
)
def test_a_bad_one_stops_the_start_with_a_sentence(task_schema: Any, sentence: str) -> None:
    with pytest.raises(Unhostable) as refused:
        schema_of(task_schema)
    assert sentence in str(refused.value) and str(refused.value).startswith("shop: ")
