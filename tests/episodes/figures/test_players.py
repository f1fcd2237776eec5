"""Figures of people next to those of all other players, at a task and in an environment."""

from __future__ import annotations

import pytest
from django.test import Client
from pytest import approx
from pytest_django import DjangoAssertNumQueries

from environments.models import UNRESTRICTED, Environment
from environments.scoring.definition import Definition
from episodes.figures.environments.histogram import histogram
from episodes.figures.leaderboard.leaderboard import LeaderboardQuery
from episodes.figures.players import PlayerFigures, at_task, in_environment
from episodes.figures.scopes import scope_of
from episodes.rollups.follower import catch_up
from tests.episodes.ended import count_statistics, end_episode, end_episodes
from tests.stored import make_environment, make_run, make_task

pytestmark = pytest.mark.django_db
SUM = Definition()


def both_figures(environment: Environment, definition: Definition = SUM) -> list[PlayerFigures]:
    return in_environment(
        environment, definition, histogram(scope_of(environment), definition).total, UNRESTRICTED
    )


def test_each_kind_of_player_has_figures_of_its_own_at_a_task() -> None:
    task = make_task()
    for player, reward in (("human", 1.0), ("human", 0.5), ("agent", 0.25), ("script", 0.0)):
        end_episode(reward, task=task, player=player)
    end_episode(task=make_task(), player="human")
    found = [
        (one.player, one.n, one.mean, one.successes) for one in at_task(task, SUM, UNRESTRICTED)
    ]
    assert found == [("human", 2, 0.75, 1), ("agent", 1, 0.25, 0), ("script", 1, 0.0, 0)]


def test_probes_failures_and_what_still_runs_are_no_attempts() -> None:
    task = make_task()
    end_episode(task=task, player="human", is_probe=True)
    end_episode(task=task, player="human", cause="env_error")
    end_episode(task=task, player="human", status="running", cause="")
    assert [one.n for one in at_task(task, SUM, UNRESTRICTED)] == [0]
    assert [one.n for one in both_figures(task.environment)] == [0]


def test_without_people_the_rest_of_an_environment_is_as_if_they_had_never_played() -> None:
    alone, mixed = make_environment("alone"), make_environment("mixed")
    for reward in (0.0, 0.5, 1.0, 1.0):
        end_episode(reward, environment=alone)
        end_episode(reward, environment=mixed)
    for reward in (0.25, 0.95, None):
        end_episode(reward, environment=mixed, player="human", return_sum=reward or 0.0)
    wanted, (human, others) = both_figures(alone)[1], both_figures(mixed)
    assert (human.n, human.mean, human.successes) == (3, approx(0.4), 1)
    assert (others.n, others.mean, others.successes) == (4, approx(wanted.mean), 2)
    assert others.error == approx(wanted.error)


def test_the_definition_asked_for_is_the_one_counted_by() -> None:
    episode = end_episode(0.5, player="human", return_sum=3.0)
    assert both_figures(episode.environment)[0].mean == 3.0
    assert both_figures(episode.environment, Definition("last", 0.4))[0].successes == 1
    assert at_task(episode.task, Definition("last"), UNRESTRICTED)[0].mean == 0.5


def test_a_return_that_sums_could_not_bear_leaves_a_mean() -> None:
    task = make_task()
    end_episode(1e308, task=task)
    end_episode(1e308, task=task)
    end_episode(1.0, task=task, player="human")
    assert [one.player for one in both_figures(task.environment)] == ["human", "others"]
    assert at_task(task, SUM, UNRESTRICTED)[1].mean == approx(1e290)


def test_the_humans_stay_on_the_leaderboard_however_many_are_better() -> None:
    task = make_task()
    end_episodes(*((1.0, {"task": task, "model": f"model-{number}"}) for number in range(201)))
    end_episode(0.0, task=task, player="human")
    count_statistics()
    rows = LeaderboardQuery(task.environment, UNRESTRICTED).result().rows
    assert len(rows) == 201 and rows[-1].is_human


def test_they_take_two_queries_and_one(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    task = make_task()
    with django_assert_num_queries(2):
        at_task(task, SUM, UNRESTRICTED)
    with django_assert_num_queries(1):
        in_environment(task.environment, SUM, None, UNRESTRICTED)


@pytest.mark.parametrize("episodes", [1, 128])
def test_a_curve_leaves_people_out_unless_it_is_asked_for_them(
    client: Client, episodes: int
) -> None:
    task = make_task()
    for _ in range(episodes):
        end_episode(0.0, task=task)
        end_episode(1.0, task=task, player="human")
    catch_up()
    address = f"/runs/curves/?environment={task.environment.name}"
    page = client.get(address).context["drawn"]
    assert [(one.curve.total.episodes, one.curve.total.mean) for one in page.series] == [
        (episodes, 0.0)
    ]
    assert any(note.startswith(f"Without {episodes} ended episode") for note in page.notes)
    assert "player=others" in page.series[0].attempts_query
    people = client.get(f"{address}&player=human").context["drawn"]
    assert [(one.curve.total.episodes, one.curve.total.mean) for one in people.series] == [
        (episodes, 1.0)
    ]
    beside = client.get(f"{address}&by=player").context["drawn"]
    assert [(one.label, one.curve.total.mean) for one in beside.series] == [
        ("agents", 0.0),
        ("people", 1.0),
    ]
    answer = client.get(f"/api/curves?environment={task.environment.name}").json()
    assert answer["total"]["episodes"] == episodes and "of people (the filter" in answer["note"]


@pytest.mark.parametrize("episodes", [1, 128])
def test_a_curve_of_a_run_has_its_people_and_says_nothing_else(
    client: Client, episodes: int
) -> None:
    task, run = make_task(), make_run()
    for _ in range(episodes):
        end_episode(0.0, task=task, run=run)
        end_episode(1.0, task=task, run=run, player="human")
    catch_up()
    drawn = client.get(f"/runs/curves/?run={run.name}").context["drawn"]
    assert [(one.curve.total.episodes, one.curve.total.mean) for one in drawn.series] == [
        (2 * episodes, 0.5)
    ]
    assert "player=" not in drawn.series[0].attempts_query and not any(
        "of people" in note for note in drawn.notes
    )
    answer = client.get(f"/api/curves?run={run.name}").json()
    assert answer["total"]["episodes"] == 2 * episodes and "of people" not in answer["note"]
