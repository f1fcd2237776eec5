"""Histories that the pages of tasks show, and the names of tasks in tables."""

from __future__ import annotations

import pytest

from environments.models import Split, Task, TaskRevision
from environments.tasks.task_facts import history_of, task_facts_of, task_names, versions_of
from tests.stored import NOW, make_split, make_task

pytestmark = pytest.mark.django_db


def edited(old: Task, new: Task) -> None:
    TaskRevision.objects.create(
        task=old,
        successor=new,
        kind="edit",
        change="c",
        author="ada",
        before=old.spec,
        after=new.spec,
        created=NOW,
    )


def test_versions_are_all_that_edits_connect_each_once() -> None:
    first, task, other = make_task(), make_task(), make_task()
    edited(first, task)
    edited(task, other)
    edited(other, task)
    edited(task, other)
    assert all(versions_of(one) == [first, task, other] for one in (first, task, other))
    assert versions_of(make_task()) == []


def test_the_successor_is_the_last_one() -> None:
    task, second, third = make_task(), make_task(), make_task()
    edited(task, second)
    edited(task, third)
    assert history_of(task).successor == third


def test_a_task_that_came_back_has_no_successor() -> None:
    task, other = make_task(), make_task()
    edited(task, other)
    edited(other, task)
    assert history_of(task).successor is None and history_of(other).successor == task


def test_a_successor_that_is_gone_is_none() -> None:
    task, other = make_task(), make_task()
    edited(task, other)
    other.delete()
    [change] = history_of(task).changes
    assert change.became is None and history_of(task).successor is None


def test_a_task_is_named_by_the_first_split_that_serves_it_and_its_index_there() -> None:
    first, second, loose = make_task(), make_task(), make_task()
    make_split(second, first, first)
    make_split(first, name="zoo")
    names = task_names([first.pk, second.pk, loose.pk])
    assert names == {first.pk: "train #1", second.pk: "train #0", loose.pk: f"task {loose.pk}"}


def test_a_task_keeps_its_name_when_it_or_one_before_it_is_quarantined() -> None:
    hidden, task = make_task(), make_task()
    split = make_split(hidden, task)
    split.entries.filter(task=hidden).update(is_hidden=True)
    Split.objects.filter(pk=split.pk).update(size=1)
    name = "train #0 (quarantined)"
    assert task_names([hidden.pk, task.pk]) == {hidden.pk: name, task.pk: "train #1"}
    assert task_facts_of(hidden).name == name and task_facts_of(task).name == "train #1"
    [place] = task_facts_of(task).places
    assert place.has_other_index and place.index == 0
    make_split(hidden, name="zoo")
    assert task_names([hidden.pk])[hidden.pk] == task_facts_of(hidden).name == "zoo #0"
