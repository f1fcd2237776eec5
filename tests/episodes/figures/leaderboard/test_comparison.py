"""Two models compared from the leaderboard on the tasks that both attempted."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tests.episodes.ended import count_statistics, end_episode
from tests.people import client_of
from tests.private import make_private
from tests.stored import make_run, make_split, make_task

pytestmark = pytest.mark.django_db

BOARD = "/environments/math/leaderboard/"
COMPARE = f"{BOARD}compare/"


def play(count: int = 6) -> None:
    """Let `strong` solve all tasks of a split and `weak` only the first, and `strong` another
    task."""
    tasks = [make_task() for _ in range(count)]
    make_split(*tasks, name="test")
    for place, task in enumerate(tasks):
        end_episode(1.0, task=task, model="strong", run=make_run("of strong"))
        end_episode(float(not place), task=task, model="weak", run=make_run("of weak"))
    end_episode(0.0, task=make_task(), model="strong")
    count_statistics()


def page_of(client: Client, query: str) -> str:
    return client.get(f"{COMPARE}?{query}").content.decode()


def test_it_says_who_is_better_and_by_how_much(client: Client) -> None:
    play()
    page = page_of(client, "split=test&first=weak&second=strong")
    assert "strong is better than weak: success +83.3 pp" in page
    assert "6 tasks of test that both attempted" in page


def test_it_lists_the_tasks_at_which_they_differ(client: Client) -> None:
    play()
    page = page_of(client, "split=test&first=strong&second=weak&tasks=worse")
    assert page.count('class="task-place"') == 5 and ">test #0</a>" not in page
    assert "model=weak&amp;ending=attempt" in page and ">0 of 1</a>" in page


def test_tasks_of_all_splits_are_compared_if_none_is_named(client: Client) -> None:
    play()
    end_episode(1.0, task=make_task(), model="weak")
    count_statistics()
    assert "6 tasks that both attempted" in page_of(client, "first=weak&second=strong")


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("", "name two models"),
        ("first=weak&second=weak", "choose another one"),
        ("first=weak&second=nobody", "no model of that name"),
        ("first=weak&second=strong&split=tset", "math has test"),
    ],
)
def test_what_cannot_be_compared_is_refused(client: Client, query: str, reason: str) -> None:
    play()
    answer = client.get(f"{COMPARE}?{query}")
    assert answer.status_code == 400 and reason in answer.content.decode()


def test_one_shared_task_is_too_few(client: Client) -> None:
    play(1)
    page = page_of(client, "split=test&first=weak&second=strong")
    assert "takes two tasks" in page and "same rate of success at every task" in page


def test_the_leaderboard_offers_it_for_any_two(client: Client) -> None:
    play()
    page = client.get(f"{BOARD}?split=test").content.decode()
    assert f'action="{COMPARE}"' in page and page.count("<option>weak</option>") == 1


def test_ranks_that_overlap_lead_to_it(client: Client) -> None:
    play(1)
    page = client.get(f"{BOARD}?split=test").content.decode()
    assert f'href="{COMPARE}?first=strong&amp;second=weak&amp;split=test"' in page
    assert f'href="{COMPARE}?first=weak&amp;second=strong&amp;split=test"' in page
    page = client.get(f"{BOARD}?split=test&by=run").content.decode()
    assert 'href="/compare/?runs=' in page


def test_a_rank_that_is_sure_leads_to_it_too(client: Client) -> None:
    play(200)
    page = client.get(f"{BOARD}?split=test&sort=success").content.decode()
    assert re.search(rf'href="{COMPARE}[^"]*second=weak[^"]*" title="Compare with the first', page)


def test_that_of_a_private_environment_does_not_exist_for_others() -> None:
    make_private()
    address = "/environments/canaryenv/leaderboard/compare/?first=a&second=b"
    assert client_of("curator").get(address).status_code == 404
