"""Quarantine and Release: tasks are hidden at once in every split that is not frozen, and return to
their places."""

from __future__ import annotations

import json

import pytest

from environments.curation.action import ActionRefused, SplitShare
from environments.curation.actions.quarantine import Quarantine, Release
from environments.curation.splits import freeze
from environments.models import Split, SplitEntry, Task, TaskRevision
from environments.tasks.split_change import SplitChange
from environments.tasks.split_errors import SplitBusy
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

MANY = 2 * SMALL_BATCH + 10


def quarantine(*tasks: int) -> None:
    Quarantine(select(ids=tasks), "wrong answer").apply(AUTHOR)


def test_it_stops_serving_tasks_in_every_split_and_leaves_the_others_alone() -> None:
    one, two, three = make_tasks(3)
    train, test, other = (
        split_of(one, two, name="train"),
        split_of(two, name="test"),
        split_of(three, name="other"),
    )
    outcome = Quarantine(select(ids=(two,)), " wrong answer ").apply(AUTHOR)
    assert (served(train), served(test), served(other)) == ([one], [], [three])
    assert (outcome.sentence, outcome.changed) == ("Quarantined 1 task.", 1)
    assert Split.objects.get(pk=other.pk).version == 0
    assert list(Task.objects.filter(state="quarantined").values_list("pk", "reason")) == [
        (two, "wrong answer")
    ]


def test_it_serves_released_tasks_at_the_places_they_kept() -> None:
    one, two, three = make_tasks(3)
    split = split_of(two, one, three, two)
    quarantine(one, two)
    assert served(split) == [three]
    Release(select(state="quarantined")).apply(AUTHOR)
    assert served(split) == [two, one, three, two]
    assert not Task.objects.exclude(state="active", reason="").exists()


def test_it_writes_the_history_of_each_task() -> None:
    one, two = make_tasks(2)
    quarantine(one)
    outcome = Quarantine(select(), "all of them").apply("bob")
    [revision] = TaskRevision.objects.filter(change=outcome.change)
    assert (revision.task_id, revision.kind, revision.author, revision.reason) == (
        two,
        "quarantine",
        "bob",
        "all of them",
    )
    assert json.loads(revision.before) == {"state": "active", "reason": ""}
    assert json.loads(revision.after) == {"state": "quarantined", "reason": "all of them"}


def test_it_needs_a_reason() -> None:
    make_tasks(1)
    with pytest.raises(ActionRefused, match="Give a reason"):
        Quarantine(select(), "  ").apply(AUTHOR)


def test_it_needs_tasks() -> None:
    with pytest.raises(ActionRefused, match="No task is chosen"):
        Quarantine(select(tag="none"), "why").plan()


def test_it_continues_to_serve_a_quarantined_task_in_a_frozen_split() -> None:
    one, two = make_tasks(2)
    frozen, open_split = split_of(one, two, name="held-out"), split_of(one)
    freeze(frozen)
    quarantine(one)
    assert (served(frozen), served(open_split)) == ([one, two], [])


def test_it_plans_what_will_be_touched() -> None:
    one, two, three = make_tasks(3)
    train, frozen = split_of(one, two, two, three), split_of(two, name="held-out")
    freeze(frozen)
    quarantine(one)
    plan = Quarantine(select(environment=make_environment().pk), "").plan()
    assert (plan.title, plan.selected, plan.changing) == ("Quarantine 2 tasks", 3, 2)
    assert plan.splits == (SplitShare(train.pk, "train", 2),)
    assert plan.frozen == (SplitShare(frozen.pk, "held-out", 1),)
    assert plan.sentences == (
        "1 task is already quarantined.",
        "2 tasks are in split 'train'.",
        "Split 'held-out' is frozen and continues to serve 1 task of them.",
        *Quarantine.effects,
    )
    assert plan.named == (two, three)


@pytest.mark.usefixtures("small_batches")
def test_it_quarantines_more_tasks_than_one_batch() -> None:
    tasks = make_tasks(MANY)
    split = split_of(*tasks)
    told = list[tuple[int, int]]()
    outcome = Quarantine(select(), "why").apply(
        AUTHOR, lambda done, total: told.append((done, total))
    )
    assert served(split) == []
    assert outcome.changed == TaskRevision.objects.count() == MANY
    assert told[-1] == (MANY, MANY)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


@pytest.mark.usefixtures("small_batches")
def test_it_shows_nothing_before_everything_is_staged() -> None:
    tasks = make_tasks(MANY)
    split = split_of(*tasks)
    seen = list[list[int]]()
    Quarantine(select(), "why").apply(AUTHOR, lambda done, total: seen.append(served(split)))
    assert {len(order) for order in seen} == {0, MANY}


@pytest.mark.usefixtures("small_batches")
def test_it_changes_nothing_when_it_is_stopped_before() -> None:
    tasks = make_tasks(MANY)
    split = split_of(*tasks)
    with pytest.raises(ZeroDivisionError):
        Quarantine(select(), "why").apply(AUTHOR, break_off_after(MANY // 2 - 1))
    assert served(split) == tasks
    assert not Task.objects.filter(state="quarantined").exists()
    assert not TaskRevision.objects.exists()
    assert SplitEntry.objects.count() == MANY


@pytest.mark.usefixtures("small_batches")
def test_it_is_finished_when_it_is_stopped_after() -> None:
    split = split_of(*make_tasks(MANY))
    Quarantine(select(), "why").apply(AUTHOR, break_off_after(MANY // 2 + 1))
    assert served(split) == []
    assert Task.objects.filter(state="quarantined").count() == TaskRevision.objects.count() == MANY


def test_it_changes_nothing_while_another_person_changes_the_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("environments.curation.work.MAX_WAIT_SECONDS", 0.0)
    [task] = make_tasks(1)
    split = split_of(task)
    with SplitChange(split), pytest.raises(SplitBusy):
        quarantine(task)
    assert Task.objects.get().state == "active"


def test_it_does_not_serve_a_split_that_was_not_served() -> None:
    [task] = make_tasks(1)
    split = split_of(task)
    Split.objects.update(is_served=False)
    quarantine(task)
    row = Split.objects.get(pk=split.pk)
    assert (row.is_served, row.size) == (False, 0)


def test_it_does_not_make_readers_read_again_for_nothing() -> None:
    [task] = make_tasks(1)
    split = split_of(task)
    quarantine(task)
    quarantine(task)
    assert Split.objects.get(pk=split.pk).version == 1
