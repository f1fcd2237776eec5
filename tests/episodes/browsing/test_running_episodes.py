"""Tests of the lists of running episodes and of those that ended last."""

from __future__ import annotations

import sys

import pytest
from pytest_django import DjangoAssertNumQueries

from environments.models import UNRESTRICTED
from episodes.browsing.running_episodes import MAX_ADDED, SoFar, ended, running, so_far
from tests.stored import make_episode, make_step

pytestmark = pytest.mark.django_db


def test_a_running_episodes_figures_come_from_its_steps() -> None:
    episode = make_episode(status="running", cause="", ended=None)
    for reward in (0.25, None, 0.5):
        make_step(episode, reward=reward)
    (line,) = running(5, UNRESTRICTED)
    assert (line.episode, line.steps, line.return_so_far) == (episode, 3, 0.75)


def test_the_rewards_of_a_very_long_one_are_not_added_up() -> None:
    make_step(make_episode(status="running", cause="", ended=None), index=MAX_ADDED, reward=1.0)
    (line,) = running(5, UNRESTRICTED)
    assert (line.steps, line.return_so_far) == (MAX_ADDED + 1, None)


def test_one_without_a_step_has_nothing_so_far() -> None:
    make_episode(status="running", cause="", ended=None)
    assert [(line.steps, line.return_so_far) for line in running(5, UNRESTRICTED)] == [(0, 0.0)]


def test_the_return_is_shown_by_each_definition() -> None:
    episode = make_episode(status="running", cause="", ended=None)
    for reward in (0.75, -0.25, None):
        make_step(episode, reward=reward)
    assert so_far([episode.pk]) == {
        episode.pk: SoFar(3, {"sum": 0.5, "last": -0.25, "max": 0.75, "mean": 0.25})
    }


def test_without_a_reward_there_is_only_a_sum() -> None:
    episode = make_episode(status="running", cause="", ended=None)
    make_step(episode)
    assert so_far([episode.pk])[episode.pk] == SoFar(
        1, {"sum": 0.0, "last": None, "max": None, "mean": None}
    )


def test_running_ones_take_three_queries(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    for _ in range(4):
        make_step(make_episode(status="running", cause="", ended=None))
    with django_assert_num_queries(3):
        assert len([line.episode.environment.name for line in running(3, UNRESTRICTED)]) == 3


def test_the_ended_ones_come_newest_first_and_without_those_that_run() -> None:
    first, second = make_episode(return_sum=0.5), make_episode(steps_count=4)
    make_episode(status="running", cause="", ended=None)
    assert [(line.episode, line.steps, line.return_so_far) for line in ended(5, UNRESTRICTED)] == [
        (second, 4, 0.0),
        (first, 0, 0.5),
    ]


def test_huge_rewards_are_added_up_as_far_as_numbers_go() -> None:
    episode = make_episode(status="running", cause="", ended=None)
    for _ in range(2):
        make_step(episode, reward=1e308)
    assert running(5, UNRESTRICTED)[0].return_so_far == sys.float_info.max
