"""Stretches: what is kept about a split agrees with its places, whatever was done to it."""

from __future__ import annotations

import json
import random

import pytest

from environments.models import Split, SplitEntry, SplitStretches
from environments.tasks import split_indexes
from environments.tasks.split_change import SplitChange, commit
from environments.tasks.split_indexes import renew_missing, served_before
from environments.tasks.task_places import SplitPlace
from tests.environments.curation.tasks import make_tasks, split_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_indexes, "POSITIONS", 10)
    monkeypatch.setattr(split_indexes, "STRETCHES_PER_QUERY", 2)
    monkeypatch.setattr(split_indexes, "MAX_COUNTED_TASKS", 0)


def kept(split: Split) -> list[int]:
    row = SplitStretches.objects.get(split=split)
    assert row.version == Split.objects.get(pk=split.pk).version
    counts: list[int] = json.loads(row.counts)
    return counts[: max(number for number, count in enumerate(counts) if count) + 1]


def counted(split: Split) -> list[int]:
    found = SplitEntry.objects.filter(split=split, until=None, is_hidden=False).values_list(
        "position", flat=True
    )
    places = list(found)
    return [
        sum(place // 10 == number for place in places) for number in range(max(places) // 10 + 1)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_they_follow_every_change(seed: int) -> None:
    tasks, choice = make_tasks(100), random.Random(seed)
    split = split_of(*tasks[:80])
    for _ in range(6):
        with SplitChange(split) as change:
            change.add(choice.sample(tasks, 10))
            change.remove(choice.sample(tasks, 10))
            change.set_hidden(choice.sample(tasks, 10), is_hidden=True)
            change.set_hidden(choice.sample(tasks, 5), is_hidden=False)
            change.replace(dict([choice.sample(tasks, 2)]))
            commit(change)
        assert kept(split) == counted(split)


def test_they_follow_a_split_that_is_placed_again() -> None:
    tasks = make_tasks(50)
    split = split_of(*tasks)
    for order in (tasks[::-1], tasks[:25], tasks):
        with SplitChange(split) as change:
            change.place([SplitPlace(task) for task in order])
            commit(change)
        assert kept(split) == counted(split)


def test_a_change_that_was_given_up_leaves_them_as_they_were() -> None:
    split = split_of(*make_tasks(30))
    renew_missing()
    with SplitChange(split) as change:
        change.remove(list(split.entries.values_list("task_id", flat=True)[:12]))
    assert kept(split) == [10, 10, 10]


def test_a_split_whose_change_was_not_followed_has_no_figures_until_it_is_counted() -> None:
    split = split_of(*make_tasks(30))
    renew_missing()
    Split.objects.filter(pk=split.pk).update(version=4)
    split.refresh_from_db()
    assert served_before(split) is None
    renew_missing()
    assert kept(split) == [10, 10, 10]


def test_a_change_after_one_that_was_not_followed_counts_everything() -> None:
    split = split_of(*make_tasks(30))
    with SplitChange(split) as change:
        change.set_hidden(list(split.entries.values_list("task_id", flat=True)[:3]), is_hidden=True)
        commit(change)
    assert kept(split) == [7, 10, 10]
