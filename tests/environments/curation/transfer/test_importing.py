"""Importing: what a file changes, that it does so at once, and that it can be done again."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from environments.curation import leaks
from environments.curation.action import ActionRefused
from environments.curation.actions.membership import SaveAsSplit
from environments.curation.actions.quarantine import Quarantine
from environments.curation.edit import Edit, last_revision
from environments.curation.splits import DeleteSplit
from environments.curation.transfer import importing
from environments.curation.transfer.importing import RefusedRows
from environments.curation.transfer.source import FileSource
from environments.curation.transfer.target import ImportTarget
from environments.files.rows import Unreadable
from environments.models import CurationAction, Split, SplitEntry, Task, TaskRevision, TaskTag
from environments.models.task_hash import content_hash
from environments.tasks.split_change import SplitChange
from environments.tasks.split_errors import SplitBusy
from tests.environments.curation.transfer.files import Shelf, counts, served
from tests.filters import select
from tests.stored import make_episode, make_statistics

pytestmark = pytest.mark.django_db(transaction=True)

APPLE, PEAR, PLUM = {"name": "apple"}, {"name": "pear"}, {"name": "plum"}


Rival = Callable[[Shelf], object]


def import_another(shelf: Shelf) -> None:
    importing.apply(*shelf.order(shelf.lines(PEAR, name="another.jsonl"), "train"), author="bob")


def save_another(shelf: Shelf) -> None:
    Task.objects.create(environment=shelf.environment, content_hash="0" * 64, spec="{}")
    SaveAsSplit(select(shelf.environment.pk), "train", "validation").apply("bob")


def digest(spec: dict[str, Any]) -> str:
    return content_hash(json.dumps(spec))


def task(spec: dict[str, Any]) -> Task:
    return Task.objects.get(content_hash=digest(spec))


def test_a_search_that_is_saved_has_the_files_order(shelf: Shelf) -> None:
    fruit = [{"name": f"fruit {n}"} for n in range(30)]
    shelf.apply(shelf.lines(PEAR, *fruit, PLUM))
    SaveAsSplit(select(shelf.environment.pk, search="fruit"), "fruit", "test").apply("ada")
    assert served("fruit") == fruit


def test_it_makes_a_split_that_is_served_in_the_files_order(shelf: Shelf) -> None:
    report = shelf.apply(shelf.lines(APPLE, PEAR))
    split = Split.objects.get()
    assert counts(report) == (2, 0, 0, 0)
    assert (split.is_curated, split.is_served, split.type, split.size, split.version) == (
        True,
        True,
        "train",
        2,
        1,
    )
    assert served() == [APPLE, PEAR]
    assert task(APPLE).source == "import"


def test_imported_tasks_in_any_script_are_found(shelf: Shelf) -> None:
    shelf.apply(shelf.lines({"name": "\u00c4pfel"}, PEAR))
    assert Task.objects.get(select(search="\u00e4PFEL").condition()) == task({"name": "\u00c4pfel"})


def test_it_appends_to_a_split_and_skips_what_is_there_or_repeated(shelf: Shelf) -> None:
    shelf.apply(shelf.lines(APPLE))
    report = shelf.apply(shelf.lines(PEAR, APPLE, PLUM, PEAR, {"name": "apple"}))
    assert counts(report) == (2, 0, 3, 0)
    assert served() == [APPLE, PEAR, PLUM]


def test_a_dry_run_tells_the_same_and_writes_nothing(shelf: Shelf) -> None:
    shelf.apply(shelf.lines(APPLE))
    path = shelf.lines(APPLE, PEAR, "oops", {**PLUM, "_hash": digest(APPLE)})
    dry = shelf.dry_run(path)
    assert counts(dry) == (1, 1, 1, 1)
    assert (served(), Task.objects.count()) == ([APPLE], 1)
    assert counts(shelf.apply(path, skip_refused=True)) == counts(dry)


def test_a_task_of_another_split_keeps_its_identity(shelf: Shelf) -> None:
    shelf.apply(shelf.lines(APPLE), "train")
    shelf.apply(shelf.lines(APPLE), "test")
    assert Task.objects.count() == 1
    assert served("test") == served("train")


def test_rows_that_come_from_another_split_are_reported(shelf: Shelf) -> None:
    report = shelf.dry_run(shelf.lines({**APPLE, "_split": "test"}, {**PEAR, "_split": "train"}))
    assert report.notes == [
        "The split 'train' is new.",
        "Exported from another split, according to _split: 1 line.",
    ]


def test_new_content_takes_the_old_ones_place_in_every_split(shelf: Shelf) -> None:
    shelf.apply(shelf.lines(APPLE, PEAR), "train")
    shelf.apply(shelf.lines(PLUM, APPLE), "test")
    report = shelf.apply(shelf.lines({"name": "cherry", "_hash": digest(APPLE)}), "train")
    assert counts(report) == (0, 1, 0, 0)
    assert report.notes == ["New content in 'test': 1 task.", "New content in 'train': 1 task."]
    assert (served("train"), served("test")) == (
        [{"name": "cherry"}, PEAR],
        [PLUM, {"name": "cherry"}],
    )


def test_new_content_leaves_a_revision_that_tells_who_and_why(shelf: Shelf) -> None:
    shelf.apply(shelf.lines(APPLE))
    shelf.apply(shelf.lines({**PEAR, "_hash": digest(APPLE)}, name="fixed.jsonl"))
    revision = TaskRevision.objects.get(kind="edit")
    assert (revision.kind, revision.author, revision.reason) == (
        "edit",
        "ada",
        "import of fixed.jsonl",
    )
    assert (revision.task, revision.successor) == (task(APPLE), task(PEAR))
    assert (revision.before, revision.after) == (task(APPLE).spec, task(PEAR).spec)
    assert task(PEAR).source == "edit"
    assert timezone.now() - timedelta(minutes=5) < revision.created <= timezone.now()


def test_an_edited_file_can_be_imported_again(shelf: Shelf) -> None:
    shelf.apply(shelf.lines(APPLE))
    edited = shelf.lines({**PEAR, "_hash": digest(APPLE)})
    shelf.apply(edited)
    assert counts(shelf.apply(edited)) == (0, 0, 1, 0)
    assert TaskRevision.objects.filter(kind="edit").count() == 1


def test_two_new_contents_of_one_task_are_refused(shelf: Shelf) -> None:
    shelf.apply(shelf.lines(APPLE))
    report = shelf.dry_run(
        shelf.lines({**PEAR, "_hash": digest(APPLE)}, {**PLUM, "_hash": digest(APPLE)})
    )
    assert (counts(report), report.refusals[0].number) == ((0, 1, 0, 1), 2)
    assert "is also changed by an earlier row; keep one of them" in report.refusals[0].reason


def test_contents_may_change_places(shelf: Shelf) -> None:
    shelf.apply(shelf.lines(APPLE, PEAR, PLUM))
    shelf.apply(shelf.lines({**PEAR, "_hash": digest(APPLE)}, {**APPLE, "_hash": digest(PEAR)}))
    assert served() == [PEAR, APPLE, PLUM]


def test_a_frozen_split_keeps_the_old_content_and_the_report_says_so(shelf: Shelf) -> None:
    shelf.apply(shelf.lines(APPLE), "train")
    shelf.apply(shelf.lines(APPLE), "test")
    Split.objects.filter(name="test").update(frozen=datetime(2026, 1, 1, tzinfo=UTC))
    report = shelf.apply(shelf.lines({**PEAR, "_hash": digest(APPLE)}), "train")
    assert "'test' is frozen; unchanged there: 1 task." in report.notes
    assert (served("train"), served("test")) == ([PEAR], [APPLE])


# --- labels ---------------------------------------------------------------------------------------


def test_new_tasks_have_the_labels_of_their_rows(shelf: Shelf) -> None:
    bad = {"_state": "quarantined", "_reason": "wrong answer", "_tags": ["hard", " b "]}
    shelf.apply(shelf.lines(APPLE, {**PEAR, **bad}))
    assert served() == [APPLE]
    assert (task(PEAR).state, task(PEAR).reason) == ("quarantined", "wrong answer")
    assert [tag.name for tag in task(PEAR).tags.all()] == ["b", "hard"]
    assert (Split.objects.get().size, {row.kind for row in TaskRevision.objects.all()}) == (
        1,
        {"import"},
    )


def test_state_and_tags_of_a_task_change_in_every_split(shelf: Shelf) -> None:
    shelf.apply(shelf.lines({**APPLE, "_tags": ["old"]}, PEAR), "train")
    shelf.apply(shelf.lines(APPLE), "test")
    report = shelf.apply(
        shelf.lines({**APPLE, "_state": "quarantined", "_reason": "vague", "_tags": []}), "train"
    )
    assert counts(report) == (0, 1, 0, 0)
    assert (served("train"), served("test")) == ([PEAR], [])
    assert list(TaskTag.objects.all()) == []
    assert {
        row.kind: json.loads(row.after) for row in TaskRevision.objects.exclude(kind="import")
    } == {
        "tag": {"tags": []},
        "quarantine": {"state": "quarantined", "reason": "vague"},
    }


def test_a_quarantined_task_is_released_to_its_place(shelf: Shelf) -> None:
    shelf.apply(shelf.lines({**APPLE, "_state": "quarantined", "_reason": "vague"}, PEAR))
    shelf.apply(shelf.lines({**APPLE, "_state": "active"}))
    assert (served(), task(APPLE).reason) == ([APPLE, PEAR], "")
    assert TaskRevision.objects.get(kind="release").task == task(APPLE)


def test_labels_that_are_not_given_stay(shelf: Shelf) -> None:
    shelf.apply(
        shelf.lines({**APPLE, "_state": "quarantined", "_reason": "vague", "_tags": ["hard"]})
    )
    assert counts(shelf.apply(shelf.lines(APPLE))) == (0, 0, 1, 0)
    assert (task(APPLE).state, task(APPLE).tags.count()) == ("quarantined", 1)


def test_new_content_inherits_tags_and_state(shelf: Shelf) -> None:
    shelf.apply(
        shelf.lines({**APPLE, "_tags": ["hard"], "_state": "quarantined", "_reason": "vague"})
    )
    shelf.apply(shelf.lines({**PEAR, "_hash": digest(APPLE)}))
    assert [tag.name for tag in task(PEAR).tags.all()] == ["hard"]
    assert (task(PEAR).state, task(PEAR).reason, served()) == ("quarantined", "vague", [])


def test_new_content_is_released_by_its_row(shelf: Shelf) -> None:
    shelf.apply(shelf.lines({**APPLE, "_state": "quarantined", "_reason": "vague"}))
    shelf.apply(shelf.lines({**PEAR, "_hash": digest(APPLE), "_state": "active"}))
    assert (task(PEAR).state, served()) == ("active", [PEAR])


def test_more_changes_than_one_batch_are_made(shelf: Shelf) -> None:
    specs = [{"n": n} for n in range(1000)]
    shelf.apply(shelf.lines(*specs))
    labels = [
        {"_tags": ["odd"]} if spec["n"] % 2 else {"_state": "quarantined", "_reason": "even"}
        for spec in specs
    ]
    edits = [
        {"n": -1 - spec["n"], "_hash": digest(spec)} | label
        for spec, label in zip(specs, labels, strict=True)
    ]
    assert counts(shelf.apply(shelf.lines(*edits))) == (0, 1000, 0, 0)
    assert served() == [{"n": -1 - n} for n in range(1000) if n % 2]
    assert counts(
        shelf.apply(shelf.lines(*[{"n": -1 - n, "_state": "active"} for n in range(1000)]))
    ) == (
        0,
        500,
        500,
        0,
    )
    assert served() == [{"n": -1 - n} for n in range(1000)]


# --- all or nothing -------------------------------------------------------------------------------


def test_refused_rows_refuse_all(shelf: Shelf) -> None:
    with pytest.raises(
        RefusedRows,
        match=r"1 of 2 lines cannot be imported, so nothing was\. The "
        r"first is line 2: ",
    ):
        shelf.apply(shelf.lines(APPLE, "oops"))
    assert not Split.objects.existing().exists()


def test_refused_rows_are_skipped_on_request(shelf: Shelf) -> None:
    assert counts(shelf.apply(shelf.lines(APPLE, "oops", PEAR), skip_refused=True)) == (2, 0, 0, 1)
    assert served() == [APPLE, PEAR]


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read a hundred rows in three batches."""
    monkeypatch.setattr(importing, "BATCH_TASKS", 45)


