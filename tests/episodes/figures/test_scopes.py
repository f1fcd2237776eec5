"""The newest episodes of a scope are counted, although their numbers have gaps."""

from __future__ import annotations

import pytest
from django.test import Client

from episodes.figures.scopes import filtered, floor_of
from episodes.models import Episode
from tests.episodes.ended import end_episode
from tests.stored import make_task

pytestmark = pytest.mark.django_db
NUMBERS = (3, 4, 1_000_000, 1_000_001, 2_000_000)


@pytest.fixture(autouse=True)
def episodes() -> None:
    task = make_task()
    for number in NUMBERS:
        end_episode(pk=number, task=task, model="m")


@pytest.mark.parametrize(("most", "floor"), [(1, 1_000_001), (3, 4), (4, 3), (5, 0), (50, 0)])
def test_the_floor_is_the_number_of_the_first_episode_beyond(most: int, floor: int) -> None:
    everything = Episode.objects.filter(environment__name="math")
    assert floor_of(filtered(Episode.objects.filter(model="m"), ""), most) == floor
    assert floor_of(filtered(Episode.objects.filter(model="m"), "", everything), most) == floor


def test_a_page_of_few_episodes_counts_all_of_them(client: Client) -> None:
    answer = client.get("/api/curves?model=m&ending=attempt").json()
    assert answer["total"]["n"] == len(NUMBERS) and not answer["is_bounded"]
