"""Undo: an action is taken back as a whole, to the same places, and what was changed since is left
alone."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from django.utils import timezone

from environments.curation.action import ActionRefused
from environments.curation.actions.membership import (
    CopyToSplit,
    MoveToSplit,
    RemoveFromSplit,
    SaveAsSplit,
)
from environments.curation.actions.quarantine import Quarantine, Release
from environments.curation.actions.tags import AddTags, RemoveTags
from environments.curation.edit import Edit, last_revision
from environments.curation.environment_settings import SetBlind, SetEnabled, SetPrivacy, SetScoring
from environments.curation.splits import (
    DeleteSplit,
    FreezeSplit,
    Seal,
    SealSplit,
    UnfreezeSplit,
    content_digest,
    find_split,
    seal_of,
    to_seal,
)
from environments.curation.undo import Undo, UndoInTask, left_alone
from environments.curation.work import finish_interrupted
from environments.models import (
    CurationAction,
    Environment,
    SecurityEvent,
    Split,
    SplitRemoval,
    Task,
    TaskRevision,
    TaskTag,
)
from environments.tasks.split_change import SplitChange, commit
from environments.tasks.task_places import FormerPlace, SplitPlace
from tests.environments.curation.tasks import AUTHOR, break_off_after, make_tasks, served, split_of
from tests.environments.curation.transfer.files import Shelf
from tests.filters import select
from tests.stored import NOW, make_environment

pytestmark = pytest.mark.django_db(transaction=True)


def latest() -> CurationAction:
    return CurationAction.objects.latest("pk")


def undo(action: CurationAction | None = None) -> str:
    return Undo((action or latest()).pk).apply("bob").sentence


def test_every_action_is_recorded_with_who_what_and_how_many() -> None:
    make_tasks(3)
    Quarantine(select(), "wrong").apply(AUTHOR)
    row = latest()
    assert (row.author, row.title, row.reason, row.changed) == (
        AUTHOR,
        "Quarantined 3 tasks.",
        "wrong",
        3,
    )
    assert (row.environment, row.stage) == (make_environment(), "done")
    event = SecurityEvent.objects.get(kind="curated")
    assert (event.who, event.what, event.detail) == (AUTHOR, row.title, f"action {row.pk}")


def test_what_changes_nothing_and_what_fails_is_not_recorded() -> None:
    make_tasks(1)
    AddTags(select(), ("a",)).apply(AUTHOR)
    AddTags(select(), ("a",)).apply(AUTHOR)
    with pytest.raises(ActionRefused):
        AddTags(select(), ("a,b",)).apply(AUTHOR)
    assert CurationAction.objects.count() == 1


def test_it_takes_back_a_quarantine_to_the_same_places() -> None:
    ids = make_tasks(4)
    split = split_of(*ids)
    Quarantine(select(ids=tuple(ids[1:3])), "wrong").apply(AUTHOR)
    assert undo() == "Undone: Quarantined 2 tasks."
    assert served(split) == ids
    assert not Task.objects.exclude(state="active", reason="").exists()


def test_what_was_changed_since_is_left_alone_and_listed() -> None:
    one, two = make_tasks(2)
    split_of(one, two)
    Quarantine(select(), "wrong").apply(AUTHOR)
    action = latest()
    Release(select(ids=(one,), state="")).apply(AUTHOR)
    Quarantine(select(ids=(one,)), "another reason").apply(AUTHOR)
    assert (
        "1 of them has changed since; the undo keeps these changes."
        in Undo(action.pk).plan().sentences
    )
    assert undo(action).endswith("1 task has changed again since, so the undo left it alone.")
    assert dict(Task.objects.values_list("pk", "state")) == {one: "quarantined", two: "active"}
    assert [revision.task_id for revision in left_alone(action, latest())] == [one]


def test_what_was_changed_in_another_respect_is_taken_back() -> None:
    one, two, three, four = make_tasks(4)
    split = split_of(one, two, three, four)
    AddTags(select(), ("a",)).apply(AUTHOR)
    action = latest()
    RemoveTags(select(ids=(one,)), ("a",)).apply(AUTHOR)
    AddTags(select(ids=(two,)), ("b",)).apply(AUTHOR)
    assert "2 of them have changed since" in Undo(action.pk).plan().sentences[1]
    assert undo(action) == (
        "Undone: Tagged 4 tasks “a”. 1 task has changed again since, so the undo left it alone."
    )
    assert {revision.task_id for revision in left_alone(action, latest())} == {one}
    RemoveFromSplit(select(ids=(three, four)), split.pk).apply(AUTHOR)
    action = latest()
    CopyToSplit(select(ids=(three,), state=""), split.pk).apply(AUTHOR)
    Quarantine(select(ids=(four,), state=""), "wrong").apply(AUTHOR)
    undo(action)
    assert {revision.task_id for revision in left_alone(action, latest())} == {three}


def test_the_plan_counts_an_edit_that_was_edited_again() -> None:
    one, two = make_tasks(2)
    split_of(one, two)
    task = Edit(one, '{"n": 10}', 0).apply(AUTHOR).task or 0
    first = latest()
    Edit(task, '{"n": 11}', last_revision(Task.objects.get(pk=task))).apply(AUTHOR)
    assert "1 of them has changed since" in Undo(first.pk).plan().sentences[1]


def test_it_takes_off_only_the_tags_that_the_action_added() -> None:
    make_tasks(1)
    AddTags(select(), ("a", "b")).apply(AUTHOR)
    action = latest()
    AddTags(select(), ("c",)).apply(AUTHOR)
    undo(action)
    assert list(TaskTag.objects.values_list("name", flat=True)) == ["c"]


def test_a_task_that_was_taken_out_comes_back_to_its_place_and_to_the_class() -> None:
    ids = make_tasks(4)
    split = split_of()
    with SplitChange(split) as change:
        change.place([SplitPlace(task, Task.objects.get(pk=task).content_hash) for task in ids])
        commit(change)
    RemoveFromSplit(select(ids=tuple(ids[1:3])), split.pk).apply(AUTHOR)
    undo()
    assert served(split) == ids
    assert not SplitRemoval.objects.exists()
    assert split.entries.exclude(source_hash="").count() == 4


def test_a_moved_task_comes_back_and_one_whose_place_is_taken_comes_to_the_end() -> None:
    one, two, three = make_tasks(3)
    train, hard = split_of(one, two), split_of(name="hard")
    MoveToSplit(select(), train.pk, hard.pk).apply(AUTHOR)
    with SplitChange(train) as change:
        change.put_back([FormerPlace(0, three)])
        commit(change)
    assert undo().endswith("1 task is at the end, because its place is taken.")
    assert (served(train), served(hard)) == ([three, two, one], [])


def test_it_deletes_the_split_that_was_made_and_brings_back_one_that_was_deleted() -> None:
    ids = make_tasks(3)
    saved = (
        SaveAsSplit(select(make_environment().pk, state=""), "hard", "test").apply(AUTHOR).split
        or 0
    )
    Quarantine(select(ids=(ids[1],)), "wrong").apply(AUTHOR)
    made = CurationAction.objects.get(kind="splits")
    DeleteSplit(saved).apply(AUTHOR)
    undo()
    assert served(saved) == [ids[0], ids[2]]
    undo(made)
    assert not Split.objects.existing().filter(pk=saved).exists()


def test_it_takes_back_an_undo() -> None:
    ids = make_tasks(3)
    split = split_of(*ids)
    RemoveFromSplit(select(ids=(ids[0],)), split.pk).apply(AUTHOR)
    undo()
    undo()
    assert served(split) == ids[1:]
    with pytest.raises(ActionRefused, match="bob has undone this already"):
        undo(CurationAction.objects.earliest("pk"))


def test_it_takes_back_an_edit_unless_it_was_edited_since() -> None:
    one, two = make_tasks(2)
    split = split_of(one, two)
    new = Edit(one, '{"n": "new"}', 0).apply(AUTHOR).task or 0
    first = latest()
    undo()
    assert served(split) == [one, two]
    assert (Task.objects.get(pk=new).replaced_by_id, Task.objects.get(pk=one).replaced_by_id) == (
        one,
        None,
    )
    undo()  # the new content again
    Edit(new, '{"n": "newer"}', 10**9).apply(AUTHOR)
    with pytest.raises(ActionRefused, match=r"changed (again )?since"):
        undo(CurationAction.objects.get(undoes__undoes=first))


def test_it_takes_back_an_import_with_edits_labels_and_new_tasks(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.apply(shelf.lines({"w": "a"}, {"w": "b"}))
    split, before = Split.objects.existing().get(), served(Split.objects.existing().get())
    row = Task.objects.get(pk=before[0])
    shelf.apply(
        shelf.lines({"_hash": row.content_hash, "w": "A"}, {"w": "b", "_tags": ["x"]}, {"w": "c"})
    )
    assert served(split) != before
    assert latest().kind == "import"
    undo()
    assert served(split) == before
    assert not TaskTag.objects.exists()


def test_a_frozen_split_stays_as_it_is() -> None:
    ids = make_tasks(2)
    train, frozen = split_of(*ids), split_of(name="frozen")
    CopyToSplit(select(), frozen.pk).apply(AUTHOR)
    copied = latest()
    FreezeSplit(frozen.pk).apply(AUTHOR)
    assert "Split 'frozen' is frozen and stays as it is." in Undo(copied.pk).plan().sentences
    with pytest.raises(ActionRefused):
        undo(copied)
    undo()  # the freeze
    undo(copied)
    assert (served(train), served(frozen)) == (ids, [])


def test_it_takes_back_settings_of_splits_and_environments_unless_they_were_changed_since() -> None:
    [one] = make_tasks(1)
    split, environment = split_of(one), make_environment()
    before = Environment.objects.values().get()
    for action in (
        SetEnabled(environment.pk, False),
        SetBlind(environment.pk, True),
        SetScoring(environment.pk, "max", 0.0, 2.0, 1.0),
        SetPrivacy(environment.pk, True),
    ):
        action.apply(AUTHOR)
        undo()
    assert {**Environment.objects.values().get(), "counted": before["counted"]} == before
    FreezeSplit(split.pk).apply(AUTHOR)
    UnfreezeSplit(split.pk).apply(AUTHOR)
    unfrozen = latest()
    undo()
    split.refresh_from_db()
    assert split.frozen_hash == content_digest(split)
    undo()
    SealSplit(split.pk).apply(AUTHOR)
    with pytest.raises(ActionRefused, match="undone this already"):
        undo(unfrozen)
    SetEnabled(environment.pk, False).apply(AUTHOR)
    disabled = latest()
    SetEnabled(environment.pk, True).apply(AUTHOR)
    with pytest.raises(ActionRefused, match=r"changed (again )?since"):
        undo(disabled)


def test_a_seal_is_undone_to_what_it_was_before() -> None:
    split, seals = split_of(*make_tasks(1)), list[Seal]()
    for seal in ("keys", "people", "nobody"):
        to_seal(find_split(split.pk), seal).apply(AUTHOR)
        undo()
        seals.append(seal_of(find_split(split.pk)))
        undo()
    assert seals == ["nobody", "keys", "people"]
    assert seal_of(find_split(split.pk)) == "nobody"


def test_a_stopped_action_leaves_nothing_behind() -> None:
    ids = make_tasks(1100)
    split = split_of(*ids)
    for action in (AddTags(select(), ("a",)), Quarantine(select(), "wrong")):
        with pytest.raises(ZeroDivisionError):
            action.apply(AUTHOR, break_off_after(500))
    counts = [rows.objects.count() for rows in (TaskRevision, TaskTag, CurationAction)]
    assert (counts, Task.objects.filter(state="quarantined").count()) == ([0, 0, 0], 0)
    assert len(served(split)) == 1100


def test_what_a_dead_process_decided_is_finished_and_the_rest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_tasks(400)

    def die(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr("environments.curation.work.apply_labels", die)
        with pytest.raises(SystemExit):
            AddTags(select(), ("a",)).apply(AUTHOR)
    with monkeypatch.context() as patch:
        patch.setattr("environments.curation.work._forget", die)
        with pytest.raises(SystemExit):
            AddTags(select(), ("b",)).apply(AUTHOR, break_off_after(0))
    assert finish_interrupted(NOW) == (0, 0)  # begun after that server's start
    CurationAction.objects.update(created=NOW)
    assert finish_interrupted(timezone.now()) == (2, 0)
    assert (TaskTag.objects.filter(name="a").count(), TaskTag.objects.filter(name="b").count()) == (
        400,
        0,
    )
    assert TaskRevision.objects.count() == 400


def test_of_two_who_undo_the_same_one_is_refused() -> None:
    make_tasks(2)
    AddTags(select(), ("a",)).apply(AUTHOR)
    action, refusals = latest(), list[str]()

    def race() -> None:
        try:
            undo(action)
        except ActionRefused as refusal:
            refusals.append(str(refusal))

    racers = [threading.Thread(target=race) for _ in range(2)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert len(refusals) == 1
    assert CurationAction.objects.count() == 2


def test_an_undo_of_taking_out_what_the_class_lists_can_be_taken_back() -> None:
    ids = make_tasks(3)
    split = split_of()
    with SplitChange(split) as change:
        change.place([SplitPlace(task, Task.objects.get(pk=task).content_hash) for task in ids])
        commit(change)
    RemoveFromSplit(select(ids=(ids[1],)), split.pk).apply(AUTHOR)
    undo()
    undo()
    assert served(split) == [ids[0], ids[2]]
    undo()
    assert served(split) == ids


def edited(task: int, n: int) -> int:
    """Give the task the content `{"n": n}` and return the task that has it."""
    outcome = Edit(task, f'{{"n": {n}}}', last_revision(Task.objects.get(pk=task))).apply(AUTHOR)
    assert outcome.task is not None
    return outcome.task


def test_a_task_that_was_edited_meanwhile_comes_back_as_its_edit() -> None:
    one, two, three = make_tasks(3)
    train, test = split_of(one, two, three), split_of(one, two, name="test")
    RemoveFromSplit(select(ids=(one,)), test.pk).apply(AUTHOR)
    removal, new = latest(), edited(one, 10)
    Undo(removal.pk).apply(AUTHOR)
    assert (served(test), served(train)) == ([new, two], [new, two, three])
    Undo(latest().pk).apply(AUTHOR)
    assert served(test) == [two]
    UndoInTask(TaskRevision.objects.filter(task=one, kind="splits").latest("pk").pk).apply(AUTHOR)
    assert served(test) == [new, two]


def test_a_split_that_is_unfrozen_or_brought_back_serves_the_edits_made_meanwhile() -> None:
    one, two, three = make_tasks(3)
    split_of(one, two, three)
    frozen, deleted = (
        split_of(one, three, name=name, is_curated=True) for name in ("frozen", "deleted")
    )
    FreezeSplit(frozen.pk).apply(AUTHOR)
    DeleteSplit(deleted.pk).apply(AUTHOR)
    deletion, new = latest(), edited(one, 10)
    assert served(frozen) == [one, three]
    for action in (UnfreezeSplit(frozen.pk), Undo(deletion.pk)):
        assert (
            "1 task was edited meanwhile; the edited content is served then."
            in action.plan().sentences
        )
        action.apply(AUTHOR)
    assert (served(frozen), served(deleted)) == ([new, three], [new, three])
