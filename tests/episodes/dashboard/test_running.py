"""Tests of the pages that show a running episode, whose row has no figures until it ends."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils.html import strip_tags

from episodes.models import Episode
from tests.rows import each
from tests.stored import make_episode, make_run, make_step

pytestmark = pytest.mark.django_db


@pytest.fixture
def running() -> Episode:
    """Return a running episode of three steps with a reward."""
    episode = make_episode(status="running", cause="", ended=None, run=make_run(), run_step=1)
    for reward in (0.5, 0.25, 0.1):
        make_step(episode, reward=reward)
    return episode


@each(
    "address",
    [
        *(
            "/episodes/",
            "/episodes/{pk}/facts/",
            "/episodes/{pk}/preview/",
            "/compare/?episodes={pk},{other}",
        ),
        *(
            "/tasks/{task}/",
            "/tasks/{task}/group/?run={run}&step=1",
            "/runs/{run}/",
            "/runs/{run}/groups/?step=1",
        ),
        *(
            "/admin/episodes/episode/",
            "/admin/episodes/episode/{pk}/change/",
            "/admin/episodes/run/{run}/change/",
        ),
    ],
)
def test_it_has_neither_a_return_nor_a_count_of_nothing(
    client: Client, running: Episode, address: str
) -> None:
    other = make_episode(return_sum=1.0, steps_count=2)
    path = address.format(pk=running.pk, task=running.task_id, run=running.run_id, other=other.pk)
    shown = client.get(path).content.decode()
    assert (
        'title="0.0"' not in shown
        and '<span class="number">0' not in shown
        and "0 steps" not in strip_tags(shown)
    )


def test_the_preview_counts_the_steps_so_far(client: Client, running: Episode) -> None:
    assert "3 steps so far" in strip_tags(
        client.get(f"/episodes/{running.pk}/preview/").content.decode()
    )
