"""Tests of the leaderboard: its rows, their order, the definition of the return and the CSV
file."""

from __future__ import annotations

import csv
import io
import re
from functools import cache
from html import unescape
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from environments.models import Split
from episodes.models import Episode
from tests.episodes.ended import count_statistics, end_episode
from tests.people import client_of
from tests.stored import make_environment, make_run, make_split, make_task

pytestmark = pytest.mark.django_db
BOARD = "/environments/math/leaderboard/"


def ranked(client: Client, query: str = "") -> list[str]:
    rows = csv.reader(io.StringIO(client.get(f"{BOARD}?format=csv&{query}").content.decode()))
    return [row[0] for row in rows][1:]


def play() -> None:
    task = make_task()
    for model, reward in (
        ("small", 0.0),
        ("small", 1.0),
        ("large", 1.0),
        ("large", 1.0),
        ("large", 1.0),
    ):
        end_episode(reward, task=task, model=model, run=make_run(f"of {model}"))
    end_episode(0.5, task=task, player="human")
    count_statistics()


def test_the_best_mean_return_comes_first_and_people_have_a_row(client: Client) -> None:
    play()
    assert ranked(client) == ["large", "human", "small"]


def test_people_and_other_kinds_of_players_have_their_plural_names(client: Client) -> None:
    play()
    assert "</b>people</span></a>" in client.get(BOARD).content.decode()
    assert "</b>agents</span></a>" in client.get(f"{BOARD}?by=player").content.decode()


def test_people_and_models_are_compared_at_the_tasks_that_both_attempted(client: Client) -> None:
    play()
    end_episode(0.0, task=make_task(), model="other")
    count_statistics()
    assert "Shared with people" in client.get(BOARD).content.decode()
    assert ranked(client, "tasks=shared") == ["large", "human", "small"]
    page = client.get(f"{BOARD}?tasks=shared").content.decode()
    assert "1 task that people and models attempted" in page
    Episode.objects.filter(player="human").delete()
    assert (
        "Nobody attempted a task that people attempted"
        in client.get(f"{BOARD}?tasks=shared").content.decode()
    )


def test_its_links_lead_nobody_to_what_they_may_not_see(settings: Any) -> None:
    settings.ORSWEB_API_KEYS = {"one": "0123456789abcdef"}
    task, private = make_task(), make_environment("private", is_private=True)
    make_split(task)
    for place in (task, make_task(environment=private)):
        end_episode(
            1.0, task=place, environment=place.environment, model="large", run=make_run("of both")
        )
    end_episode(0.5, task=task, player="human", key_label="@ada")
    count_statistics()
    viewer = client_of("viewer")
    # the boards have most links in common
    status = cache(lambda link: viewer.get(link).status_code)
    for query in ("", "?by=run", "?by=player", "?by=run&tasks=shared", "?split=train&tasks=shared"):
        page = viewer.get(f"{BOARD}{query}").content.decode()
        links = {unescape(link) for link in re.findall(r'href="([^"#]+)"', page)}
        own = [link for link in links if not link.startswith(("/static/", "http"))]
        followed = (
            own
            if query in ("", "?split=train&tasks=shared")
            else [link for link in own if link[0] == "/"]
        )
        assert len(followed) > 10 and {
            status(link if link[0] == "/" else BOARD + link) for link in followed
        } == {200}


@pytest.mark.parametrize(("by", "first"), [("run", "of large"), ("player", "agent")])
def test_it_ranks_by_run_and_by_player(client: Client, by: str, first: str) -> None:
    play()
    assert ranked(client, f"by={by}")[0] == first


def test_rows_are_sorted_by_what_is_requested(client: Client) -> None:
    play()
    assert ranked(client, "sort=key") == ["human", "large", "small"]
    assert ranked(client, "sort=n")[0] == "large"


def ranks_of(page: str) -> list[tuple[str, str]]:
    pattern = r'<tr>\s*<td class="number nowrap">\s*(?:<a.*?>)?(\d+).*?<td class="name">(.*?)</td>'
    rows = re.findall(pattern, page, re.DOTALL)
    return [(rank, re.sub("<[^>]+>", "", name)) for rank, name in rows]


