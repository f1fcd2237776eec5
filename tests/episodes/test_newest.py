"""The episodes that run, those that ended last, and how an environment's newest went."""

from __future__ import annotations

import pytest
from pytest_django import DjangoAssertNumQueries

from episodes.newest import MOST_ADDED, POINTS, READ_ENDINGS, ended, record_of, running
from tests.stored import make_environment, make_episode, make_step

pytestmark = pytest.mark.django_db


def test_a_running_episodes_figures_come_from_its_steps() -> None:
    episode = make_episode(status="running", cause="", ended=None)
    for reward in (0.25, None, 0.5):
        make_step(episode, reward=reward)
    (line,) = running(5)
    assert (line.episode, line.steps, line.return_so_far) == (episode, 3, 0.75)


def test_the_rewards_of_a_very_long_one_are_not_added_up() -> None:
    make_step(make_episode(status="running", cause="", ended=None), index=MOST_ADDED, reward=1.0)
    (line,) = running(5)
    assert (line.steps, line.return_so_far) == (MOST_ADDED + 1, None)


def test_one_without_a_step_has_nothing_so_far() -> None:
    make_episode(status="running", cause="", ended=None)
    assert [(line.steps, line.return_so_far) for line in running(5)] == [(0, 0.0)]


def test_running_ones_take_three_queries(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    for _ in range(4):
        make_step(make_episode(status="running", cause="", ended=None))
    with django_assert_num_queries(3):
        assert len([line.episode.environment.name for line in running(3)]) == 3


def test_the_ended_ones_come_newest_first_and_without_those_that_run() -> None:
    first, second = make_episode(return_sum=0.5), make_episode(steps_count=4)
    make_episode(status="running", cause="", ended=None)
    assert [(line.episode, line.steps, line.return_so_far) for line in ended(5)] == [
        (second, 4, 0.0),
        (first, 0, 0.5),
    ]


def test_a_record_is_of_attempts_by_the_environments_definition() -> None:
    chess = make_environment("chess", default_return="last", success_threshold=0.5)
    returns = [1.0, 0.0, None]
    for number, value in enumerate(returns):
        make_episode(environment=chess, return_last=value, return_sum=9.0, end_number=number)
    make_episode(environment=chess, cause="env_error", return_last=1.0, end_number=4)
    make_episode(environment=chess, is_probe=True, cause="abandoned", return_last=1.0, end_number=5)
    record = record_of(chess)
    assert (record.attempts, record.scored, record.successes, record.mean) == (3, 2, 1, 0.5)
    assert record.error == 0.5 and record.points == [1.0, 0.0]


def test_a_record_without_attempts_has_no_mean() -> None:
    record = record_of(make_environment("chess"))
    assert (record.attempts, record.mean, record.error, record.rate, record.points) == (0, None, None, 0.0, [])


def test_a_records_points_are_few() -> None:
    chess = make_environment("chess")
    for number in range(2 * POINTS + 1):
        make_episode(environment=chess, return_sum=1.0, end_number=number)
    assert 0 < len(record_of(chess).points) <= POINTS


def test_a_record_reads_the_newest_along_an_index(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    chess = make_environment("chess")
    with django_assert_num_queries(1) as asked:
        record_of(chess)
    assert f"LIMIT {READ_ENDINGS}" in asked.captured_queries[0]["sql"]
