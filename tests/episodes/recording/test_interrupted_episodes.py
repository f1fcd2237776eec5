from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

import pytest

from environments.models import Environment
from environments.wire import NO_NUMBER
from episodes.models import Episode
from episodes.recording.interrupted_episodes import close_interrupted
from tests.episodes.counting import recounted, stored
from tests.episodes.recorded import record
from tests.factories import NOON, episode_ended, episode_started, step_taken

pytestmark = pytest.mark.django_db(transaction=True)

LATER = NOON + 3600


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_it_ends_what_was_left_open() -> None:
    record((episode_started(1), episode_started(2), episode_ended(2)))
    assert close_interrupted(LATER) == 1
    episode = Episode.objects.get(pk=1)
    assert (episode.status, episode.cause, episode.ended) == ("ended", "interrupted", moment(LATER))
    assert Episode.objects.get(pk=2).cause == "finished"


def test_it_counts_the_steps() -> None:
    rewards = [0.25, None, 1.0, 0.5, None]
    steps = [step_taken(index=n, reward=reward) for n, reward in enumerate(rewards)]
    record((episode_started(), *steps, step_taken(index=5, status="refused", reward=None)))
    close_interrupted(LATER)
    episode = Episode.objects.get()
    assert (episode.steps_count, episode.refused_count, episode.is_probe) == (5, 1, False)
    assert (episode.return_sum, episode.return_last, episode.return_max) == (1.75, 0.5, 1.0)
    assert episode.return_mean == pytest.approx(1.75 / 3)


def test_it_says_that_a_reward_was_not_a_number() -> None:
    record((episode_started(), step_taken(reward=None, reason=NO_NUMBER)))
    close_interrupted(LATER)
    assert Episode.objects.get().detail.endswith(". A reward was not a number.")


def test_it_finds_when_the_episode_acted() -> None:
    steps = [
        step_taken(index=n, started=NOON + n, waited_ms=500.0, duration_ms=1250.0) for n in range(3)
    ]
    record((episode_started(), *steps))
    close_interrupted(LATER)
    episode = Episode.objects.get()
    assert episode.first_acted == moment(NOON)
    assert episode.last_acted is not None
    assert abs(episode.last_acted - moment(NOON + 3.75)) < timedelta(milliseconds=2)


def test_it_leaves_returns_empty_without_rewards() -> None:
    record((episode_started(),))
    close_interrupted(LATER)
    episode = Episode.objects.get()
    assert (episode.steps_count, episode.return_sum, episode.return_last) == (0, 0.0, None)
    assert (episode.return_max, episode.return_mean, episode.first_acted) == (None, None, None)


BIGGEST = sys.float_info.max


@pytest.mark.parametrize(
    ("rewards", "total", "mean"),
    [
        ([1.7e308, 1.7e308], BIGGEST, 1.7e308),
        ([-1.7e308, -1.7e308], -BIGGEST, -BIGGEST),
        ([1.7e308, -1.7e308], 0.0, 0.0),
        ([BIGGEST], BIGGEST, BIGGEST),
    ],
)
def test_it_keeps_returns_finite(rewards: list[float], total: float, mean: float) -> None:
    record(
        (
            episode_started(),
            *(step_taken(index=n, reward=reward) for n, reward in enumerate(rewards)),
        )
    )
    close_interrupted(LATER)
    episode = Episode.objects.get()
    assert (episode.return_sum, episode.return_mean) == (total, mean)
    assert (episode.return_last, episode.steps_count) == (rewards[-1], len(rewards))


def test_it_ends_every_episode_next_to_one_of_huge_rewards() -> None:
    for number, reward in ((1, 0.5), (2, 1.7e308), (3, None)):
        record(
            (
                episode_started(number),
                *(step_taken(number, index, reward=reward) for index in range(2)),
            )
        )
    assert close_interrupted(LATER) == 3
    rows = Episode.objects.order_by("pk").values_list(
        "status", "return_sum", "return_mean", "steps_count"
    )
    assert list(rows) == [
        ("ended", 1.0, 0.5, 2),
        ("ended", BIGGEST, 1.7e308, 2),
        ("ended", 0.0, None, 2),
    ]


def test_it_counts_them_in_the_statistics_of_their_tasks() -> None:
    record(*((episode_started(n), step_taken(n)) for n in (1, 2)))
    Environment.objects.update(convention="zkzo")
    close_interrupted(LATER)
    assert stored() == recounted() != {}
    assert [row[0] for row in stored().values()] == [2]