class Stop(Exception):
    """Raised by a progress callback to end an import."""


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("ends_at", [1, 2, 3])
def test_an_import_that_is_stopped_leaves_nothing_visible_and_can_be_repeated(
    shelf: Shelf, ends_at: int
) -> None:
    shelf.apply(shelf.lines(APPLE))
    path = shelf.lines(*[{"n": n} for n in range(100)])
    seen = []

    def stop(done: int, total: int) -> None:
        seen.append(done)
        if len(seen) == ends_at:
            raise Stop

    with pytest.raises(Stop):
        shelf.apply(path, progress=stop)
    assert (served(), Split.objects.get().changing, SplitEntry.objects.count()) == ([APPLE], "", 1)
    assert counts(shelf.apply(path)) == (100, 0, 0, 0)
    assert len(served()) == 101


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("error", [Stop, KeyboardInterrupt])
def test_an_import_that_is_stopped_takes_back_the_tasks_it_added(
    shelf: Shelf, error: type[BaseException]
) -> None:
    shelf.apply(shelf.lines(APPLE))
    Task.objects.create(
        environment=shelf.environment, content_hash="0" * 64, spec="{}", source="import"
    )
    there = set(Task.objects.values_list("pk", flat=True))
    seen = list[int]()

    def stop(done: int, total: int) -> None:
        seen.append(done)
        if len(seen) == 3:
            played = Task.objects.get(content_hash=digest({"n": 0}))
            make_episode(task=played)
            raise error

    edit = {**PEAR, "_hash": digest(APPLE)}
    with pytest.raises(error):
        shelf.apply(
            shelf.lines(edit, *[{"n": n, "_tags": ["new"]} for n in range(100)]), progress=stop
        )
    assert {task.pk for task in Task.objects.all()} - there == {task({"n": 0}).pk}
    assert (there <= set(Task.objects.values_list("pk", flat=True)), served()) == (True, [APPLE])


