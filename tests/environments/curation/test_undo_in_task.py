"""A change of one task is undone from its history, whatever it changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from environments.curation.action import ActionRefused
from environments.curation.actions.membership import MoveToSplit, RemoveFromSplit, SaveAsSplit
from environments.curation.actions.quarantine import Quarantine, Release
from environments.curation.actions.tags import AddTags, RemoveTags
from environments.curation.edit import Edit
from environments.curation.splits import DeleteSplit, freeze
from environments.curation.undo import UndoInTask
from environments.models import Task, TaskRevision, TaskTag
from tests.environments.curation.tasks import AUTHOR, make_tasks, served, split_of
from tests.environments.curation.transfer.files import Shelf
from tests.filters import select
from tests.stored import NOW, make_environment

pytestmark = pytest.mark.django_db(transaction=True)


def revision() -> int:
    return TaskRevision.objects.latest("id").pk


def undo(change: int) -> int | None:
    return UndoInTask(change, "as before").apply("bob").task


def edit(task: int, name: str) -> int:
    outcome = Edit(
        task, f'{{"n": "{name}"}}', revision() if TaskRevision.objects.exists() else 0
    ).apply(AUTHOR)
    return outcome.task or 0


def test_it_puts_back_the_content_before_an_edit() -> None:
    one, two = make_tasks(2)
    split = split_of(one, two)
    new = edit(one, "new")
    assert undo(revision()) == one
    assert served(split) == [one, two]
    last = TaskRevision.objects.latest("id")
    assert (last.kind, last.task_id, last.successor_id, last.author) == ("undo", new, one, "bob")


def test_it_puts_back_content_however_often_it_was_edited_since() -> None:
    [one] = make_tasks(1)
    split = split_of(one)
    second = edit(one, "second")
    first_edit = revision()
    third = edit(second, "third")
    assert third != second
    undo(first_edit)
    assert served(split) == [one]


def test_it_takes_back_an_undo_of_an_edit() -> None:
    [one] = make_tasks(1)
    split = split_of(one)
    new = edit(one, "new")
    undo(revision())
    assert undo(revision()) == new
    assert served(split) == [new]


def test_it_refuses_what_would_take_the_places_of_another_task() -> None:
    one, two = make_tasks(2)
    split = split_of(one, two)
    edit(two, "new")
    new = TaskRevision.objects.latest("id").successor_id or 0
    assert edit(one, "new") == new
    with pytest.raises(ActionRefused, match="had places of its own"):
        undo(revision())
    assert served(split) == [new]
    assert TaskRevision.objects.latest("id").kind == "merge"


def test_it_leaves_a_frozen_split_as_it_is() -> None:
    [one] = make_tasks(1)
    frozen = split_of(one, name="held-out")
    new = edit(one, "new")
    freeze(frozen)
    plan = UndoInTask(revision()).plan()
    assert plan.sentences[0].startswith("Split 'held-out' is frozen")
    undo(revision())
    assert served(frozen) == [new]


def test_it_releases_what_was_quarantined_and_the_other_way_round() -> None:
    [one] = make_tasks(1)
    split = split_of(one)
    Quarantine(select(), "wrong").apply(AUTHOR)
    undo(revision())
    assert served(split) == [one]
    undo(revision())
    assert served(split) == []
    assert Task.objects.get().reason == "wrong"


def test_it_puts_back_the_reason_of_a_released_task() -> None:
    make_tasks(1)
    Quarantine(select(), "wrong").apply(AUTHOR)
    Release(select()).apply(AUTHOR)
    undo(revision())
    assert (Task.objects.get().state, Task.objects.get().reason) == ("quarantined", "wrong")


def test_it_puts_back_a_reason_that_alone_was_changed(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    for reason in ("first", "second"):
        shelf.apply(shelf.lines({"w": "a", "_state": "quarantined", "_reason": reason}))
    undo(revision())
    assert (Task.objects.get().state, Task.objects.get().reason) == ("quarantined", "first")
    last = TaskRevision.objects.latest("id")
    assert (last.kind, last.author) == ("undo", "bob")
    assert (json.loads(last.before)["reason"], json.loads(last.after)["reason"]) == (
        "second",
        "first",
    )
    with pytest.raises(ActionRefused, match="changed again since"):
        undo(last.pk - 1)


def test_it_puts_back_tags() -> None:
    make_tasks(1)
    AddTags(select(), ("a", "b")).apply(AUTHOR)
    RemoveTags(select(), ("b",)).apply(AUTHOR)
    AddTags(select(), ("c",)).apply(AUTHOR)
    undo(revision())
    assert list(TaskTag.objects.values_list("name", flat=True)) == ["a"]


def test_it_puts_back_splits() -> None:
    one, two = make_tasks(2)
    train, hard = split_of(one, two), split_of(name="hard")
    MoveToSplit(select(ids=(one,)), train.pk, hard.pk).apply(AUTHOR)
    undo(revision())
    assert (served(train), served(hard)) == ([one, two], [])


@pytest.mark.parametrize("kind", ["edit", "quarantine", "tag", "splits"])
def test_it_refuses_what_was_undone_already(kind: str) -> None:
    [one] = make_tasks(1)
    split = split_of(one)
    actions = {
        "edit": Edit(one, '{"n": 9}', 0),
        "quarantine": Quarantine(select(), "wrong"),
        "tag": AddTags(select(), ("a",)),
        "splits": RemoveFromSplit(select(), split.pk),
    }
    actions[kind].apply(AUTHOR)
    change = revision()
    undo(change)
    with pytest.raises(ActionRefused, match=r"changed again since|that content already"):
        undo(change)


def test_it_refuses_to_change_a_frozen_split() -> None:
    [one] = make_tasks(1)
    split = split_of(one)
    RemoveFromSplit(select(), split.pk).apply(AUTHOR)
    freeze(split)
    assert UndoInTask(revision()).plan().sentences == (
        "Split 'train' is frozen and stays as it is.",
    )
    with pytest.raises(ActionRefused, match="frozen"):
        undo(revision())


def test_it_refuses_when_the_split_is_gone() -> None:
    make_tasks(1)
    outcome = SaveAsSplit(select(make_environment().pk), "new", "train").apply(AUTHOR)
    change = revision()
    DeleteSplit(outcome.split or 0).apply(AUTHOR)
    with pytest.raises(ActionRefused, match="frozen or gone"):
        undo(change)


def test_it_refuses_what_the_class_did_and_what_does_not_exist() -> None:
    [one] = make_tasks(1)
    sync = TaskRevision.objects.create(
        task_id=one,
        kind="sync",
        change="x",
        author="sync",
        before="{}",
        after='{"dropped": true}',
        created=NOW,
    )
    with pytest.raises(ActionRefused, match="class made this change"):
        undo(sync.pk)
    with pytest.raises(ActionRefused, match="does not exist"):
        undo(0)
