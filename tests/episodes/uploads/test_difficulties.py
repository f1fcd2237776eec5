"""Difficulties of tasks whose content the clients sent, and no index, as `session(task=…)` of both
SDKs does."""

from __future__ import annotations

from typing import Any

import pytest

from environments.models import UNRESTRICTED
from episodes.models import Episode
from episodes.rollups.follower import catch_up
from episodes.uploads.rollout_figures import DifficultyQuery, difficulties
from tests.episodes.reported import played, reported
from tests.stored import make_environment, make_split, make_task

pytestmark = pytest.mark.django_db(transaction=True)

ANSWER = [("assistant_message", "done", {"reward": 0.25, "response_characters": 4})]


@pytest.fixture
def episode() -> Episode:
    """An episode at the second task of train, of which the client named neither split nor index."""
    environment = make_environment("echo")
    first, second = make_task(environment=environment), make_task(environment=environment)
    make_split(first, second, environment=environment)
    episode = played()
    Episode.objects.update(task=second, split=None, task_index=None)
    episode.refresh_from_db()
    return episode


def told(**query: Any) -> list[tuple[Any, ...]]:
    rows = difficulties(DifficultyQuery("echo", UNRESTRICTED, **query))
    return [
        (row["split"], row["task_index"], row["avg_reward"], row["response_chars"]["mean"])
        for row in rows
    ]


def test_an_episode_is_of_the_place_of_its_task(episode: Episode) -> None:
    assert told() == told(split="train") == [("train", 1, 0.5, 13)]
    assert told(split="test") == []


def test_an_upload_is_of_the_place_of_the_task_of_its_episode(episode: Episode) -> None:
    reported(messages=ANSWER, event='{"metadata": {"session_id": "s-1"}}')
    catch_up()
    assert told() == told(split="train") == [("train", 1, 0.25, 4)]
    assert told(split="test") == []


def test_a_split_that_the_client_names_decides_between_places(episode: Episode) -> None:
    make_split(episode.task, name="zoo", environment=episode.environment)
    reported(messages=ANSWER, split="zoo", event='{"metadata": {"session_id": "s-1"}}')
    catch_up()
    assert told() == [("zoo", 0, 0.25, 4)]


def test_episodes_count_beside_uploads_of_the_same_task(episode: Episode) -> None:
    reported(messages=ANSWER, split="train", task_index=1)
    catch_up()
    [row] = difficulties(DifficultyQuery("echo", UNRESTRICTED))
    assert (row["num_rollouts"], row["min_reward"], row["max_reward"]) == (2, 0.25, 0.5)


def test_an_episode_whose_upload_has_no_reward_keeps_its_return(episode: Episode) -> None:
    reported(
        messages=[("assistant_message", "done", {})], event='{"metadata": {"session_id": "s-1"}}'
    )
    catch_up()
    assert told() == [("train", 1, 0.5, 13)]


def test_a_task_without_a_place_has_no_difficulty() -> None:
    played()
    Episode.objects.update(
        task=make_task(environment=make_environment("echo")), split=None, task_index=None
    )
    assert told() == []
