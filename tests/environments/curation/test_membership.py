"""Copying, moving and removing tasks, and saving a selection as a new split."""

from __future__ import annotations

import json

import pytest

from environments.curation.action import ActionRefused, SplitShare
from environments.curation.actions.membership import (
    CopyToSplit,
    MoveToSplit,
    RemoveFromSplit,
    SaveAsSplit,
)
from environments.curation.actions.quarantine import Quarantine
from environments.curation.selection import Selection
from environments.curation.splits import freeze
from environments.models import Environment, Split, SplitEntry, SplitRemoval, Task, TaskRevision
from environments.models.task_hash import content_hash, hash_of_spec
from environments.tasks.split_change import SplitChange
from environments.tasks.split_errors import FrozenSplit, SplitBusy
from tests.environments.curation.tasks import (
    AUTHOR,
    SMALL_BATCH,
    break_off_after,
    make_tasks,
    served,
    split_of,
)
from tests.filters import select
from tests.stored import make_environment

pytestmark = pytest.mark.django_db(transaction=True)


def everything() -> Selection:
    return select(environment=make_environment().pk)


def history(change: str) -> dict[int, tuple[list[str], list[str]]]:
    """Return by task (its splits before, its splits after)."""
    rows = TaskRevision.objects.filter(change=change, kind="splits").values_list(
        "task_id", "before", "after"
    )
    return {
        task: (json.loads(before)["splits"], json.loads(after)["splits"])
        for task, before, after in rows
    }


def test_it_copies_tasks_to_the_end_of_a_split() -> None:
    one, two, three = make_tasks(3)
    train, hard = split_of(one, two, three), split_of(two, name="hard")
    outcome = CopyToSplit(everything(), hard.pk).apply(AUTHOR)
    assert (served(hard), served(train)) == ([two, one, three], [one, two, three])
    assert history(outcome.change) == {
        one: (["train"], ["hard", "train"]),
        three: (["train"], ["hard", "train"]),
    }


def test_it_copies_in_the_order_of_the_split_it_copies_from() -> None:
    one, two, three = make_tasks(3)
    train, hard = split_of(three, one, two), split_of(name="hard")
    CopyToSplit(select(split=train.pk), hard.pk).apply(AUTHOR)
    assert served(hard) == [three, one, two]


def test_of_a_task_that_was_sent_by_its_content_it_copies_the_content() -> None:
    """Sessions of the split are recorded at the task of that content."""
    one, sent, same = make_tasks(3)
    hard = split_of(name="hard")
    spec = Task.objects.get(pk=same).spec
    Task.objects.filter(pk=same).update(content_hash=content_hash(spec))
    Task.objects.filter(pk=sent).update(spec=spec, content_hash=hash_of_spec(spec, is_sent=True))
    CopyToSplit(everything(), hard.pk).apply(AUTHOR)
    assert served(hard) == [one, same]


def test_it_moves_tasks_in_one_moment() -> None:
    one, two, three = make_tasks(3)
    train, hard = split_of(three, two, one), split_of(two, name="hard")
    outcome = MoveToSplit(select(ids=(two, three)), train.pk, hard.pk).apply(AUTHOR)
    assert (served(train), served(hard)) == ([one], [two, three])
    assert history(outcome.change) == {
        two: (["hard", "train"], ["hard"]),
        three: (["train"], ["hard"]),
    }


def test_it_moves_only_tasks_of_the_source() -> None:
    one, _ = make_tasks(2)
    train, hard = split_of(one), split_of(name="hard")
    plan = MoveToSplit(everything(), train.pk, hard.pk).plan()
    assert (plan.title, plan.changing) == ("Move 1 task from split 'train' to 'hard'", 1)
    assert plan.splits == (SplitShare(train.pk, "train", 1), SplitShare(hard.pk, "hard", 1))
    assert plan.sentences == ("1 task is not in 'train'.",)
    assert MoveToSplit(everything(), train.pk, hard.pk).apply(AUTHOR).changed == 1


