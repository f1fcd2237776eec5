"""A mean never exceeds the greatest of its values: the sum of three times 0.1, divided by 3, is
more than 0.1."""

from __future__ import annotations

import csv
import io

import pytest
from django.test import Client

from environments.checking.checks.rewards import return_of
from episodes.attempts.return_so_far import ReturnSoFar
from episodes.browsing.running_episodes import so_far
from episodes.models import Episode
from episodes.recording.interrupted_episodes import close_interrupted
from episodes.rollups.follower import catch_up
from tests.episodes.ended import count_statistics, end_episode
from tests.episodes.recorded import record
from tests.factories import episode_started, step_taken
from tests.stored import make_run, make_task

VALUES = (0.1, 0.1, 0.1)
LATER = 2_000_000_000.0

pytestmark = pytest.mark.django_db


@pytest.mark.django_db(transaction=True)
def test_the_mean_of_an_episode_is_within_its_rewards() -> None:
    record(
        (
            episode_started(),
            *(step_taken(index=n, reward=reward) for n, reward in enumerate(VALUES)),
        )
    )
    running, growing = so_far([1])[1].returns, ReturnSoFar("mean")
    assert running["mean"] == 0.1 and [growing.add(reward) for reward in VALUES] == [0.1, 0.1, 0.1]
    close_interrupted(LATER)
    episode = Episode.objects.get()
    assert (episode.return_mean, episode.return_max, return_of(VALUES, "mean")) == (0.1, 0.1, 0.1)


def test_the_mean_of_attempts_is_within_their_returns(client: Client) -> None:
    task, run = make_task(), make_run()
    for value in VALUES:
        end_episode(value, task=task, run=run, run_step=1)
    count_statistics()
    catch_up()
    figures = client.get(f"/api/tasks/{task.pk}").json()["statistics"]
    assert (figures["return_mean"], figures["return_high"]) == (0.1, 0.1)
    assert client.get(f"/tasks/{task.pk}/").context["facts"].statistics.overall.mean == 0.1
    assert (
        client.get(f"/tasks/{task.pk}/?return=last").context["facts"].statistics.overall.mean == 0.1
    )
    [point] = csv.DictReader(
        io.StringIO(client.get("/runs/curves/?x=step&format=csv").getvalue().decode())
    )
    assert float(point["mean"]) == float(point["p90"]) == 0.1
