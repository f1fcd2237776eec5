"""Selections that are sorted by a column of the list."""

from __future__ import annotations

import pytest

from environments.curation.admin import tasks_by_figure
from environments.curation.admin.tasks_by_figure import batch_of
from environments.curation.selection import Selection
from environments.models import Task
from tests.environments.curation.tasks import make_tasks
from tests.filters import select
from tests.stored import make_statistics

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, too, all tasks are sorted."""
    monkeypatch.setattr(tasks_by_figure, "MAX_SORT_SECONDS", 60.0)


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
        ("-attempts", (2, 1, 0, 5, 4, 3)),
        ("attempts", (0, 1, 2, 5, 4, 3)),
        ("-success", (1, 0, 2, 5, 4, 3)),
        ("return", (2, 0, 1, 5, 4, 3)),
        ("bucket", (5, 2, 0, 1, 4, 3)),
        ("-bucket", (1, 0, 2, 5, 4, 3)),
    ],
)
def test_it_sorts_by_figures_with_what_has_none_last(sort: str, order: tuple[int, ...]) -> None:
    tasks = make_tasks(6)
    attempted(tasks[0], 4, 2), attempted(tasks[1], 5, 5), attempted(tasks[2], 6, 0)
    make_statistics(Task.objects.get(pk=tasks[5]), 0, 0, failures=1)
    assert in_order(select(sort=sort)) == [tasks[n] for n in order]


def test_it_sorts_as_many_as_it_can_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = make_tasks(6)
    attempted(tasks[0], 4, 2)
    assert batch_of(select(sort="-attempts")).sorted_among is None
    monkeypatch.setattr(tasks_by_figure, "MAX_SORTED", 3)
    batch = batch_of(select(sort="-attempts"))
    # unplayed tasks come last
    assert (batch.sorted_among, batch.ids) == (3, (tasks[0], tasks[5], tasks[4]))
