"""Tests of fields in a search of tasks, on each database."""

from __future__ import annotations

import json

import pytest

from environments.curation.filter_parameters import InvalidFilter
from environments.curation.selection import Selection
from environments.models import Task
from tests.stored import make_environment, make_split, make_task

pytestmark = pytest.mark.django_db

SPECS = {
    "a": {"difficulty": 3, "answer": 12.5, "kind": "Easy", "ok": True, "grid": {"size": 4}, "note": "two \U0001f600"},
    "b": {"difficulty": "3", "answer": -1e300, "kind": "easy peasy", "ok": None, "note": "caf\u00e9 \0 \ud83d"},
    "c": {"difficulty": [3], "answer": 0, "ok": False},
}


@pytest.mark.parametrize(
    ("search", "names"),
    [
        ("difficulty:3", "ab"),
        ('difficulty:"3"', "b"),
        ("answer>10", "a"),
        ("answer>=12.5 answer<100", "a"),
        ("answer<=0", "bc"),
        ("kind:EASY", "a"),
        ("kind~easy", "ab"),
        ("ok:true", "a"),
        ("ok:null", "b"),
        ("ok:false", "c"),
        ("grid.size:4", "a"),
        ('note:"two \U0001f600"', "a"),
        ("note~caf\u00e9", "b"),
        ("difficulty:3 peasy", "b"),
        ("missing:3", ""),
    ],
)
def test_it_finds_tasks_by_fields(search: str, names: str) -> None:
    tasks = {make_task(spec).pk: name for name, spec in SPECS.items()}
    found = Task.objects.filter(Selection(search=search).condition()).order_by("pk")
    assert "".join(tasks[task.pk] for task in found) == names


SCHEMA = {
    "properties": {
        "difficulty": {"type": "integer"},
        "kind": {"enum": ["easy", "hard"]},
        "question": {"type": "string"},
        "seed": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "tests": {"type": "array"},
    }
}


@pytest.mark.parametrize(
    ("search", "problem"),
    [
        ("dificulty:3", "they have difficulty, kind, question, seed, hint. Did you mean 'difficulty'?"),
        ("tests:3", "they have difficulty, kind"),
        ("difficulty:easy", "difficulty is a number"),
        ("kind:medium", "kind is one of easy, hard"),
        ("question>3", "question is a text, and > compares numbers"),
        ("difficulty~3", "difficulty is a number, and ~ searches in texts"),
        ("seed:true", "seed is a number or null"),
    ],
)
def test_it_says_what_is_wrong_with_a_field_and_what_is_allowed(search: str, problem: str) -> None:
    environment = make_environment(task_schema=json.dumps(SCHEMA))
    split = make_split(make_task({"hint": "only in tasks", "tests": []}))
    for values in ({"environment": str(environment.pk)}, {"split": str(split.pk)}):
        with pytest.raises(InvalidFilter) as refusal:
            Selection.parse({**values, "search": search})
        assert f"search={search!r} cannot be used" in str(refusal.value) and problem in str(refusal.value)


@pytest.mark.parametrize("search", ["http://host/a", '"dificulty:3"', "seed:null", "hint:x", "kind:HARD", "note: 3"])
def test_it_leaves_addresses_phrases_and_what_is_allowed_alone(search: str) -> None:
    environment = make_environment(task_schema=json.dumps(SCHEMA))
    make_task({"hint": "only in tasks"})
    assert Selection.parse({"environment": str(environment.pk), "search": search}).search == search