def end(done: int, total: int) -> None:
    raise Stop


def test_a_new_split_goes_with_an_import_that_is_stopped(shelf: Shelf) -> None:
    with pytest.raises(Stop):
        shelf.apply(shelf.lines(APPLE), progress=end)
    assert not Split.objects.existing().exists()


def test_an_import_that_is_stopped_leaves_the_deleted_split_whose_name_it_wanted(
    shelf: Shelf,
) -> None:
    shelf.apply(shelf.lines(APPLE))
    split = Split.objects.get()
    episode = make_episode(task=task(APPLE), split=split)
    DeleteSplit(split.pk).apply("ada")
    deleted = Split.objects.values().get()
    with pytest.raises(Stop):
        importing.apply(*shelf.order(shelf.lines(PEAR), "test"), author="ada", progress=end)
    episode.refresh_from_db()
    assert (Split.objects.values().get(), episode.split_id) == (deleted, split.pk)


def test_a_deleted_splits_name_goes_to_an_import_with_its_own_type(shelf: Shelf) -> None:
    shelf.apply(shelf.lines(APPLE))
    DeleteSplit(Split.objects.get().pk).apply("ada")
    importing.apply(*shelf.order(shelf.lines(PEAR), "test"), author="ada")
    assert (Split.objects.get().type, Split.objects.get().is_served, served()) == (
        "test",
        True,
        [PEAR],
    )


