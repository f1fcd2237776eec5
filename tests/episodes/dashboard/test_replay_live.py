"""Tests of the parts of a replay that a page fetches again while the episode runs."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from episodes.models import Episode
from tests.episodes.dashboard.test_replay import seen
from tests.stored import NOW, make_blob, make_episode, make_step

pytestmark = pytest.mark.django_db


def test_the_return_so_far_is_shown_while_it_runs(client: Client) -> None:
    episode = make_episode(status="running", cause="", ended=None)
    assert "0.00" in seen(client, episode, "headline/")
    for reward in (0.5, None, 0.25):
        make_step(episode, reward=reward)
    assert "+0.75" in seen(client, episode, "headline/") and "so far" in seen(
        client, episode, "headline/"
    )
    assert "+0.50" in seen(client, episode, "headline/?return=max")


def test_the_box_of_the_task_is_returned_alone(client: Client) -> None:
    box = seen(client, make_episode(return_sum=0.5), "peers/?return=sum")
    assert "1 attempt" in box and "+0.50" in box and "<html" not in box
    assert '<span class="number">' not in box  # the number of attempts is said once


def test_prompt_and_facts_are_returned_alone(client: Client) -> None:
    episode = make_episode(status="running", cause="", ended=None)
    assert "hasn't requested the prompt yet" in seen(client, episode, "prompt/")
    Episode.objects.filter(pk=episode.pk).update(
        prompt=make_blob('[{"type": "text", "text": "Talk."}]'), status="ended"
    )
    assert "Talk." in seen(client, episode, "prompt/") and "<html" not in seen(
        client, episode, "prompt/"
    )
    assert "ors-sdk/0.1.0" in seen(client, episode, "facts/") and "<html" not in seen(
        client, episode, "facts/"
    )


def test_the_headline_is_returned_again_while_it_runs(client: Client) -> None:
    episode = make_episode(status="running", cause="", ended=None)
    assert f'data-live="episode-{episode.pk}"' in seen(client, episode)
    Episode.objects.filter(pk=episode.pk).update(
        status="ended", cause="finished", ended=NOW + timedelta(seconds=3)
    )
    assert "finished" in seen(client, episode, "headline/") and "<html" not in seen(
        client, episode, "headline/"
    )
