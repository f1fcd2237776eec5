"""Indexes: what pages call #12 is what a client gets for index 12."""

from __future__ import annotations

import random

import pytest
from pytest_django import DjangoAssertNumQueries

from environments.changes import SplitChange, commit
from environments.curation import indexes
from environments.curation.indexes import served_indexes
from environments.models import Split, SplitEntry
from tests.environments.curation.tasks import make_tasks, served, split_of

pytestmark = pytest.mark.django_db


def gappy(count: int = 60) -> Split:
    """Some of its tasks are hidden, some were removed."""
    tasks = make_tasks(count)
    split = split_of(*tasks)
    choice = random.Random(4).sample(tasks, count // 2)
    with SplitChange(split) as change:
        change.remove(choice[: count // 4])
        change.hide(choice[count // 4 :])
        commit(change)
    return Split.objects.get(pk=split.pk)


@pytest.mark.parametrize("near", [0, 3, 500])
def test_an_index_is_what_the_catalogue_serves_there(monkeypatch: pytest.MonkeyPatch, near: int) -> None:
    monkeypatch.setattr(indexes, "NEAR", near)
    split = gappy()
    task_at = {entry.position: entry.task_id for entry in SplitEntry.objects.filter(split=split, is_hidden=False)}
    for wanted in (range(60), range(0, 60, 7), range(50, 60), [3], [57]):
        found = served_indexes(split, list(wanted), seconds=60.0)
        assert [task_at[at] for at in found] == [served(split)[index] for index in found.values()]
        assert found.keys() == {at for at in wanted if at in task_at}


def test_a_split_without_gaps_is_asked_once(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    split = split_of(*make_tasks(5))
    with django_assert_num_queries(1):
        assert served_indexes(split, [1, 4]) == {1: 1, 4: 4}


def test_it_tells_what_it_knows_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "NEAR", 0)
    assert served_indexes(gappy(), [1, 30, 58], seconds=-1) == {}


def test_an_empty_split_has_no_index() -> None:
    assert served_indexes(split_of(), [0]) == {}