@pytest.mark.parametrize("rival", [import_another, save_another])
def test_who_wants_the_name_of_a_split_that_is_being_imported_changes_nothing(
    shelf: Shelf, rival: Rival
) -> None:
    def meanwhile(done: int, total: int) -> None:
        with pytest.raises(SplitBusy):
            rival(shelf)

    importing.apply(*shelf.order(shelf.lines(APPLE), "test"), author="ada", progress=meanwhile)
    assert (Split.objects.get().type, Split.objects.get().position, served()) == (
        "test",
        0,
        [APPLE],
    )


@pytest.mark.parametrize("rival", [import_another, save_another])
def test_who_comes_just_after_an_import_that_took_the_name_changes_nothing(
    shelf: Shelf, rival: Rival
) -> None:
    enter = SplitChange.__enter__

    def enter_late(change: SplitChange) -> SplitChange:
        patch.undo()
        importing.apply(*shelf.order(shelf.lines(APPLE), "test"), author="ada")
        return enter(change)

    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(ActionRefused, match="There is a split 'train' already"),
    ):
        patch.setattr(SplitChange, "__enter__", enter_late)
        rival(shelf)
    assert (Split.objects.get().type, served()) == ("test", [APPLE])


def test_a_failure_at_the_end_leaves_the_served_tasks_as_they_were(shelf: Shelf) -> None:
    shelf.apply(shelf.lines(APPLE), "train")
    shelf.apply(shelf.lines(APPLE), "test")
    edit = shelf.lines(PLUM, {**PEAR, "_hash": digest(APPLE)})
    Split.objects.filter(name="test").update(
        changing="another", changing_until=datetime(2100, 1, 1, tzinfo=UTC)
    )
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SplitBusy, match="'test'"):
        patch.setattr("environments.curation.transfer.finishing.MAX_WAIT_SECONDS", 0.0)
        shelf.apply(edit, "train")
    assert (served("train"), served("test")) == ([APPLE], [APPLE])
    assert not TaskRevision.objects.filter(kind="edit").exists()


