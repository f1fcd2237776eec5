"""Which tasks lists, bulk actions, exports and statistics mean, by default what is served now."""

from __future__ import annotations

import json

import pytest

from environments.curation.actions.membership import CopyToSplit, SaveAsSplit
from environments.curation.actions.quarantine import Quarantine
from environments.curation.edit import Edit
from environments.curation.selection import Selection
from environments.curation.splits import freeze
from environments.curation.transfer.exporting import exported
from environments.curation.undo import UndoInTask
from environments.filtering.parameters import BadFilter
from environments.models import UNRESTRICTED, Split, Task, TaskRevision, TaskStatistics
from environments.tasks.task_states import STATES, with_states
from tests.environments.curation.tasks import AUTHOR, make_tasks, served, split_of
from tests.filters import select
from tests.stored import make_environment

pytestmark = pytest.mark.django_db(transaction=True)


def edited(task: int) -> int:
    """Give the task other content, and return the task in its place."""
    new = Edit(task, json.dumps({"fixed": task}), seen=0).apply(AUTHOR).task
    assert new is not None
    return new


def hopeless(*tasks: int) -> None:
    counts = {
        "attempts": 9,
        "scored": 9,
        "successes": 0,
        "return_total": 0.0,
        "rate": 0.0,
        "bucket": "hopeless",
    }
    rows = (
        TaskStatistics(task_id=task, environment=make_environment(), by="all", **counts)
        for task in tasks
    )
    TaskStatistics.objects.bulk_create(rows)


def listed(**values: str) -> list[int]:
    """Return the tasks of a list with these parameters, oldest first."""
    return list(
        Selection.parse(
            {"environment": str(make_environment().pk), **values}, UNRESTRICTED
        ).all_ids()
    )


def one_in_each_state() -> dict[str, int]:
    """Make a task in each state, in one environment."""
    kept, broken, bad = make_tasks(3, source="code")
    split_of(kept, broken, bad)
    [removed], [pasted] = make_tasks(1, first=10, source="code"), make_tasks(1, first=20)
    Quarantine(select(ids=(bad,)), "bad").apply(AUTHOR)
    edited(broken)
    return {
        "served": kept,
        "quarantined": bad,
        "superseded": broken,
        "removed": removed,
        "pasted": pasted,
    }


def test_saving_what_is_hopeless_does_not_serve_the_broken_version_of_an_edited_task() -> None:
    kept, broken = make_tasks(2, source="code")
    split_of(kept, broken)
    hopeless(kept, broken)
    edited(broken)
    chosen = Selection.parse(
        {"environment": str(make_environment().pk), "bucket": "hopeless"}, UNRESTRICTED
    )
    action = SaveAsSplit(chosen, "hard", "train")
    assert (action.plan().title, action.plan().sentences[-1]) == (
        "Save 1 task as split 'hard'",
        "1 task that matches is not served and will be left alone.",
    )
    assert served(action.apply(AUTHOR).split or 0) == [kept]


def test_each_state_is_a_filter_and_every_task_is_in_one_of_them() -> None:
    tasks = one_in_each_state()
    found = {state: listed(state=state) for state in STATES}
    new = Task.objects.get(source="edit").pk
    assert found == {
        state: [task, *([new] if state == "served" else [])] for state, task in tasks.items()
    }
    assert (listed(), listed(state="any")) == (found["served"], sorted([*tasks.values(), new]))
    standing = with_states(Task.objects.all()).values_list("standing", "pk")
    assert sorted(standing) == sorted((state, task) for state in found for task in found[state])


@pytest.mark.parametrize("state", STATES)
def test_pages_of_a_state_hold_what_all_its_ids_are(state: str) -> None:
    one_in_each_state()
    chosen = Selection.parse({"state": state}, UNRESTRICTED)
    assert sorted(chosen.batch().ids) == list(chosen.all_ids())


def test_the_plan_counts_what_matches_in_other_states() -> None:
    one_in_each_state()
    plan = SaveAsSplit(
        Selection.parse({"environment": str(make_environment().pk)}, UNRESTRICTED), "new", "train"
    ).plan()
    assert plan.sentences[-1] == "4 tasks that match are not served and will be left alone."


def test_checked_tasks_that_are_superseded_are_not_added() -> None:
    tasks = one_in_each_state()
    target = split_of(name="target")
    action = CopyToSplit(select(ids=(tasks["superseded"], tasks["served"])), target.pk)
    assert "1 task of these is superseded and will not be added." in action.plan().sentences
    action.apply(AUTHOR)
    assert served(target) == [tasks["served"]]


def test_superseded_tasks_that_were_asked_for_are_added_and_are_served_then() -> None:
    old = one_in_each_state()["superseded"]
    CopyToSplit(select(state="superseded"), split_of(name="target").pk).apply(AUTHOR)
    assert old in listed() and listed(state="superseded") == []


def test_a_restored_task_is_served_and_its_edit_superseded() -> None:
    [old] = make_tasks(1)
    split_of(old)
    new = edited(old)
    UndoInTask(TaskRevision.objects.get(task=old).pk).apply(AUTHOR)
    assert (listed(), listed(state="superseded")) == ([old], [new])


def test_a_frozen_split_lists_and_exports_what_it_serves() -> None:
    kept, broken = make_tasks(2)
    train, test = split_of(kept, broken), split_of(kept, broken, name="test")
    freeze(test)
    new = edited(broken)
    assert (listed(split=str(test.pk)), listed(split=str(train.pk))) == (
        [kept, broken],
        [kept, new],
    )
    lines = b"".join(
        exported(Selection.parse({"split": str(test.pk)}, UNRESTRICTED), "jsonl", has_labels=False)
    ).splitlines()
    assert [json.loads(line) for line in lines] == [{"n": 0}, {"n": 1}]
    assert listed() == [kept, new]


def test_what_a_class_generates_counts_as_served() -> None:
    environment = make_environment()
    type(environment).objects.update(is_procedural=True)
    [played] = make_tasks(1)
    assert listed() == [played]


def test_a_task_in_a_split_that_is_not_served_is_removed() -> None:
    [task] = make_tasks(1, source="code")
    split_of(task)
    Split.objects.update(is_served=False)
    assert (listed(), listed(state="removed")) == ([], [task])


def test_an_unknown_state_names_those_that_there_are() -> None:
    with pytest.raises(BadFilter, match="superseded, removed, pasted, active, any"):
        Selection.parse({"state": "gone"}, UNRESTRICTED)
