"""Indexes: what pages call #12 is what a client gets for index 12."""

from __future__ import annotations

import random

import pytest
from pytest_django import DjangoAssertNumQueries

from environments.models import Split, SplitEntry
from environments.tasks import split_indexes
from environments.tasks.split_change import SplitChange, commit
from environments.tasks.split_indexes import served_indexes
from tests.environments.curation.tasks import make_tasks, served, split_of

pytestmark = pytest.mark.django_db


def gappy(count: int = 60) -> Split:
    """Return a split of which some tasks are hidden and some were removed."""
    tasks = make_tasks(count)
    split = split_of(*tasks)
    choice = random.Random(4).sample(tasks, count // 2)
    with SplitChange(split) as change:
        change.remove(choice[: count // 4])
        change.set_hidden(choice[count // 4 :], is_hidden=True)
        commit(change)
    return Split.objects.get(pk=split.pk)


@pytest.mark.parametrize("length", [1, 7, 500])
def test_an_index_is_what_the_catalogue_serves_there(
    monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    monkeypatch.setattr(split_indexes, "POSITIONS", length)
    split = gappy()
    task_at = {
        entry.position: entry.task_id
        for entry in SplitEntry.objects.filter(split=split, is_hidden=False)
    }
    for wanted in (range(60), range(0, 60, 7), range(50, 60), [3], [57]):
        found = served_indexes(split, list(wanted))
        assert {at: task_at[at] for at in found} == {
            at: served(split)[index] for at, index in found.items()
        }
        assert found.keys() == {at for at in wanted if at in task_at}


def test_a_split_without_gaps_is_asked_once(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    split = split_of(*make_tasks(5))
    with django_assert_num_queries(1):
        assert served_indexes(split, [1, 4]) == {1: 1, 4: 4}


def test_it_asks_as_little_of_places_that_are_far_apart(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    split = gappy(1200)
    with django_assert_num_queries(3):  # the last place, the stretches, the places
        assert served_indexes(split, [7, 600, 1190])


def test_an_empty_split_has_no_index() -> None:
    assert served_indexes(split_of(), [0]) == {}