def test_it_removes_tasks_and_remembers_what_the_class_listed() -> None:
    one, two = make_tasks(2)
    train = split_of(one, two)
    SplitEntry.objects.filter(task=one).update(source_hash="h")
    outcome = RemoveFromSplit(select(ids=(one,)), train.pk).apply(AUTHOR)
    assert served(train) == [two]
    assert SplitRemoval.objects.get().source_hash == "h"
    assert history(outcome.change) == {one: (["train"], [])}


def test_it_saves_a_selection_as_a_new_split() -> None:
    tasks = make_tasks(3)
    split_of(tasks[0], position=4)
    outcome = SaveAsSplit(everything(), " held-out ", "test", "for the paper").apply(AUTHOR)
    row = Split.objects.get(pk=outcome.split)
    assert (row.name, row.type, row.position, row.is_curated, row.is_served) == (
        "held-out",
        "test",
        5,
        True,
        True,
    )
    assert served(row) == tasks
    assert outcome.sentence == "Saved 3 tasks as split 'held-out'."
    assert history(outcome.change)[tasks[0]] == (["train"], ["held-out", "train"])


def test_it_saves_a_part_of_a_split_in_its_order() -> None:
    one, two, three = make_tasks(3)
    train = split_of(three, one, two)
    Quarantine(select(ids=(one,)), "why").apply(AUTHOR)
    outcome = SaveAsSplit(select(train.environment_id, train.pk), "new", "train").apply(AUTHOR)
    assert served(outcome.split or 0) == [three, two]


@pytest.mark.parametrize(
    ("name", "kind", "why"),
    [
        ("", "train", "1 to 200 characters"),
        ("x" * 201, "train", "this one has 201"),
        ("a/b", "train", "slash"),
        ("a\0b", "train", "control character"),
        ("a\udc00b", "train", "control character"),
        ("train", "train", "already"),
        ("new", "dev", "use train, validation, test"),
    ],
)
def test_it_refuses_a_name_or_type_that_no_split_can_have(name: str, kind: str, why: str) -> None:
    split_of(*make_tasks(1))
    with pytest.raises(ActionRefused, match=why):
        SaveAsSplit(everything(), name, kind).apply(AUTHOR)
    assert Split.objects.count() == 1


def test_it_needs_an_environment_for_a_new_split() -> None:
    make_tasks(1)
    with pytest.raises(ActionRefused, match="Choose the environment first"):
        SaveAsSplit(select(), "new", "train").plan()


def test_it_makes_no_split_of_nothing() -> None:
    with pytest.raises(ActionRefused, match="No task is chosen"):
        SaveAsSplit(everything(), "new", "train").apply(AUTHOR)
    assert not Split.objects.exists()


