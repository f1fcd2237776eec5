"""Tests of environments, tasks and runs in the API."""

from __future__ import annotations

import pytest
from pytest_django import DjangoAssertNumQueries

from environments.models import TaskStatistics
from tests.episodes.api.asking import get, ids, pages
from tests.episodes.ended import end_episode
from tests.stored import make_environment, make_run, make_split, make_task

pytestmark = pytest.mark.django_db


def test_an_environment_is_returned_with_its_splits() -> None:
    make_split(make_task(), name="train")
    [content] = get("environments")
    assert content == get("environments/math")
    assert (content["name"], content["default_return"], content["success_threshold"]) == (
        "math",
        "sum",
        0.9,
    )
    assert [(one["name"], one["type"], one["tasks"]) for one in content["splits"]] == [
        ("train", "train", 1)
    ]
    assert content["url"] == "http://testserver/api/environments/math"
    assert content["html_url"] == "http://testserver/environments/math/"


def test_an_unknown_environment_is_reported_with_the_existing_ones() -> None:
    names = ["math", *(f"other-{number}" for number in range(8))]
    for name in names:
        make_environment(name)
    for path, status in (("environments/chess", 404), ("episodes?environment=chess", 400)):
        assert all(f"'{name}'" in get(path, status)["detail"] for name in names)
    get("environments/%00", 404)


def test_environments_cost_as_many_queries_however_many_there_are(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    for name in ("a", "b", "c"):
        end_episode(environment=make_split(environment=make_environment(name)).environment)
    get("environments")  # creates the operator
    with django_assert_num_queries(6):  # the operator, environments, splits; three for figures
        get("environments")


def test_an_environment_has_the_figures_of_its_page() -> None:
    [end_episode(reward) for reward in (0.0, 0.8, 1.0)]
    make_environment("unplayed")
    figures, nothing = (row["figures"] for row in get("environments"))
    assert (figures["n"], figures["successes"], figures["mean"]) == (3, 1, pytest.approx(0.6))
    assert figures["definition"]["threshold"] == 0.9
    assert nothing is None
    asked = get("environments/math?threshold=0.5&return=max")["figures"]
    assert (
        asked["successes"],
        asked["definition"]["return"],
        asked["definition"]["threshold"],
    ) == (2, "max", 0.5)
    assert get("environments?return=median", 400)["field"] == "return"


def test_runs_have_the_figures_of_the_list_of_runs() -> None:
    run, easy = make_run("grpo-3"), make_environment("easy", success_threshold=0.5)
    [end_episode(reward, run=run, environment=easy) for reward in (0.0, 0.8, 1.0)]
    make_run("idle")
    idle, figures = (row["figures"] for row in get("runs")["results"])
    assert (figures["n"], figures["successes"], figures["definition"]["threshold"]) == (3, 2, 0.5)
    assert idle is None
    assert get(f"runs/{run.pk}")["figures"] == figures
    assert get("runs?threshold=0.9")["results"][1]["figures"]["successes"] == 1


def test_a_key_has_the_figures_of_its_own_episodes(keys: None) -> None:
    run = make_run()
    for reward, label in ((0.0, "lab"), (1.0, "home"), (1.0, "home")):
        end_episode(reward, run=run, key_label=label)
    for key, own in (("lab-key-1", (1, 0.0)), ("home-key-1", (2, 1.0))):
        key_of = {"X-API-Key": key}
        for [row] in (get("runs", **key_of)["results"], get("environments", **key_of)):
            assert (row["figures"]["n"], row["figures"]["mean"]) == own


def test_a_task_is_returned_with_its_exact_spec() -> None:
    task = make_task({"n": 1e20, "z": -0.0, "a": "\u00e9"})
    from django.test import Client

    body = Client().get(f"/api/tasks/{task.pk}").content.decode()
    assert f'"spec": {task.spec}' in body
    assert '1e+20, "z": -0.0' in body


def test_a_tasks_figures_carry_their_interval() -> None:
    task = make_task()
    counted = {"attempts": 4, "scored": 2, "successes": 2, "return_total": 3.0, "rate": 0.5}
    TaskStatistics.objects.create(task=task, environment=task.environment, by="all", **counted)
    figures = get(f"tasks/{task.pk}")["statistics"]
    assert (figures["rate"], figures["return_mean"]) == (0.5, 1.5)
    assert 0.1 < figures["rate_low"] < 0.2 and 0.8 < figures["rate_high"] < 0.9


def test_tasks_come_newest_first_page_by_page() -> None:
    tasks = [make_task().pk for _ in range(5)]
    assert pages("tasks?limit=2") == tasks[::-1]


def test_tasks_of_an_environment_are_no_others() -> None:
    make_task()
    other = make_task(environment=make_environment("chess"))
    assert ids("tasks?environment=chess") == [other.pk]
    assert "chess" in get("tasks?environment=go", 404)["detail"]


def test_tasks_of_a_split_come_in_its_order() -> None:
    first, second, third = (make_task() for _ in range(3))
    make_task()
    make_split(third, first, second)
    assert pages("tasks?environment=math&split=train&limit=2") == [third.pk, first.pk, second.pk]
    assert "train" in get("tasks?environment=math&split=dev", 400)["allowed"]


def test_tasks_cost_as_many_queries_however_many_there_are(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    for _ in range(4):
        make_task()
    get("tasks")
    with django_assert_num_queries(4):  # the operator, tasks, statistics, states
        get("tasks")


def test_runs_come_newest_first_page_by_page_or_by_name() -> None:
    runs = [make_run(f"run-{n}") for n in range(5)]
    assert pages("runs?limit=2") == [run.pk for run in reversed(runs)]
    assert ids("runs?name=run-3") == [runs[3].pk]
    assert get(f"runs/{runs[0].pk}")["name"] == "run-0"
