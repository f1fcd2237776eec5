"""Tests of the page that compares runs by the tasks that they share."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import parse_qs

import pytest
from django.test import Client

from environments.scoring.definition import Definition
from environments.scoring.task_buckets import Z_95
from episodes.figures.comparison.run_comparison import paired
from episodes.models import Run
from tests.episodes.ended import end_episode
from tests.stored import make_environment, make_run, make_task

pytestmark = pytest.mark.django_db


def played() -> tuple[Run, Run]:
    """Return two runs with two shared tasks, of which the second run does one better, and one task
    of the first."""
    first, second = make_run("first"), make_run("second")
    easy, hard, alone = (
        make_task({"question": "easy"}),
        make_task({"question": "hard"}),
        make_task(),
    )
    for run, task, reward in (
        *((first, easy, 1.0), (first, hard, 0.0), (first, hard, 0.0), (first, alone, 1.0)),
        *((second, easy, 1.0), (second, hard, 0.5)),
    ):
        end_episode(reward, run=run, task=task)
    return first, second


def test_every_shared_task_counts_once() -> None:
    first, second = paired(played(), Definition(), 9).versus
    assert (first.mean, first.scored) == (0.5, 3)
    assert (second.mean, second.difference, second.wins, second.ties, second.losses) == (
        0.75,
        0.25,
        1,
        1,
        0,
    )
    assert second.reach == pytest.approx(Z_95 * 0.25)


def test_means_that_differ_by_rounding_alone_are_equal() -> None:
    runs, task = [make_run("first"), make_run("second")], make_task()
    for run, reward in zip(runs, (0.3, 0.1 + 0.2), strict=True):
        end_episode(reward, run=run, task=task)
    second = paired(runs, Definition(), 9).versus[1]
    assert (second.difference, second.wins, second.ties) == (0.0, 0, 1)


def test_huge_returns_have_an_interval(client: Client) -> None:
    runs, tasks = [make_run("first"), make_run("second")], [make_task(), make_task()]
    for run, rewards in zip(runs, ((1e300, -1e300), (-1e300, 1e300)), strict=True):
        for task, reward in zip(tasks, rewards, strict=True):
            end_episode(reward, run=run, task=task)
    assert paired(runs, Definition(), 9).versus[1].reach == pytest.approx(Z_95 * 2e290)
    assert client.get(f"/compare/?runs={runs[0].pk},{runs[1].pk}").status_code == 200


def test_the_largest_difference_comes_first() -> None:
    assert [task.difference for task in paired(played(), Definition(), 9).tasks] == [0.5, 0.0]


def test_failures_and_probes_are_left_out() -> None:
    first, second = played()
    for task in paired((first, second), Definition(), 9).tasks:
        end_episode(0.0, run=second, cause="env_error", task_id=task.task)
    assert paired((first, second), Definition(), 9).versus[1].difference == 0.25


def test_the_page_shows_both_and_their_tasks(client: Client) -> None:
    first, second = played()
    page = client.get(f"/compare/?runs={first.pk},{second.pk}").content.decode()
    assert "2 shared tasks" in page and "hard" in page and "+0.25" in page


def test_runs_can_be_named(client: Client) -> None:
    first, second = played()
    page = client.get(f"/compare/?runs={first.name},{second.pk}").content.decode()
    assert "2 shared tasks" in page and f"runs={first.pk}%2C{second.pk}" in page


def test_without_a_shared_task_it_says_so(client: Client) -> None:
    runs = [make_run("first"), make_run("second")]
    for run in runs:
        end_episode(run=run)
    page = client.get(f"/compare/?runs={runs[0].pk},{runs[1].pk}").content.decode()
    assert "These runs have no task in common" in page


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ("1,x", "there is no run x"),
        ("998,999", "no run 998"),
        ("998", "no run 998"),
        ("1st,1st", "names 1st alone; add a"),
    ],
)
def test_anything_but_existing_runs_is_refused(client: Client, ids: str, expected: str) -> None:
    make_run("1st")
    answer = client.get(f"/compare/?runs={ids}")
    assert answer.status_code == 400 and expected in answer.content.decode()


def test_each_curve_has_the_definition_of_its_own_run(client: Client) -> None:
    for name, threshold in (("math", 0.9), ("guess", 0.5)):
        environment = make_environment(name, success_threshold=threshold)
        task = make_task(environment=environment)
        end_episode(0.7, environment=environment, task=task, run=make_run(f"of {name}"))
    first, second = make_run("of math"), make_run("of guess")
    page = client.get(f"/compare/?runs={first.pk},{second.pk}&window=5").content.decode()
    assert "&gt; 0.9" in page and "&gt; 0.5" in page
    query = re.search(r'data-query="([^"]*)"', page)
    assert query and parse_qs(unescape(query[1])) == {
        "runs": [f"{first.pk},{second.pk}"],
        "window": ["5"],
    }


def test_two_runs_have_what_people_publish(client: Client) -> None:
    first, second = played()
    page = client.get(f"/compare/?runs={first.pk},{second.pk}").content.decode()
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert "Difference +0.25 95% interval 0.00 to +0.50, by bootstrap over the tasks" in text
    assert "Sign test p = 1 exact, two-sided: better at 1, worse at 0" in text
    assert "Told apart no about 14 more shared tasks would be needed" in text
    third = make_run("third")
    assert (
        "Sign test"
        not in client.get(f"/compare/?runs={first.pk},{second.pk},{third.pk}").content.decode()
    )
