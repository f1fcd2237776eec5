"""Tests of fields in a search of tasks, on each database."""

from __future__ import annotations

import json
from importlib import import_module
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connection

from environments.curation.selection import Selection
from environments.curation.task_search import matches
from environments.filtering.parameters import BadFilter
from environments.models import UNRESTRICTED, Task
from tests.filters import select
from tests.rows import each
from tests.stored import make_environment, make_split, make_task

pytestmark = pytest.mark.django_db

SPECS = {
    "a": {
        "difficulty": 3,
        "answer": 12.5,
        "kind": "Easy",
        "ok": True,
        "grid": {"size": 4},
        "note": "two \U0001f600",
    },
    "b": {
        "difficulty": "3",
        "answer": -1e300,
        "kind": "easy peasy",
        "ok": None,
        "note": "caf\u00e9 \0 \ud83d",
    },
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
    found = Task.objects.filter(select(search=search).condition()).order_by("pk")
    assert "".join(tasks[task.pk] for task in found) == names


FOREIGN = {
    "a": {
        "q": "\u00c4pfel zu Gro\u00dfbritannien",
        "kind": "\u00c9cole",
        "E": "x",
        "\u00c9": "other",
    },
    "b": {
        "q": "\u0395\u039b\u039b\u0391\u03a3 \u0130zmir",
        "kind": "\u041c\u041e\u0421\u041a\u0412\u0410",
    },
    "c": {"q": 'apfel, i "quoted"', "kind": "ECOLE", "Name": 1},
}


@pytest.mark.parametrize("is_escaped", [True, False])
@pytest.mark.parametrize(
    ("search", "names"),
    [
        ("\u00e4pfel", "ac"),
        ("A\u0308PFEL", "ac"),
        ("GROSSBRITANNIEN", "a"),
        ("gro\u00dfbritannien", "a"),
        ("\u03b5\u03bb\u03bb\u03ac\u03c2", "b"),
        ("izmir", "b"),
        ("kind:\u00e9cole", "ac"),
        ("kind:\u00c9COLE", "ac"),
        ("kind~\u043c\u043e\u0441\u043a", "b"),
        ("E:x", "a"),
        ("e:x", ""),
        ("e:other", ""),
        ("\u00e9", "ac"),
        ("\u0131", ""),
        ("name", "c"),
        ("Name:1", "c"),
        ("name:1", ""),
    ],
)
def test_case_and_accents_do_not_matter_in_any_script(
    search: str, names: str, is_escaped: bool
) -> None:
    specs = {name: json.dumps(spec, ensure_ascii=is_escaped) for name, spec in FOREIGN.items()}
    environment = make_environment()
    for name, text in specs.items():
        Task.objects.create(environment=environment, content_hash=name, spec=text)
    found = Task.objects.filter(select(search=search).condition()).order_by("content_hash")
    assert "".join(task.content_hash for task in found) == names


@each(
    ("search", "seeds"),
    [
        (f"seed:{2**62 + 1}", [2**62 + 1]),
        (f"seed>{2**62}", [2**62 + 1, "9" * 60]),
        (f"seed<={2**62}", ["-1e300", "7.0", 2**62]),
        ("seed:7", ["7.0"]),
        ("seed<-7e0", ["-1e300"]),
        (f"seed>{'9' * 59}", ["9" * 60]),
        ("seed>1e999", []),
        (f"seed<-{'9' * 400}", []),
    ],
)
def test_seeds_of_64_bits_are_compared_exactly(search: str, seeds: list[object]) -> None:
    environment = make_environment()
    for seed in ("-1e300", "7.0", 2**62, 2**62 + 1, "9" * 60):
        Task.objects.get_or_create(
            environment=environment, content_hash=str(seed), spec=f'{{"seed": {seed}}}'
        )
    found = Task.objects.filter(select(search=search).condition()).order_by("pk")
    assert [task.content_hash for task in found] == [str(seed) for seed in seeds]


@pytest.mark.parametrize("search", ["seed>\uff17", "seed<1_0", "seed>=inf", "seed>0x10"])
def test_other_spellings_of_digits_are_refused(search: str) -> None:
    with pytest.raises(BadFilter, match="comes a number"):
        Selection.parse({"search": search}, UNRESTRICTED)


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
        (
            "dificulty:3",
            "they have difficulty, kind, question, seed, hint. Did you mean 'difficulty'?",
        ),
        ("tests:3", "they have difficulty, kind"),
    ],
)
def test_it_says_what_is_wrong_with_a_field_and_what_is_allowed(search: str, problem: str) -> None:
    environment = make_environment(task_schema=json.dumps(SCHEMA))
    split = make_split(make_task({"hint": "only in tasks", "tests": []}))
    for values in ({"environment": str(environment.pk)}, {"split": str(split.pk)}):
        with pytest.raises(BadFilter) as refusal:
            Selection.parse({**values, "search": search}, UNRESTRICTED)
        assert f"search={search!r} cannot be used" in str(refusal.value) and problem in str(
            refusal.value
        )


@pytest.mark.parametrize(
    "search", ["http://host/a", '"dificulty:3"', "seed:null", "hint:x", "kind:medium", "note: 3"]
)
def test_it_leaves_addresses_phrases_and_what_is_allowed_alone(search: str) -> None:
    environment = make_environment(task_schema=json.dumps(SCHEMA))
    make_task({"hint": "only in tasks"})
    assert (
        Selection.parse({"environment": str(environment.pk), "search": search}, UNRESTRICTED).search
        == search
    )


@pytest.mark.django_db
def test_an_upgrade_folds_the_tasks_that_there_are() -> None:
    make_task({"q": "plain"})
    task = make_task(FOREIGN["a"])
    folded = task.folded
    Task.objects.update(folded=None)
    migration = import_module("environments.migrations.0023_fold_specs")
    migration.fold(apps, SimpleNamespace(connection=connection))
    assert list(Task.objects.order_by("pk").values_list("folded", flat=True)) == [None, folded]


@pytest.mark.django_db
def test_an_upgrade_folds_tasks_with_invisible_characters_again() -> None:
    task = make_task({"q": "Wh\u200b\xc4t?"})
    Task.objects.update(folded='{"q": "wh\u200bat?"}')
    import_module("environments.migrations.0025_fold_invisible_characters").fold(apps, None)
    assert [row.pk for row in Task.objects.filter(matches("WHAT"))] == [task.pk]
