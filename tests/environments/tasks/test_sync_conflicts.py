"""A sync keeps what people decided about a task that its class changes or lists anew, and says
where both conflict."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from django.test import Client

from environments.curation.actions.membership import RemoveFromSplit
from environments.curation.actions.quarantine import Quarantine
from environments.curation.conflicts import open_conflicts
from environments.curation.edit import Edit, last_revision
from environments.models import Environment, Split, SplitEntry, SyncConflict, Task
from environments.models.task_hash import content_hash
from environments.tasks.revised_tasks import new_versions
from environments.tasks.sync_report import SplitSync
from tests.environments.listings import listing, synced
from tests.filters import select
from tests.rows import each

pytestmark = pytest.mark.django_db(transaction=True)

APPLES = {"question": "How many apples has Ada?", "answer": 3, "level": "easy"}
PEARS = {"question": "How many pears has Bob?", "answer": 3, "level": "easy"}
HARD = {**APPLES, "level": "hard"}
MENDED = {**APPLES, "question": "How many green apples has Ada?"}


def sync_splits(**tasks: Any) -> tuple[SplitSync, ...]:
    return asyncio.run(synced(listing(tasks))).splits


def served(split: str = "train") -> list[Any]:
    places = SplitEntry.objects.filter(split__name=split, is_hidden=False, until=None).order_by(
        "position"
    )
    return [json.loads(spec) for spec in places.values_list("task__spec", flat=True)]


def task(spec: dict[str, Any]) -> Task:
    return next(one for one in Task.objects.all() if json.loads(one.spec) == spec)


def edit(old: dict[str, Any], new: dict[str, Any]) -> None:
    row = task(old)
    Edit(row.pk, json.dumps(new), last_revision(row)).apply("ada")


def decide(decision: str) -> None:
    if decision == "edit":
        edit(APPLES, MENDED)
    elif decision == "removal":
        RemoveFromSplit(select(ids=(task(APPLES).pk,)), Split.objects.get().pk).apply("ada")
    else:
        Quarantine(select(ids=(task(APPLES).pk,)), "ambiguous").apply("ada")


def listed_by_conflicts() -> list[str]:
    return sorted(str(json.loads(row.listed.spec)) for row in open_conflicts() if row.listed)


def press(client: Client, **button: str) -> None:
    [row] = open_conflicts()
    client.post(f"/admin/environments/syncconflict/{row.pk}/settle/", button)
    assert not open_conflicts().exists()


def test_a_new_split_gets_the_edit_of_a_task_that_it_lists() -> None:
    sync_splits(train=[APPLES, PEARS])
    edit(APPLES, {**MENDED, "level": "middle"})
    edit({**MENDED, "level": "middle"}, MENDED)
    _, test = sync_splits(train=[APPLES, PEARS], test=[PEARS, APPLES])
    assert (test.added, test.succeeded) == (2, 1) and "2 added (1 as edited elsewhere)" in str(test)
    assert served("test") == [PEARS, MENDED]
    assert sync_splits(train=[APPLES, PEARS], test=[APPLES, PEARS])[1].edited == 1
    assert served("test") == [MENDED, PEARS]


def test_a_split_that_has_the_edit_already_does_not_get_the_old_task_beside_it() -> None:
    sync_splits(train=[APPLES, PEARS])
    edit(APPLES, MENDED)
    sync_splits(train=[APPLES, PEARS], test=[MENDED, APPLES])
    assert served("test") == [MENDED]


def test_a_task_that_somebody_put_in_again_is_served_as_it_is() -> None:
    sync_splits(train=[APPLES, PEARS])
    edit(APPLES, MENDED)
    edit(MENDED, APPLES)
    assert sync_splits(train=[APPLES, PEARS], test=[APPLES])[1].succeeded == 0
    assert served("test") == [APPLES]


@each(
    "changed",
    [HARD, {**APPLES, "answer": 4}, {**APPLES, "hint": "Count."}, {"question": APPLES["question"]}],
)
def test_an_edited_task_stays_in_the_place_of_what_its_class_made_of_it(
    changed: dict[str, Any],
) -> None:
    sync_splits(train=[APPLES, PEARS])
    edit(APPLES, MENDED)
    [train] = sync_splits(train=[changed, PEARS])
    assert served() == [MENDED, PEARS]
    assert train.conflicts == 1 and "1 conflict with what people did: look at Conflicts" in str(
        train
    )
    [conflict] = open_conflicts()
    assert (conflict.former, conflict.kept, conflict.listed) == (
        task(APPLES),
        task(MENDED),
        task(changed),
    )
    assert sync_splits(train=[PEARS, changed])[0].conflicts == 0 and served() == [PEARS, MENDED]


def test_a_conflict_is_settled_for_the_class_or_for_the_edit(client: Client) -> None:
    sync_splits(train=[APPLES, PEARS])
    edit(APPLES, MENDED)
    sync_splits(train=[HARD, PEARS])
    page = client.get("/admin/environments/syncconflict/").content.decode()
    assert "How many apples has Ada?" in page and "edited it" in page and "changed it" in page
    [row] = open_conflicts()
    page = client.get(f"/admin/environments/syncconflict/{row.pk}/change/").content.decode()
    assert "green" in page and "hard" in page
    press(client, keep="1")
    assert (
        served() == [MENDED, PEARS]
        and sync_splits(train=[HARD, PEARS], test=[HARD])[1].succeeded == 1
    )
    SyncConflict.objects.update(settled=None)
    press(client)
    assert served() == [HARD, PEARS] and served("test") == [HARD]
    assert (
        client.get("/admin/environments/syncconflict/")
        .content.decode()
        .count("edited it; the edited")
        == 0
    )


def test_an_edit_of_what_the_class_drops_is_a_conflict_until_it_is_listed_again(
    client: Client,
) -> None:
    sync_splits(train=[APPLES, PEARS])
    edit(APPLES, MENDED)
    sync_splits(train=[PEARS])
    assert served() == [PEARS, MENDED] and open_conflicts().get().listed is None
    sync_splits(train=[PEARS, APPLES])
    assert served() == [PEARS, MENDED] and not open_conflicts().exists()
    sync_splits(train=[PEARS])
    press(client)
    assert served() == [PEARS]


def test_what_people_took_out_stays_out_when_its_class_changes_a_label(client: Client) -> None:
    sync_splits(train=[APPLES, PEARS])
    RemoveFromSplit(select(ids=(task(APPLES).pk,)), Split.objects.get().pk).apply("ada")
    [train] = sync_splits(train=[HARD, PEARS])
    assert served() == [PEARS] and (train.withheld, train.conflicts) == (1, 1)
    assert sync_splits(train=[PEARS, HARD])[0].withheld == 1
    press(client)
    assert served() == [PEARS, HARD]


def test_what_people_quarantined_stays_quarantined_when_its_class_changes_a_label(
    client: Client,
) -> None:
    sync_splits(train=[APPLES, PEARS])
    Quarantine(select(ids=(task(APPLES).pk,)), "ambiguous").apply("ada")
    assert sync_splits(train=[HARD, PEARS])[0].conflicts == 1
    assert served() == [PEARS] and task(HARD).reason == "ambiguous"
    press(client)
    assert served() == [HARD, PEARS]


OTHER = {"question": "Which fruit is left?", "answer": "a plum", "level": "easy"}


@pytest.mark.parametrize(("decision", "lists", "expected", "conflicts"), [
    ("edit", {"train": [APPLES, PEARS], "dev": [HARD, OTHER]}, {"dev": [MENDED, OTHER]}, ["dev"]),
    ("edit", {"train": [PEARS], "dev": [HARD, OTHER]}, {"dev": [MENDED, OTHER]}, ["dev", "train"]),
    ("edit", {"training": [HARD, PEARS]}, {"training": [MENDED, PEARS]}, ["training"]),
    ("edit", {"train": [APPLES, PEARS], "dev": [{**APPLES, "answer": 3.0}]}, {"dev": [MENDED]}, ["dev"]),
    ("edit", {"train": [APPLES, PEARS], "dev": [{**APPLES, "question": "How many\u200b apples has "
                                                                       "Ada ?"}]},
     {"dev": [MENDED]}, ["dev"]),
    ("edit", {"train": [APPLES, PEARS], "dev": [HARD], "test": [HARD]}, {"dev": [MENDED], "test": [MENDED]}, ["dev"]),
    ("edit", {"train": [{**MENDED, "level": "hard"}, PEARS]}, {"train": [MENDED, PEARS]}, ["train"]),
    ("quarantine", {"train": [APPLES, PEARS], "dev": [HARD, OTHER]}, {"train": [PEARS], "dev": [OTHER]}, ["dev"]),
    ("quarantine", {"train": [APPLES, PEARS], "dev": [{**APPLES, "answer": 3.0}]}, {"dev": []}, ["dev"]),
    ("quarantine", {"training": [HARD, PEARS]}, {"training": [PEARS]}, ["training"]),
])  # fmt: skip
def test_a_decision_holds_in_every_split(
    decision: str, lists: dict[str, list[Any]], expected: dict[str, list[Any]], conflicts: list[str]
) -> None:
    sync_splits(train=[APPLES, PEARS])
    decide(decision)
    said = [split.split for split in sync_splits(**lists) if split.conflicts]
    assert {name: served(name) for name in expected} == expected
    rows = open_conflicts().order_by("split__name")
    assert sorted(said) == [row.split.name for row in rows] == conflicts
    assert all(
        row.listed is not None for row in rows if row.split.name != "train" or len(rows) == 1
    )


EASIER, SPELLED, HIDDEN = (
    {**APPLES, "level": "1"},
    {**APPLES, "answer": 3.0},
    {**APPLES, "question": "How many\u200b apples has Ada ?"},
)


@each(("decision", "lists", "expected", "copies"), [
    ("edit", {"train": [HARD, EASIER, PEARS]}, {"train": [PEARS, MENDED]}, [HARD, EASIER]),
    ("edit", {"train": [APPLES, PEARS, HARD]}, {"train": [MENDED, PEARS]}, [HARD]),
    ("edit", {"train": [APPLES, PEARS], "dev": [HARD, OTHER, EASIER]}, {"dev": [OTHER]}, [HARD, EASIER]),
    ("edit", {"train": [APPLES, PEARS], "dev": [SPELLED, HIDDEN]}, {"dev": []}, [SPELLED, HIDDEN]),
    ("edit", {"train": [APPLES, PEARS], "dev": [SPELLED, APPLES]}, {"dev": [MENDED]}, [SPELLED]),
    ("edit", {"train": [PEARS], "dev": [HARD], "test": [EASIER]}, {"dev": [MENDED], "test": [MENDED]}, [HARD, EASIER]),
    ("edit", {"train": [HARD, PEARS], "dev": [EASIER]}, {"train": [MENDED, PEARS], "dev": [MENDED]}, [HARD, EASIER]),
    ("quarantine", {"train": [HARD, EASIER, PEARS]}, {"train": [PEARS]}, [HARD, EASIER]),
    ("quarantine", {"train": [APPLES, PEARS], "dev": [HARD, EASIER]}, {"dev": []}, [HARD, EASIER]),
    ("quarantine", {"train": [APPLES, HARD, PEARS]}, {"train": [PEARS]}, [HARD]),
    ("removal", {"train": [HARD, EASIER, PEARS]}, {"train": [PEARS]}, [HARD, EASIER]),
])  # fmt: skip
def test_no_copy_of_what_people_decided_about_is_served_and_each_is_a_conflict(
    decision: str, lists: dict[str, list[Any]], expected: dict[str, list[Any]], copies: list[Any]
) -> None:
    for model in (SplitEntry, SyncConflict, Split, Task, Environment):
        model._default_manager.all().delete()
    sync_splits(train=[APPLES, PEARS])
    decide(decision)
    sync_splits(**lists)
    assert {name: served(name) for name in expected} == expected
    assert listed_by_conflicts() == sorted(map(str, copies))
    sync_splits(**{name: tasks[::-1] for name, tasks in lists.items()})
    assert {name: len(served(name)) for name in expected} == {
        name: len(tasks) for name, tasks in expected.items()
    }
    assert listed_by_conflicts() == sorted(map(str, copies))


def test_a_copy_of_an_edited_task_is_served_once_its_conflict_is_settled_for_the_class(
    client: Client,
) -> None:
    sync_splits(train=[APPLES, PEARS])
    edit(APPLES, MENDED)
    sync_splits(train=[APPLES, PEARS, HARD])
    page = client.get("/admin/environments/syncconflict/").content.decode()
    assert (
        "each copy of what they edited is quarantined" in page and f"task {task(HARD).pk}" in page
    )
    press(client)
    assert served() == [MENDED, PEARS, HARD]
    sync_splits(train=[APPLES, PEARS, HARD], dev=[EASIER, HARD])
    assert served("dev") == [EASIER, HARD] and not open_conflicts().exists()


def test_a_task_that_people_left_beside_an_edited_one_stays_what_it_is_in_every_split() -> None:
    sync_splits(train=[APPLES, HARD])
    edit(APPLES, MENDED)
    sync_splits(train=[APPLES, HARD], dev=[HARD])
    assert served("dev") == [HARD] and not open_conflicts().exists()


def test_two_edits_of_one_question_stay_in_the_places_of_what_the_class_made_of_them() -> None:
    again = {**APPLES, "level": "middle"}
    sync_splits(train=[APPLES, again])
    edit(APPLES, MENDED)
    edit(again, OTHER)
    [train] = sync_splits(train=[{**APPLES, "level": "1"}, {**APPLES, "level": "2"}])
    assert sorted(map(str, served())) == sorted(map(str, [MENDED, OTHER])) and train.conflicts == 2
    assert all(row.listed and row.kept for row in open_conflicts())


@pytest.mark.parametrize("decision", ["edit", "removal", "quarantine"])
def test_a_conflict_ends_when_the_class_lists_the_original_again(decision: str) -> None:
    sync_splits(train=[APPLES, PEARS])
    decide(decision)
    assert sync_splits(train=[HARD, PEARS])[0].conflicts == 1
    there = served()
    assert sync_splits(train=[APPLES, PEARS])[0].conflicts == 0
    assert served() == there and not open_conflicts().exists()


def versions(
    wanted: Any, added: list[Any], others: tuple[Any, ...] = (), gone: tuple[Any, ...] = ()
) -> Any:
    [old], more, new, rest = (
        [json.dumps(spec) for spec in specs] for specs in ([wanted], gone, added, others)
    )
    earlier, news = ({content_hash(text): text for text in texts} for texts in ([old, *more], new))
    seen = {content_hash(text) for text in rest}
    return new_versions(
        {content_hash(old): [old]}, earlier, news, [*new, *rest], beside=seen.intersection
    )


@each(("wanted", "added", "is_version"), [
    (APPLES, HARD, True), (APPLES, PEARS, False), ({"n": 1}, {"n": 1, "level": 2}, True), ({"n": 1}, {"n": 2}, False),
    ({"a": 1, "b": 2, "level": 1}, {"a": 1, "b": 2, "level": 2}, True), ({"seed": 1}, {"seed": 2}, False),
    ({"a": 1, "b": 2, "level": 1}, {"a": 1, "b": 3, "level": 2}, False), ({}, {}, False),
    ({"answer": 3, "question": "A?"}, {"answer": 3, "question": "B?"}, False),
])  # fmt: skip
def test_which_content_is_a_version_of_another(wanted: Any, added: Any, is_version: bool) -> None:
    assert bool(versions(wanted, [added])) is is_version


def test_a_content_that_is_like_what_people_left_beside_is_a_version_of_none() -> None:
    maze, other, third = ({"goal": "Find the way out.", "seed": n} for n in range(3))
    assert versions(maze, [other]) and len(versions(maze, [other, third])) == 2
    assert not versions(maze, [other], others=(third,)) and not versions(
        maze, [other], gone=(third,)
    )