def test_a_split_that_is_being_changed_refuses_the_import(shelf: Shelf) -> None:
    shelf.apply(shelf.lines(APPLE))
    with SplitChange(Split.objects.get()), pytest.raises(SplitBusy):
        shelf.apply(shelf.lines(PEAR))
    assert served() == [APPLE]


@pytest.mark.usefixtures("small_batches")
def test_progress_counts_the_files_bytes(shelf: Shelf) -> None:
    path, told = shelf.lines(*[{"n": n} for n in range(100)]), list[tuple[int, int]]()
    shelf.apply(path, progress=lambda done, total: told.append((done, total)))
    size_bytes = path.stat().st_size
    assert [total for _, total in told] == [size_bytes] * 3
    assert told == sorted(told)
    assert told[-1][0] == size_bytes


def test_a_file_that_changed_after_the_dry_run_is_checked_again(shelf: Shelf) -> None:
    shelf.schema(properties={"n": {"type": "integer"}})
    report = shelf.dry_run(shelf.lines({"n": 1}))
    with pytest.raises(RefusedRows, match="'one' is not of type 'integer'"):
        shelf.apply(shelf.lines({"n": "one"}), after=report)


def test_a_file_that_goes_meanwhile_is_reported(shelf: Shelf) -> None:
    path = shelf.lines(APPLE)
    report = shelf.dry_run(path)
    path.unlink()
    with pytest.raises(Unreadable, match="cannot be read"):
        shelf.apply(path, after=report)


def test_a_dry_run_warns_before_harm(shelf: Shelf) -> None:
    shelf.apply(
        shelf.lines({"question": "How many?", "answer": 3}, {"question": "How much?", "answer": 4}),
        "own",
    )
    Split.objects.filter(name="own").update(type="test")
    row = {"question": " HOW many ", "answer": 5}, {"question": "The answer is 7.", "answer": 7}
    told = " ".join(shelf.dry_run(shelf.lines({"question": "How much?", "answer": 4}, *row)).notes)
    assert "1 task is also in the test split 'own'" in told
    assert "1 task says the same as another in the test split 'own'" in told
    assert "The field 'answer' of 1 task shows in another" in told
    make_statistics(Task.objects.earliest("pk"), 4, 2)
    assert "'own' is a test split, and leaderboards" in " ".join(
        shelf.dry_run(shelf.lines(*row), "own").notes
    )


def test_the_activity_says_what_was_imported(shelf: Shelf) -> None:
    shelf.apply(shelf.lines(APPLE))
    assert CurationAction.objects.get().title.startswith(
        "tasks.jsonl was imported into shop/train: 1 added"
    )


