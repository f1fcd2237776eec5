"""Selections that are sorted by a column of the list."""

from __future__ import annotations

import pytest

from environments.curation.admin import sorted_selection
from environments.curation.admin.sorted_selection import batch_of
from environments.curation.selection import Selection
from environments.models import SplitEntry, Task, TaskTag
from tests.environments.curation.tasks import make_tasks, split_of
from tests.filters import select
from tests.stored import make_environment, make_statistics

pytestmark = pytest.mark.django_db


def in_order(wanted: Selection) -> list[int]:
    """Return the ids in all batches, which are the same when they are read backward."""
    found, batch = list[int](), batch_of(wanted, limit=2)
    found += batch.ids
    while not batch.is_last:
        assert (
            batch_of(wanted, batch_of(wanted, batch.last, 2).first, 2, backward=True).ids
            == batch.ids
        )
        batch = batch_of(wanted, batch.last, limit=2)
        found += batch.ids
    return found


def attempted(task: int, attempts: int, successes: int) -> None:
    make_statistics(Task.objects.get(pk=task), attempts, successes)


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("-attempts", (2, 1, 0, 4, 3)),
        ("attempts", (0, 1, 2, 4, 3)),
        ("-success", (1, 0, 2, 4, 3)),
        ("return", (2, 0, 1, 4, 3)),
        ("bucket", (2, 0, 1, 4, 3)),
        ("-bucket", (1, 0, 2, 4, 3)),
        ("tags", (3, 0, 4, 2, 1)),
        ("-splits", (1, 2, 4, 3, 0)),
        ("task", (0, 1, 2, 3, 4)),
        ("-task", (4, 3, 2, 1, 0)),
    ],
)
def test_it_sorts_by_any_column_with_what_has_no_value_last(
    sort: str, order: tuple[int, ...]
) -> None:
    tasks = make_tasks(5)
    attempted(tasks[0], 4, 2), attempted(tasks[1], 5, 5), attempted(tasks[2], 6, 0)
    (
        TaskTag.objects.create(task_id=tasks[3], name="a"),
        TaskTag.objects.create(task_id=tasks[0], name="b"),
    )
    split_of(tasks[2], name="a"), split_of(tasks[1], name="b")
    assert in_order(select(sort=sort)) == [tasks[n] for n in order]


def test_it_sorts_a_split_by_index_from_its_end() -> None:
    tasks = make_tasks(4)
    split = split_of(tasks[2], tasks[0], tasks[3], tasks[1])
    assert in_order(select(split=split.pk, sort="-index")) == [tasks[n] for n in (1, 3, 0, 2)]
    assert in_order(select(split=split.pk, sort="index")) == [tasks[n] for n in (2, 0, 3, 1)]
    SplitEntry.objects.filter(split=split, task=tasks[3]).update(is_hidden=True)
    assert in_order(select(split=split.pk, state="", sort="-index")) == [
        tasks[n] for n in (1, 0, 2, 3)
    ]


def test_the_end_of_a_large_split_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = make_tasks(6)
    split = split_of(*tasks)
    monkeypatch.setattr(sorted_selection, "MAX_SORTED", 3)
    batch = batch_of(select(split=split.pk, sort="-index"))
    assert (batch.sorted_among, batch.ids) == (3, (tasks[5], tasks[4], tasks[3]))


def test_it_sorts_by_the_names_of_environments() -> None:
    [zoo], [ant] = (make_tasks(1, environment=make_environment(name)) for name in ("zoo", "ant"))
    assert in_order(select(sort="environment")) == [ant, zoo]
    assert in_order(select(sort="-environment")) == [zoo, ant]


def test_it_sorts_as_many_as_it_can_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = make_tasks(6)
    attempted(tasks[0], 4, 2)
    assert batch_of(select(sort="-attempts")).sorted_among is None
    monkeypatch.setattr(sorted_selection, "MAX_SORTED", 3)
    batch = batch_of(select(sort="-attempts"))
    # unplayed tasks come last
    assert (batch.sorted_among, batch.ids) == (3, (tasks[0], tasks[5], tasks[4]))
