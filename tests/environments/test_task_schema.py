"""Task schemas that classes may declare, and those that stop the start."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from environments.curation.spec import schema_problems
from environments.errors import Unhostable
from environments.task_schema import declared
from tests.environments.listings import listing


class Question(BaseModel):
    question: str
    level: int = Field(1, ge=1, le=4)


def schema_of(task_schema: Any) -> str:
    return declared(listing({"train": []}, task_schema=task_schema))


def test_a_class_without_one_accepts_everything() -> None:
    assert schema_of(None) == ""


@pytest.mark.parametrize(
    "task_schema",
    [Question, Question.model_json_schema(), staticmethod(lambda: Question), classmethod(lambda cls: Question)],
)
def test_it_is_a_model_a_schema_or_a_method(task_schema: Any) -> None:
    problems = schema_problems(schema_of(task_schema), {"question": "?", "level": 9})
    assert [problem.path for problem in problems] == ["level"]


def broken() -> None:
    raise KeyError("lost")


@pytest.mark.parametrize(
    ("task_schema", "sentence"),
    [
        ({"type": "strnig"}, "task_schema is no JSON Schema ($.type: 'strnig' is not valid"),
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
