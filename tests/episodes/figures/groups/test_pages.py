"""Tests of the page of a training step with its groups."""

from __future__ import annotations

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from episodes.models import Run
from tests.episodes.ended import end_episode
from tests.stored import make_environment, make_episode, make_run, make_split, make_task

pytestmark = pytest.mark.django_db


def make_step(*groups: list[float], step: int = 30) -> Run:
    run = make_run()
    for number, returns in enumerate(groups):
        task = make_task({"question": f"What is {number} + 2?"})
        for value in returns:
            make_episode(task=task, run=run, run_step=step, return_sum=value)
    return run


def test_a_step_lists_its_groups_with_their_spread(client: Client) -> None:
    run = make_step([0.0, 1.0], [0.25, 0.25])
    page = client.get(f"/runs/{run.pk}/groups/?step=30").content.decode()
    assert "What is 0 + 2?" in page and "+0.50" in page
    assert page.count(">flat<") == 1 and "1 of 2 flat" in page


def test_a_group_of_one_return_has_no_deviation(client: Client) -> None:
    run = make_step([0.5])
    task = run.episodes.first().task_id
    for address in (f"/runs/{run.pk}/groups/?step=30", "/runs/groups/"):
        page = client.get(address).content.decode()
        assert "+0.50" in page and ">0.00<" not in page, address
    page = client.get(f"/tasks/{task}/group/?run={run.pk}&step=30").content.decode()
    assert '<dt>Standard deviation</dt><dd class="figure">\N{EN DASH}</dd>' in page


def test_a_group_is_a_click_away_and_leads_back(client: Client) -> None:
    run = make_step([0.0, 1.0])
    task = run.episodes.first().task_id
    page = client.get(f"/runs/{run.pk}/groups/?step=30&no_call=out").content.decode()
    assert f'href="/tasks/{task}/group/?step=30&amp;no_call=out&amp;run={run.pk}"' in page
    group = client.get(f"/tasks/{task}/group/?run={run.pk}&step=30").content.decode()
    assert f'href="/runs/{run.pk}/groups/?step=30"' in group


def test_the_page_of_a_run_leads_to_the_groups_of_each_step(client: Client) -> None:
    run = make_step([0.0, 1.0], step=7)
    assert (
        f'href="/runs/{run.pk}/groups/?step=7"' in client.get(f"/runs/{run.pk}/").content.decode()
    )


def test_rollouts_count_by_the_convention_of_the_address(client: Client) -> None:
    run = make_step([1.0, 1.0])
    make_episode(
        task=run.episodes.first().task, run=run, run_step=30, cause="no_call", return_sum=0.0
    )
    counted = client.get(f"/runs/{run.pk}/groups/?step=30").content.decode()
    left_out = client.get(f"/runs/{run.pk}/groups/?step=30&no_call=out").content.decode()
    assert "1 no call scored 0" in counted and "0 of 1 flat" in counted
    assert "1 no call excluded" in left_out and "1 of 1 flat" in left_out