def test_equal_means_share_a_rank_which_no_order_changes(client: Client) -> None:
    tasks = [make_task() for _ in range(3)]
    for model, rewards in (("a", (0, 0, 1)), ("b", (1, 1, 1)), ("c", (1, 1, 1))):
        for task, reward in zip(tasks, rewards, strict=True):
            end_episode(float(reward), task=task, model=model)
    count_statistics()
    by_mean = ranks_of(client.get(BOARD).content.decode())
    assert by_mean == [("1", "b"), ("1", "c"), ("3", "a")]
    by_name = ranks_of(client.get(f"{BOARD}?sort=key").content.decode())
    assert by_name == [("3", "a"), ("1", "b"), ("1", "c")]
    assert "Overlapping 95% intervals allow the ranks" in client.get(BOARD).content.decode()


def test_a_higher_return_with_less_success_is_named(client: Client) -> None:
    for place in range(12):
        task = make_task()
        end_episode(0.95 if place else 0.9, task=task, model="honest")
        end_episode(0.9 if place else 20.0, task=task, model="greedy")
        end_episode(0.0, task=task, model="weak")
    count_statistics()
    page = client.get(BOARD).content.decode()
    assert (
        "greedy succeeds less often than honest (8% against 92%) although its mean return" in page
    )
    assert "reward hacking" not in client.get(f"{BOARD}?sort=success").content.decode()


def test_that_the_best_return_succeeds_most_often_needs_no_word(client: Client) -> None:
    play()
    assert "reward hacking" not in client.get(BOARD).content.decode()


def test_pass_at_k_is_unbiased(client: Client) -> None:
    play()
    rows = csv.DictReader(io.StringIO(client.get(f"{BOARD}?format=csv").content.decode()))
    small = next(row for row in rows if row["model"] == "small")
    assert (float(small["pass@1"]), float(small["pass@2"])) == (0.5, 1.0)


def test_a_split_counts_its_tasks(client: Client) -> None:
    inside, outside = make_task(), make_task()
    make_split(inside, make_task(), name="train")
    end_episode(task=inside, model="small")
    end_episode(task=outside, model="large")
    count_statistics()
    assert ranked(client, "split=train") == ["small"]
    page = client.get(f"{BOARD}?split=train").content.decode()
    assert re.search(r">1 <span class=\"hint\">of 2</span>", page)


def test_train_and_test_are_not_pooled_unless_somebody_asks(client: Client) -> None:
    split = make_split(test := make_task(), name="held-out")
    Split.objects.filter(pk=split.pk).update(type="test")
    end_episode(task=make_task(), model="trained")
    count_statistics()
    assert ranked(client, "") == ["trained"]  # nobody has attempted the test split
    end_episode(task=test, model="evaluated")
    count_statistics()
    assert ranked(client, "") == ["evaluated"]
    assert "Only tasks of <b>held-out</b>" in client.get(BOARD).content.decode()
    assert sorted(ranked(client, "splits=together")) == ["evaluated", "trained"]


def test_another_threshold_makes_other_successes(client: Client) -> None:
    play()
    page = client.get(f"{BOARD}?threshold=0.4&by=player").content.decode()
    assert "&gt; 0.4" in page and "100%" in page


def test_a_row_leads_to_its_episodes(client: Client) -> None:
    play()
    assert (
        "/episodes/?environment=math&amp;model=large&amp;ending=attempt"
        in client.get(BOARD).content.decode()
    )


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("split=hard", "math has train"),
        ("by=colour", "allowed are model, run, player"),
        ("tasks=some", "allowed are all, shared"),
        ("sort=luck", "allowed are mean, success, n, coverage, key"),
        ("page=2", "no parameter has that name"),
    ],
)
def test_an_invalid_parameter_is_refused_with_what_is_allowed(
    client: Client, query: str, expected: str
) -> None:
    make_split(make_task(), name="train")
    answer = client.get(f"{BOARD}?{query}")
    assert answer.status_code == 400 and expected in answer.content.decode()


def test_an_unknown_environment_is_reported_with_the_nearest(client: Client) -> None:
    make_environment("math")
    answer = client.get("/environments/maths/leaderboard/")
    assert answer.status_code == 404 and "Did you mean &#x27;math&#x27;?" in answer.content.decode()


def test_an_empty_one_says_how_an_agent_names_its_model(client: Client) -> None:
    make_environment("math")
    assert "orsweb_model" in client.get(BOARD).content.decode()


def test_it_takes_few_queries(
    client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    play()
    client.get("/")  # the first visit makes the account of the operator
    with django_assert_max_num_queries(8):
        client.get(BOARD)
