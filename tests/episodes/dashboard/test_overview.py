"""The first page: what happens now, what is hosted, how to connect."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from tests.stored import make_environment, make_episode, make_split, make_task

pytestmark = pytest.mark.django_db


def test_it_names_the_environments_the_default_first(client: Client) -> None:
    make_environment("other", position=1)
    make_environment("main", position=0)
    page = client.get("/").content.decode()
    assert page.index("<strong>main</strong>") < page.index('<span class="tag">default') < page.index("other")


def test_it_leaves_out_what_is_not_hosted(client: Client) -> None:
    make_environment("gone", is_hosted=False)
    assert "gone" not in client.get("/").content.decode()


def test_it_marks_what_this_machine_cannot_run_with_the_reason(client: Client) -> None:
    make_environment("code", unavailable="Install <bubblewrap>.")
    make_environment("math")
    page = client.get("/").content.decode()
    assert page.count("Unavailable here.") == 1 and "Unavailable here. Install &lt;bubblewrap&gt;." in page


def test_it_tells_splits_and_numbers_of_tasks(client: Client) -> None:
    make_split(make_task(), make_task(), name="train")
    assert re.search(r"<b>train</b>\s*2<", client.get("/").content.decode())


def test_its_snippets_play_the_first_split_of_this_server(client: Client) -> None:
    make_split(make_task(), name="holdout", environment=make_environment("chess"))
    page = client.get("/", headers={"host": "127.0.0.1:8123"}).content.decode()
    for shown in ("http://127.0.0.1:8123", "chess", "holdout", "from ors.client import ORS", "X-Session-ID"):
        assert shown in page


def test_it_links_the_latest_episodes(client: Client) -> None:
    episodes = [make_episode() for _ in range(12)]
    page = client.get("/").content.decode()
    assert f'/admin/episodes/episode/{episodes[-1].pk}/change/">#{episodes[-1].pk}</a>' in page
    assert f">#{episodes[1].pk}</a>" not in page


def test_it_says_what_would_be_here(client: Client) -> None:
    page = client.get("/").content.decode()
    assert "manage.py serve my_module:MyEnvironment" in page and "Run one of the snippets" in page


def test_its_queries_do_not_grow(client: Client, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    client.get("/")  # makes the operator
    for name in ("a", "b", "c"):
        make_episode(environment=make_environment(name))
    with django_assert_num_queries(4):  # operator, environments, splits, episodes
        client.get("/")