def test_groups_of_more_episodes_than_are_read_say_so(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_step([0.0, 1.0], step=30)
    task = run.episodes.first().task_id
    pages = f"/runs/{run.pk}/groups/?step=30", f"/tasks/{task}/group/?run={run.pk}&step=30"
    assert not any("are counted." in client.get(page).content.decode() for page in pages)
    monkeypatch.setattr("episodes.figures.groups.groups.MAX_READ", 1)
    assert all(
        "Only the newest 1 episodes are counted." in client.get(page).content.decode()
        for page in pages
    )


def test_episodes_without_a_step_have_groups_too(client: Client) -> None:
    run = make_run()
    make_episode(run=run, run_step=None)
    assert (
        "Episodes without a training step" in client.get(f"/runs/{run.pk}/groups/").content.decode()
    )


@pytest.mark.parametrize(
    ("query", "status"), [("step=x", 400), ("stage=1", 400), ("return=best", 400), ("step=99", 200)]
)
def test_what_cannot_be_shown_says_why(client: Client, query: str, status: int) -> None:
    answer = client.get(f"/runs/{make_step([0.0]).pk}/groups/?{query}")
    assert answer.status_code == status
    assert status == 400 or "no episodes in training step 99" in answer.content.decode()


def test_an_unknown_run_is_not_found(client: Client) -> None:
    assert client.get("/runs/999999/groups/").status_code == 404


def test_it_takes_the_same_number_of_queries_whatever_it_shows(
    client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    run = make_step(*[[0.0, 1.0]] * 12)
    client.get("/")  # the first visit makes the account of the operator
    with django_assert_max_num_queries(16):
        client.get(f"/runs/{run.pk}/groups/?step=30")


def test_the_latest_groups_of_all_runs_are_in_the_menu(client: Client) -> None:
    strict = make_environment("strict", default_return="max")
    first, second = make_task({"question": "first"}), make_task({"question": "second"}, strict)
    for task, values in ((first, (1.0, 1.0)), (second, (0.0, 1.0, 0.5))):
        for value in values:
            end_episode(
                value,
                task=task,
                environment=task.environment,
                run=make_run(f"of {task.pk}"),
                run_step=7,
            )
    end_episode(run=make_run("of none"))
    assert 'href="/runs/groups/"' in client.get("/").content.decode()
    rows = client.get("/runs/groups/").context["groups"]
    assert [(row["task"], row["step"], row["group"].episodes) for row in rows] == [
        (second, 7, 3),
        (first, 7, 2),
    ]
    spreads = [row["group"].spread for row in rows]
    assert [(spread.mean, spread.is_flat) for spread in spreads] == [(0.5, False), (1.0, True)]
    page = client.get("/runs/groups/").content.decode()
    assert f"/tasks/{second.pk}/group/?run={rows[0]['run'].pk}&amp;step=7" in page
    assert '<span class="hint">(max)</span>' in page and '<span class="hint">(sum)</span>' in page
    assert f">task {second.pk}</a> second" in page
    assert client.get("/runs/groups/?return=median").status_code == 400


def test_groups_of_several_environments_name_theirs(client: Client) -> None:
    run = make_run()
    for name in ("math", "guess"):
        make_episode(task=make_task(environment=make_environment(name)), run=run)
    page = client.get(f"/runs/{run.pk}/groups/").content.decode()
    assert "<td>math</td>" in page and "<td>guess</td>" in page


def test_the_latest_groups_say_how_many_are_flat_by_run_and_step(client: Client) -> None:
    run, tasks = make_run("grpo"), [make_task(), make_task()]
    for step, flat in ((0, 0), (1, 1), (3, 2)):
        for place, task in enumerate(tasks):
            for number in range(2):
                value = 0.0 if place < flat else float(number)
                make_episode(task=task, run=run, run_step=step, return_sum=value)
    answer = client.get("/runs/groups/?state=mixed")
    [share] = answer.context["latest"].flat_shares
    assert (share.groups, share.flat, list(share.by_step)) == (6, 3, [0.0, 0.5, 1.0])
    assert (share.first_step, share.last_step) == (0, 3)
    page = answer.content.decode()
    assert f'href="/runs/curves/?runs={run.pk}&amp;x=step&amp;y=flat"' in page and "50%" in page


def test_groups_are_narrowed_to_a_run_and_a_state(client: Client) -> None:
    mixed, flat = make_task({"question": "mixed"}), make_task({"question": "flat"})
    for task, values in ((mixed, (0.0, 1.0)), (flat, (1.0, 1.0))):
        for value in values:
            end_episode(value, task=task, run=make_run("grpo"), run_step=1)
    end_episode(None, task=make_task(), run=make_run("other"), run_step=1, cause="env_error")
    assert named(client, "") == ["other", "grpo", "grpo"]
    assert named(client, "run=grpo") == ["grpo", "grpo"]
    assert named(client, "state=failing") == ["other"]
    page = client.get("/runs/groups/?state=mixed&run=grpo").content.decode()
    assert "mixed" in page and "All 2</a>" in page and "Flat 1</a>" in page
    assert named(client, "state=flat&run=other") == []


def named(client: Client, query: str) -> list[str]:
    return [row["run"].name for row in client.get(f"/runs/groups/?{query}").context["groups"]]


def test_groups_are_narrowed_to_an_environment_and_a_split(client: Client) -> None:
    split = make_split(task := make_task())
    end_episode(task=task, run=make_run("a"), run_step=1, split=split)
    other = make_environment("guess")
    end_episode(task=make_task(environment=other), environment=other, run=make_run("b"), run_step=1)
    assert named(client, "environment=guess") == ["b"]
    assert named(client, f"environment=math&split={split.name}") == ["a"]


@pytest.mark.parametrize(
    "query", ["state=odd", "run=nosuch", "environment=nosuch", "split=test", "step=1"]
)
def test_a_filter_of_groups_that_cannot_be_meant_is_refused(client: Client, query: str) -> None:
    make_environment()
    assert client.get(f"/runs/groups/?{query}").status_code == 400


def test_the_returns_of_a_group_are_dots(client: Client) -> None:
    run = make_step([0.0, 0.0, 1.0])
    for address in ("/runs/groups/", f"/runs/{run.pk}/groups/?step=30"):
        page = client.get(address).content.decode()
        assert "0.00 (2), +1.00 (1); success above 0.9" in page, address
        assert page.count('cy="8" r=') == 2 and page.count('class="success"/>') == 1, address
