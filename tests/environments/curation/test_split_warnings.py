"""What to know about splits before they are changed or used."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from environments.curation import leaks, split_warnings
from environments.curation.actions.membership import (
    CopyToSplit,
    MoveToSplit,
    RemoveFromSplit,
    SaveAsSplit,
)
from environments.curation.actions.quarantine import Quarantine
from environments.curation.splits import FreezeSplit, UnfreezeSplit
from environments.display.text_normalization import normalized
from environments.models import SecurityEvent, Split, Task
from environments.scoring.definition import definition_of
from environments.tasks.split_indexes import served
from episodes.models import Suite
from episodes.suites.leaks import leaks_of_list, leaks_of_members
from episodes.suites.versions import NewMember, publish
from tests.environments.curation.tasks import AUTHOR
from tests.filters import select
from tests.rows import each
from tests.stored import make_split, make_statistics, make_task

pytestmark = pytest.mark.django_db


def train_and_test(*questions: str) -> tuple[Split, Split, list[Task]]:
    """Return a train split with a question, an empty test split, and tasks with the other
    questions."""
    train, test = (
        make_split(make_task({"question": "How many?", "answer": 3, "seed": 1})),
        make_split(name="test"),
    )
    Split.objects.filter(pk=test.pk).update(type="test")
    test.refresh_from_db()
    return (
        train,
        test,
        [
            make_task({"question": text, "answer": 3, "seed": n})
            for n, text in enumerate(questions, 2)
        ],
    )


def sentences(plan: object) -> str:
    return " ".join(getattr(plan, "sentences", ()))


def test_tasks_that_train_has_are_named_before_they_are_put_into_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    train, test, others = train_and_test(" how MANY ?", "How much?")
    shared = train.entries.get().task
    selection = select(
        environment=train.environment_id, ids=(shared.pk, *(task.pk for task in others))
    )
    for action in (CopyToSplit(selection, test.pk), SaveAsSplit(selection, "new", "test")):
        assert "1 task is also in the train split 'train'" in sentences(action.plan())
        assert "1 task says the same as another in the train split 'train'" in sentences(
            action.plan()
        )
    # it leaves train
    assert "also in" not in sentences(MoveToSplit(selection, train.pk, test.pk).plan())
    assert "also in" not in sentences(SaveAsSplit(selection, "new", "train").plan())
    monkeypatch.setattr(leaks, "MAX_READ", 2)
    assert "1 task is also in the train split 'train'" in sentences(
        CopyToSplit(selection, test.pk).plan()
    )


def test_a_short_answer_that_the_prompt_announces_is_named_in_the_plan() -> None:
    train = make_split(make_task({"question": "Which?", "answer": "Po"}))
    tasks = [
        {"question": "Is it 7?", "answer": 7},
        {"question": "Which? (The answer is Nile.)", "answer": "Nile"},
    ]
    selection = select(
        environment=train.environment_id, ids=tuple(make_task(task).pk for task in tasks)
    )
    plan = SaveAsSplit(selection, "new", "test").plan()
    assert "The field 'answer' of 1 task shows in another field that agents see." in sentences(plan)


def test_a_split_s_page_names_tasks_of_another_type_and_readable_answers(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, _, [near, other] = train_and_test("how many", "Other?")
    told = make_task({"question": "The password is open sesame now.", "answer": "open sesame now"})
    test = make_split(near, other, told, name="held out")
    Split.objects.filter(pk=test.pk).update(type="test")
    address = f"/admin/environments/split/{test.pk}/change/"
    page = client.get(address).content.decode()
    assert f"1 task says the same as another in the train split &#x27;{train.name}&#x27;" in page
    assert (
        "The field &#x27;answer&#x27; of 1 task shows in another field" in page
        and f"task {told.pk}</a>" in page
    )
    monkeypatch.setattr("environments.curation.admin.split.MAX_READ_BY_PAGE", 3)
    assert (
        "shows in another field" not in (page := client.get(address).content.decode())
        and "?review=1" in page
    )
    assert "shows in another field" in client.get(address + "?review=1").content.decode()


def test_tasks_whose_words_do_not_tell_them_apart_are_no_duplicates() -> None:
    for name, kind in (("train", "train"), ("test", "test")):
        mazes = [make_task({"goal": "Find the way out.", "seed": f"{name}/{n}"}) for n in range(4)]
        split = make_split(*mazes, name=name)
        Split.objects.filter(pk=split.pk).update(type=kind)
    review = leaks.leaks_of_split(Split.objects.get(name="test"))
    assert review.sentences == []


@pytest.mark.parametrize("is_frozen", [True, False])
def test_a_change_of_a_test_split_that_was_quoted_is_warned_of(
    client: Client, *, is_frozen: bool
) -> None:
    _, test, [task, other] = train_and_test("One?", "Two?")
    CopyToSplit(select(ids=(task.pk, other.pk)), test.pk).apply(AUTHOR)
    change = Quarantine(select(ids=(task.pk,)), "wrong")
    assert split_warnings.warnings_of_plan(change.plan()) == []
    if is_frozen:
        FreezeSplit(test.pk).apply(AUTHOR), UnfreezeSplit(test.pk).apply(AUTHOR)
    else:
        make_statistics(other, 4, 2)
    reason = "it was frozen on" if is_frozen else "leaderboards and curves have attempts at it"
    [warning] = split_warnings.warnings_of_plan(change.plan())
    assert f"'test' is a test split, and {reason}" in warning
    asked = {"ids": str(task.pk), "ask": "1", "reason": "wrong"}
    assert (
        "is a test split, and"
        in client.get("/admin/environments/task/act/quarantine/", asked).content.decode()
    )
    change.apply(AUTHOR)
    page = client.get(f"/admin/environments/split/{test.pk}/change/").content.decode()
    assert ("has other tasks or another order now" in page) == is_frozen


def test_an_export_and_a_suite_quote_a_test_split(client: Client) -> None:
    _, test, [task, _] = train_and_test("One?", "Two?")
    change = RemoveFromSplit(select(ids=(task.pk,)), test.pk)
    CopyToSplit(select(ids=(task.pk,)), test.pk).apply(AUTHOR)
    assert split_warnings.warnings_of_plan(change.plan()) == []
    client.get(f"/admin/environments/task/export/?split={test.pk}&format=jsonl")
    [warning] = split_warnings.warnings_of_plan(change.plan())
    assert "it was exported on" in warning
    SecurityEvent.objects.update(
        what=f"tasks as csv: environment={test.environment.name} split=other"
    )
    assert split_warnings.warnings_of_plan(change.plan()) == []
    SecurityEvent.objects.update(
        what=f"tasks as csv: environment={test.environment.name} split=test"
    )
    assert split_warnings.warnings_of_plan(change.plan()) == [warning]
    SecurityEvent.objects.all().delete()
    test.refresh_from_db()
    publish(
        Suite(name="core"),
        "success",
        [NewMember(test, definition_of(test.environment))],
        AUTHOR,
    )
    [warning] = split_warnings.warnings_of_plan(change.plan())
    assert "a suite has listed its tasks since" in warning


def typed(split: Split, kind: str) -> Split:
    Split.objects.filter(pk=split.pk).update(type=kind)
    split.refresh_from_db()
    return split


def test_the_same_content_is_found_however_many_tasks_there_are_and_the_rest_is_said(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, near, other = (
        make_task({"question": text}) for text in ("Shared?", "How many?", "Other?")
    )
    make_split(shared, make_task({"question": "How MANY ?"}))
    test = typed(make_split(shared, near, other, shared, name="test"), "test")
    monkeypatch.setattr(leaks, "MAX_READ", 3)
    monkeypatch.setattr("environments.curation.admin.split.MAX_READ_BY_PAGE", 3)
    for address in ("freeze", "change"):
        page = client.get(f"/admin/environments/split/{test.pk}/{address}/").content.decode()
        assert "1 task is also in the train split &#x27;train&#x27;" in page
        assert "1 task is in it more than once." in page
        assert (
            "Near-duplicates and readable answers were not, because that takes reading 6 tasks"
            in page
        )
    page = client.get(f"/admin/environments/split/{test.pk}/change/?review=1").content.decode()
    assert "1 task says the same as another in the train split" in page and "were not" not in page


def test_whole_numbers_written_with_a_point_are_the_same_words() -> None:
    assert normalized({"q": "How many?", "n": [1.0, {"m": 2}]}) == normalized(
        {"q": "How many?", "n": [1, {"m": 2.0}]}
    )
    assert normalized({"q": "How many?", "n": 1.5}) != normalized({"q": "How many?", "n": 1})


QUESTION = "How many apples - of 3.5 kg - has {n}?"
COPIES: list[dict[str, Any]] = [
    {"hint": None},
    {"hint": "", "tags": [], "more": {"hint": [None, " "]}},
    {"name": "train/17", "task_id": "17", "taskId": 3, "example-id": 4},
    {"meta": {"answer": 3, "id": 17}},
    {
        "grading": {"answer": 3, "correctAnswer": "3"},
        "reward_model": {"ground_truth": "3"},
        "expected_output": 3,
    },
    {"question": "how many apples \u2013 of 3.5 kg \u2212 has {n}"},
    {"question": "**\u00bfHow many apples - of 3.5 kg - has {n}???**"},
    {"question": "- \u00abHow many, apples - of 3.5 kg - has \u201c{n}\u201d...\u00bb )"},
    {"question": "(How many apples... - of 3.5 kg - has {n}?!)"},
]
OTHERS: list[dict[str, Any]] = [
    {"hint": "Count."},
    {"question": "How many apples + of 3.5 kg - has {n}?"},
    {"question": "How many apples - of 35 kg - has {n}?"},
    {"question": "How many apples - of -3.5 kg - has {n}?"},
    {"level": 0},
    {"edges": [{"source": 1, "target": 2}]},
    {"board": [None, "x"]},
    {"board": ["x", None]},
]


def with_copies(changes: list[dict[str, Any]]) -> Split:
    """Return a test split with a changed copy of each task of a train split."""
    asked = [{"question": QUESTION.format(n=n), "answer": n} for n in range(len(changes))]
    make_split(*map(make_task, asked))
    copies = [
        json.loads(json.dumps({**spec, **more}).replace("{n}", str(n)))
        for n, (spec, more) in enumerate(zip(asked, changes, strict=True))
    ]
    return typed(make_split(*map(make_task, copies), name="test"), "test")


def test_copies_that_differ_in_what_no_agent_reads_are_found_wherever_tasks_are_used() -> None:
    test = with_copies(COPIES)
    copies = f"{len(COPIES)} tasks say the same as another in the train split 'train'"
    ids = frozenset(served(test).values_list("task", flat=True))
    member = NewMember(test, definition_of(test.environment))
    for told in (
        sentences(FreezeSplit(test.pk).plan()),
        sentences(
            SaveAsSplit(
                select(environment=test.environment_id, ids=tuple(ids)), "new", "test"
            ).plan()
        ),
        *("".join(leaks_of_list(test, only)) for only in (None, ids)),
        "".join(leaks_of_members([member])),
    ):
        assert copies in told


def test_tasks_that_ask_something_else_are_no_copies() -> None:
    assert leaks.leaks_of_split(with_copies(OTHERS)).sentences == []


@each(
    ("text", "other"),
    [
        ("a != b", "a = b"),
        ("2**3", "2*3"),
        ("-1 + 2", "1 + 2"),
        (".5", "5"),
        ("5%", "5"),
        ("?", "!"),
    ],
)
def test_signs_of_formulas_tell_texts_apart(text: str, other: str) -> None:
    assert normalized({"formula": text}) != normalized({"formula": other})


def test_a_split_that_has_all_twice_is_compared() -> None:
    asked = [{"question": QUESTION.format(n=n), "answer": n} for n in range(3)]
    twice = [
        *asked,
        *({**spec, "name": "again", "meta": {"answer": str(spec["answer"])}} for spec in asked),
    ]
    train = make_split(*map(make_task, twice))
    test = typed(make_split(make_task({**asked[0], "hint": ""}), name="test"), "test")
    assert (
        "1 task says the same as another in the train split"
        in leaks.leaks_of_split(test).sentences[0]
    )
    assert (
        "6 tasks say the same as another in the same split"
        in leaks.leaks_of_split(train).sentences[1]
    )


def test_contents_that_are_too_long_to_be_read_are_counted() -> None:
    make_split(make_task({"question": "x" * 9_000}), make_task())
    test = typed(
        make_split(make_task({"question": "x" * 9_000, "hint": None}), name="test"), "test"
    )
    assert leaks.leaks_of_split(test).sentences == [
        "1 task in the train split 'train' is too long or too deep to be read: only the same "
        "content was looked for.",
        "1 task is too long or too deep to be read: only the same content was looked for.",
    ]


def test_where_labels_alone_tell_tasks_apart_they_count() -> None:
    mazes = [{"goal": "Find the way out.", "seed": n} for n in range(4)]
    make_split(*map(make_task, mazes))
    copies = [
        *({**maze, "hint": None} for maze in mazes[:2]),
        *({**mazes[0], "seed": n} for n in (7, 8)),
    ]
    test = typed(make_split(*map(make_task, copies), name="test"), "test")
    assert (
        leaks.leaks_of_split(test)
        .sentences[0]
        .startswith("2 tasks say the same as another in the train split")
    )


def test_near_duplicates_and_readable_answers_are_found_behind_invisible_characters() -> None:
    make_split(*(make_task({"question": text}) for text in ("How many?", "Who?", "Why?")))
    told = make_task(
        {
            "question": "The pass\u200bword is open ses\u2060ame now.",
            "answer": "open se\ufeffsame now",
        }
    )
    near = leaks.leaks_of_split(
        typed(make_split(make_task({"question": "ho\u200bW many"}), told, name="test"), "test")
    )
    assert [sentence.split(",")[0] for sentence in near.sentences] == [
        "1 task says the same as another in the train split 'train'",
        "The field 'answer' of 1 task shows in another field that agents see.",
    ]


def test_near_duplicates_within_a_split_are_named_before_they_are_put_in_and_on_its_page(
    client: Client,
) -> None:
    split = make_split(
        *(make_task({"question": f"How many apples has {name}?"}) for name in ("Ada", "Bob", "Cid"))
    )
    twin = make_task({"question": "How many  apples has ADA"})
    twins = select(
        environment=split.environment_id,
        ids=(twin.pk, make_task({"question": "How many apples has ada!"}).pk, make_task().pk),
    )
    plan = CopyToSplit(select(ids=(twin.pk,)), split.pk).plan()
    assert "1 task says the same as another in split 'train' itself" in sentences(plan)
    assert "2 tasks say the same as another of them" in sentences(
        SaveAsSplit(twins, "new", "test").plan()
    )
    CopyToSplit(select(ids=(twin.pk,)), split.pk).apply(AUTHOR)
    page = client.get(f"/admin/environments/split/{split.pk}/change/").content.decode()
    assert "2 tasks say the same as another in the same split" in page


def test_a_copy_that_stays_behind_is_named_before_a_task_is_moved() -> None:
    train, test, _ = train_and_test()
    CopyToSplit(
        select(ids=(make_task({"question": "how many", "seed": 9}).pk, make_task().pk)), train.pk
    ).apply(AUTHOR)
    moved = select(ids=(train.entries.get(position=0).task_id,))
    assert "1 task says the same as another in the train split" in sentences(
        MoveToSplit(moved, train.pk, test.pk).plan()
    )


def test_the_command_that_freezes_names_what_the_split_shares(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shared = make_task({"question": "Shared?"})
    make_split(shared)
    typed(make_split(shared, name="test"), "test")
    call_command("freeze_split", "math", "test")
    assert "1 task is also in the train split 'train'" in capsys.readouterr().err


def test_the_page_of_a_very_large_split_says_that_nothing_was_compared(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = make_split(make_task(), make_task())
    monkeypatch.setattr("environments.curation.admin.split.MAX_READ_ON_REQUEST", 1)
    address = f"/admin/environments/split/{split.pk}/change/"
    assert (
        "Nothing was compared: this split and those of other types have 2 tasks."
        in client.get(address).content.decode()
    )
    assert "Nothing was compared" not in client.get(f"{address}?review=1").content.decode()
