"""The seeded database of the dashboard benchmark, which must hold what a server would have recorded
and derived."""

from __future__ import annotations

import pytest

from benchmarks import seeded
from benchmarks.seeded import index_all, seed
from episodes.models import Episode, Progress, RunTotal, Step
from episodes.rollups.follower import catch_up
from episodes.search import index
from episodes.search.index import matching

pytestmark = pytest.mark.django_db(transaction=True)

SEARCHES = [
    "zephyr",
    "lantern granite",
    '"there is"',
    "submit",
    "key*",
    "KeyError",
    "nosuchword",
    "detail",
    "Step",
]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeded, "TASKS", 40)


def found() -> list[set[int]]:
    """Return the episodes that each of SEARCHES finds."""
    return [set(matching(text)) for text in SEARCHES]


def test_a_row_agrees_with_its_steps() -> None:
    steps = seed(60, 40)
    assert steps == Step.objects.count() > 60
    for episode in Episode.objects.prefetch_related("steps"):
        assert episode.steps.count() == episode.steps_count + episode.refused_count


def test_words_are_those_that_the_follower_would_find() -> None:
    seed(60, 40)
    index_all()
    at_once = found()
    index.empty()
    Progress.objects.filter(name="text").update(end_number=0)
    catch_up()
    assert at_once == found() and any(at_once)


def test_runs_have_their_totals() -> None:
    seed(60, 40)
    index_all()
    catch_up()
    of_runs = Episode.objects.filter(run__isnull=False, status="ended")
    assert sum(RunTotal.objects.values_list("episodes", flat=True)) == of_runs.count() > 0