@pytest.mark.usefixtures("small_batches")
def test_it_shows_no_half_of_a_new_split_and_its_name_stays_free() -> None:
    tasks = make_tasks(2 * SMALL_BATCH)
    with pytest.raises(ZeroDivisionError):
        SaveAsSplit(everything(), "new", "train").apply(AUTHOR, break_off_after(SMALL_BATCH // 2))
    assert not Split.objects.filter(is_served=True).exists()
    assert not SplitEntry.objects.exists()
    outcome = SaveAsSplit(everything(), "new", "test").apply(AUTHOR)
    assert served(outcome.split or 0) == tasks
    assert Split.objects.get().type == "test"


def test_it_takes_nothing_over_from_a_process_that_died() -> None:
    one, two = make_tasks(2)
    split_of(one, name="new", is_curated=True, is_served=False)
    outcome = SaveAsSplit(select(make_environment().pk, ids=(two,)), "new", "train").apply(AUTHOR)
    assert history(outcome.change) == {two: ([], ["new"])}
    assert list(SplitEntry.objects.values_list("task", flat=True)) == [two]


def test_it_refuses_a_frozen_split() -> None:
    one, two = make_tasks(2)
    frozen, train = split_of(one, name="held-out"), split_of(two)
    freeze(frozen)
    for action in (
        CopyToSplit(everything(), frozen.pk),
        MoveToSplit(everything(), frozen.pk, train.pk),
        MoveToSplit(everything(), train.pk, frozen.pk),
        RemoveFromSplit(everything(), frozen.pk),
    ):
        with pytest.raises(FrozenSplit, match="Unfreeze it"):
            action.plan()
        with pytest.raises(FrozenSplit):
            action.apply(AUTHOR)
    assert (served(frozen), served(train)) == ([one], [two])


def test_it_refuses_tasks_of_another_environment() -> None:
    make_tasks(1, environment=make_environment("guess"))
    split = split_of(*make_tasks(1))
    with pytest.raises(ActionRefused, match="Choose only tasks of 'math'"):
        CopyToSplit(select(), split.pk).plan()


def test_it_refuses_a_generated_split() -> None:
    split = split_of(*make_tasks(1))
    Environment.objects.update(is_procedural=True)
    with pytest.raises(ActionRefused, match="Save these as a new split"):
        CopyToSplit(everything(), split.pk).plan()


def test_it_refuses_a_split_that_is_gone() -> None:
    make_tasks(1)
    with pytest.raises(ActionRefused, match="no longer exists"):
        CopyToSplit(everything(), 999).plan()


def test_it_refuses_to_move_to_the_same_split() -> None:
    split = split_of(*make_tasks(1))
    with pytest.raises(ActionRefused, match="same"):
        MoveToSplit(everything(), split.pk, split.pk).plan()


def test_it_leaves_both_splits_alone_when_one_is_being_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("environments.curation.work.MAX_WAIT_SECONDS", 0.0)
    [task] = make_tasks(1)
    train, hard = split_of(task), split_of(name="hard")
    with SplitChange(hard), pytest.raises(SplitBusy):
        MoveToSplit(everything(), train.pk, hard.pk).apply(AUTHOR)
    assert (served(train), served(hard)) == ([task], [])


def test_it_plans_a_copy() -> None:
    _, two, three = make_tasks(3)
    hard = split_of(two, name="hard")
    Quarantine(select(ids=(three,)), "why").apply(AUTHOR)
    plan = CopyToSplit(everything(), hard.pk).plan()
    assert (plan.title, plan.splits) == (
        "Copy 2 tasks to split 'hard'",
        (SplitShare(hard.pk, "hard", 2),),
    )
    assert plan.sentences == (
        "1 task is in it already and keeps its place.",
        "1 task is quarantined; release it for agents to get it.",
    )


def test_it_says_when_the_order_of_a_class_is_lost() -> None:
    tasks = make_tasks(2, source="code")
    split, into = split_of(*tasks), split_of(name="hard")
    for shown, said in ((None, True), (split.pk, False)):
        chosen = select(make_environment().pk, shown)
        for plan in (
            CopyToSplit(chosen, into.pk).plan(),
            SaveAsSplit(chosen, "new", "train").plan(),
        ):
            assert said == any("won't be in its order" in sentence for sentence in plan.sentences)


@pytest.mark.usefixtures("small_batches")
def test_it_moves_many_tasks_or_none() -> None:
    tasks = make_tasks(2 * SMALL_BATCH)
    train, hard = split_of(*tasks), split_of(name="hard")
    action = MoveToSplit(everything(), train.pk, hard.pk)
    with pytest.raises(ZeroDivisionError):
        action.apply(AUTHOR, break_off_after(SMALL_BATCH // 2))
    assert (served(train), served(hard)) == (tasks, [])
    assert action.apply(AUTHOR).changed == 2 * SMALL_BATCH
    assert (served(train), served(hard)) == ([], tasks)