def test_a_dry_run_beside_a_large_split_names_what_it_shares_and_what_is_near(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = [{"question": f"How many apples has person {n}?"} for n in range(40)]
    importing.apply(*shelf.order(shelf.lines(*questions), "train"), author="ada")
    file = shelf.lines(
        questions[3],
        {"question": "how many apples has PERSON 4"},
        {"question": "Other?"},
        name="new.jsonl",
    )
    target = ImportTarget.of(shelf.environment, "test", "test")
    monkeypatch.setattr(leaks, "MAX_READ", 3)  # pages read no more; an import does
    warnings = importing.dry_run(FileSource.of(file), target).warnings
    assert [warning.split(",")[0] for warning in warnings] == [
        "1 task is also in the train split 'train'",
        "1 task says the same as another in the train split 'train'",
    ]
    monkeypatch.setattr(importing, "MAX_READ_ON_REQUEST", 42)
    same, unread = importing.dry_run(FileSource.of(file), target).warnings
    assert (
        "1 task is also in" in same
        and "that takes reading 43 tasks, and at most 42 are read here" in unread
    )


def test_a_dry_run_names_near_duplicates_in_the_file_and_in_its_split(shelf: Shelf) -> None:
    shelf.apply(
        shelf.lines(
            *({"question": f"How many apples has {name}?"} for name in ("Ada", "Bob", "Cid"))
        )
    )
    texts = ("How many apples has ADA", "Which?", "which", "Who?", "When?")
    rows: list[dict[str, Any]] = [
        {"question": text, "hint": None, "tags": [], "task_id": text} for text in texts
    ]
    warnings = shelf.dry_run(shelf.lines(*rows)).warnings
    assert [warning.split(",")[0] for warning in warnings] == [
        "2 tasks say the same as another of them",
        "1 task says the same as another in split 'train' itself",
    ]


def test_a_dry_run_of_edits_does_not_compare_them_with_what_they_replace(shelf: Shelf) -> None:
    questions = [
        {"question": f"How many apples has {name}?", "answer": 3} for name in ("Ada", "Bob", "Cid")
    ]
    shelf.apply(shelf.lines(*questions))
    assert (
        shelf.dry_run(
            shelf.lines(*({**one, "answer": 4, "_hash": digest(one)} for one in questions))
        ).warnings
        == []
    )


def replaced(old: dict[str, Any], new: dict[str, Any]) -> None:
    row = task(old)
    Edit(row.pk, json.dumps(new), last_revision(row)).apply("ada")


def test_content_that_was_edited_since_comes_as_its_edit_unless_the_file_is_preferred(
    shelf: Shelf,
) -> None:
    shelf.apply(shelf.lines(APPLE, PEAR))
    replaced(APPLE, PLUM)
    file, target = (
        shelf.lines(APPLE, PEAR, name="again.jsonl"),
        ImportTarget.of(shelf.environment, "test", "test"),
    )
    report = importing.dry_run(FileSource.of(file), target)
    assert (
        report.superseded == 1
        and "Edited since: 1 line. The edited tasks are served." in report.notes
    )
    assert report.sample[0] == json.dumps(PLUM, separators=(",", ":"))
    report = importing.apply(FileSource.of(file), target, author="ada")
    assert served("test") == [PLUM, PEAR] and "Edited since: 1 line." in report.sentence
    again = importing.apply(*shelf.order(file, "train")[:1], shelf.target("test"), author="ada")
    assert counts(again) == (0, 0, 2, 0)
    shelf.apply(file, "train", as_written=True)
    assert served("train") == [PLUM, PEAR, APPLE]


def test_content_that_was_edited_since_is_found_in_another_spelling(shelf: Shelf) -> None:
    old = {"name": "How many apples?", "answer": 3}
    shelf.apply(shelf.lines(old, PEAR))
    replaced(old, PLUM)
    for row in ({**old, "answer": 3.0}, {**old, "name": "How many\u200b apples ?"}):
        file, target = (
            shelf.lines(row, name="again.jsonl"),
            ImportTarget.of(shelf.environment, "test", "test"),
        )
        assert importing.dry_run(FileSource.of(file), target).superseded == 1
        importing.apply(FileSource.of(file), target, author="ada")
        assert served("test") == [PLUM]
    shelf.apply(file, "train", as_written=True)
    assert served("train") == [PLUM, PEAR, row]


ADA = {"question": "How many apples has Ada?", "answer": 3, "level": "easy"}
BOB = {"question": "How many pears has Bob?", "answer": 3, "level": "easy"}


def test_a_quarantined_task_is_found_in_another_spelling_and_stays_quarantined(
    shelf: Shelf,
) -> None:
    shelf.apply(shelf.lines(ADA, BOB))
    Quarantine(select(ids=(task(ADA).pk,)), "ambiguous").apply("ada")
    others = {**ADA, "answer": 3.0}, {**ADA, "question": "How many\u200b apples has Ada ?"}
    file, target = (
        shelf.lines(*others, BOB, name="again.jsonl"),
        ImportTarget.of(shelf.environment, "test", "test"),
    )
    report = importing.apply(FileSource.of(file), target, author="ada")
    assert (counts(report), served("test")) == ((2, 0, 1, 0), [BOB])
    assert "Quarantined tasks in another spelling: 2 lines. They stay quarantined." in report.notes


def test_an_edit_of_content_that_was_edited_since_is_refused_with_what_to_write(
    shelf: Shelf,
) -> None:
    shelf.apply(shelf.lines(APPLE, PEAR))
    replaced(APPLE, PLUM)
    changed = {"name": "cherry", "_hash": digest(APPLE)}
    report = shelf.dry_run(shelf.lines(changed))
    assert (
        counts(report) == (0, 0, 0, 1)
        and f"was edited since, to {digest(PLUM)}" in report.refusals[0].reason
    )
    shelf.apply(shelf.lines({**changed, "_hash": digest(PLUM)}))
    assert served("train") == [{"name": "cherry"}, PEAR]
    shelf.apply(shelf.lines({**PLUM, "_hash": digest({"name": "cherry"})}))
    assert served("train") == [PLUM, PEAR]
