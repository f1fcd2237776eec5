"""Tests of the pages of a task and of a group."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from environments.models import Task
from episodes.models import Run
from tests.episodes.ended import count_statistics, end_episode
from tests.stored import make_blob, make_episode, make_run, make_split, make_task

pytestmark = pytest.mark.django_db

LISTED = r'<td><a href="/episodes/\d+/">'


def make_group(*returns: float, step: int = 30) -> tuple[Task, Run]:
    task, run = make_task({"question": "What is 2 + 2?"}), make_run()
    for value in returns:
        make_episode(task=task, run=run, run_step=step, return_sum=value)
    return task, run


def test_a_task_shows_its_content_and_every_episode(client: Client) -> None:
    task, _ = make_group(1.0, 0.0)
    make_split(task)
    page = client.get(f"/tasks/{task.pk}/").content.decode()
    assert "What is 2 + 2?" in page and "train #0" in page
    assert len(re.findall(LISTED, page)) == 2
    assert f"/tasks/{task.pk}/group/?run=" in page


def test_a_task_renders_the_prompt_as_the_replay_does(client: Client) -> None:
    prompt = make_blob('[{"type": "text", "text": "# Add\\n\\nall **numbers**."}]')
    episode = make_episode(prompt=prompt)
    page = client.get(f"/tasks/{episode.task_id}/").content
    assert b"<strong>numbers</strong>" in page.partition(b'<div class="prompt-text">')[2]


def test_a_task_lists_a_page_of_episodes_and_leads_to_the_older(client: Client) -> None:
    task, _ = make_group(*[0.5] * 51)
    oldest = task.episodes.order_by("pk")[1].pk
    assert f"before={oldest}" in client.get(f"/tasks/{task.pk}/").content.decode()
    older = client.get(f"/tasks/{task.pk}/?before={oldest}").content.decode()
    assert len(re.findall(LISTED, older)) == 1


def test_a_group_has_the_highest_return_first_with_its_advantage(client: Client) -> None:
    task, run = make_group(0.0, 1.0)
    page = client.get(f"/tasks/{task.pk}/group/?run={run.pk}&step=30").content.decode()
    assert (
        page.index("+1.00</span>") < page.index("\N{MINUS SIGN}1.00<")
        and "This group is flat" not in page
    )


def test_a_group_without_variance_says_so(client: Client) -> None:
    task, run = make_group(1.0, 1.0)
    assert (
        b"This group is flat" in client.get(f"/tasks/{task.pk}/group/?run={run.pk}&step=30").content
    )


def test_a_group_of_huge_returns_is_shown(client: Client) -> None:
    task, run = make_group(1e280, -1e280, 1e288)
    page = client.get(f"/tasks/{task.pk}/group/?run={run.pk}&step=30").content.decode()
    assert (
        page.index(">+1.41<") < page.index(">\N{MINUS SIGN}0.71<")
        and "This group is flat" not in page
    )


def test_groups_of_a_step_lead_to_each_other(client: Client) -> None:
    (first, run), (second, _) = make_group(1.0), (make_task(), None)
    make_episode(task=second, run=run, run_step=30)
    page = client.get(f"/tasks/{first.pk}/group/?run={run.pk}&step=30").content.decode()
    assert f'rel="next" href="/tasks/{second.pk}/group/?run={run.pk}&amp;step=30"' in page


@pytest.mark.parametrize(
    "query, said",
    [
        ("", "give the id of a run"),
        ("run=x", "whole number"),
        ("run=1&return=best", "allowed are sum, last, max, mean"),
    ],
)
def test_a_group_that_is_not_named_is_refused(client: Client, query: str, said: str) -> None:
    answer = client.get(f"/tasks/{make_task().pk}/group/?{query}")
    assert answer.status_code == 400 and said in answer.content.decode()


def test_what_is_not_there_says_what_to_do(client: Client) -> None:
    assert client.get("/tasks/999999/").status_code == 404
    assert client.get(f"/tasks/{make_task().pk}/group/?run=999999").status_code == 404


def test_they_take_the_same_number_of_queries_whatever_they_show(
    client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    task, run = make_group(*[0.5] * 30)
    # the first visit makes the account of the operator, who has then seen the task
    client.get(f"/tasks/{task.pk}/")
    with django_assert_max_num_queries(16):
        client.get(f"/tasks/{task.pk}/")
    with django_assert_max_num_queries(10):
        client.get(f"/tasks/{task.pk}/group/?run={run.pk}&step=30")


def test_a_task_has_the_same_name_on_every_page(client: Client) -> None:
    task, run = make_group(0.5, 1.0)
    make_split(make_task(), task, name="test")
    paths = (f"/tasks/{task.pk}/", f"/tasks/{task.pk}/group/?run={run.pk}&step=30")
    for path in paths:
        page = client.get(path).content.decode()
        assert "test #1" in page and f"task {task.pk}" not in page


def switched() -> Task:
    """Return a task with three attempts by two models, a probe and a failure. Each sum is 0.25,
    each maximum larger."""
    task = make_task()
    for model, most in (("a", 0.75), ("a", 0.5), ("b", None)):
        end_episode(0.25, task=task, model=model, run=make_run(), return_max=most)
    end_episode(0.25, task=task, model="a", is_probe=True)
    end_episode(0.25, task=task, model="a", cause="env_error")
    count_statistics()
    return task


def test_a_task_is_counted_by_the_definition_that_is_requested(client: Client) -> None:
    task = switched()
    own = client.get(f"/tasks/{task.pk}/").context["facts"].statistics
    assert (own.overall.attempts, own.overall.successes, own.overall.mean) == (3, 0, 0.25)
    found = client.get(f"/tasks/{task.pk}/?return=max&threshold=0.5").context["facts"].statistics
    assert (found.overall.attempts, found.overall.scored, found.overall.successes) == (3, 2, 1)
    assert (found.overall.mean, found.overall.low, found.overall.high) == (0.625, 0.5, 0.75)
    assert [(one.key, one.attempts, one.successes) for one in found.models] == [
        ("a", 2, 1),
        ("b", 1, 0),
    ]
    assert [(one.key, one.attempts, one.successes) for one in found.runs] == [("grpo-3", 3, 1)]


def test_counted_from_its_episodes_a_task_has_the_figures_that_are_kept(client: Client) -> None:
    task = switched()
    kept = client.get(f"/tasks/{task.pk}/").context["facts"].statistics
    close = client.get(f"/tasks/{task.pk}/?threshold=0.9000001").context["facts"].statistics
    assert close == kept


def test_a_task_says_by_which_definition_it_is_counted(client: Client) -> None:
    page = client.get(f"/tasks/{switched().pk}/?return=max&threshold=0.5").content.decode()
    assert "Success (return &gt; 0.5)" in page and "Mean return (max)" in page
    assert "return: max, success &gt; 0.5" in " ".join(page.split())
    assert 'name="threshold" value="0.5"' in page


def test_of_very_many_attempts_it_says_how_many_are_counted(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("episodes.figures.tasks.task_figures.MAX_NEWEST", 2)
    page = client.get(f"/tasks/{switched().pk}/?return=max").content.decode()
    assert ", newest 2 episodes" in page


def test_another_definition_takes_no_more_queries(
    client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    task = switched()
    # the first visit makes the account of the operator, who has then seen the task
    client.get(f"/tasks/{task.pk}/")
    with django_assert_max_num_queries(16):
        client.get(f"/tasks/{task.pk}/?return=max")
