"""Tests of the page People: who played with their time and returns in each environment."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from environments.models import UNRESTRICTED, Viewer
from episodes.people.people_figures import people_of
from tests.episodes.ended import end_episode
from tests.stored import make_environment, make_episode

pytestmark = pytest.mark.django_db


def play(who: str = "@ada", reward: float | None = 1.0, **values: object) -> None:
    end_episode(reward, player="human", key_label=who, **{"duration_seconds": 30.0, **values})


def test_a_person_has_episodes_time_and_returns_in_each_environment() -> None:
    other = make_environment("maze", default_return="last", success_threshold=0.4)
    play(reward=1.0)
    play(reward=0.0)
    play(environment=other, reward=0.5, return_sum=9.0)
    [ada] = people_of(UNRESTRICTED).persons
    assert (ada.name, ada.episodes, ada.seconds) == ("@ada", 3, 90.0)
    found = [(one.environment.name, one.n, one.mean, one.successes) for one in ada.played]
    assert found == [("math", 2, 0.5, 1), ("maze", 1, 0.5, 1)]


def test_agents_and_probes_are_left_out() -> None:
    end_episode(key_label="@agent")
    play("@opened", is_probe=True)
    play("@ada", cause="interrupted")
    make_episode(player="human", key_label="@ada", status="running", cause="")
    [ada] = people_of(UNRESTRICTED).persons
    assert (ada.name, ada.episodes, ada.running, list(ada.played)) == ("@ada", 2, 1, [])


def test_hidden_environments_are_in_nobodys_figures() -> None:
    hidden = make_environment("maze")
    play()
    play(environment=hidden)
    play("@zoe", environment=hidden)
    [ada] = people_of(Viewer(frozenset([hidden.pk]))).persons
    assert (ada.name, ada.episodes, ada.seconds) == ("@ada", 1, 30.0)
    assert [one.environment.name for one in ada.played] == ["math"]


def test_running_episodes_count_with_their_time_so_far(client: Client) -> None:
    play()
    began = timezone.now() - timedelta(minutes=10)
    make_episode(
        player="human", key_label="@zoe", status="running", cause="", created=began, ended=None
    )
    make_episode(
        player="human", key_label="@ada", status="running", cause="", created=began, ended=None
    )
    times = {one.name: one.seconds for one in people_of(UNRESTRICTED).persons}
    assert 600 <= times["@zoe"] < 700 and 630 <= times["@ada"] < 730
    page = client.get("/play/people/").content.decode()
    assert "0.0 ms" not in page and "so far" in page


def test_the_page_links_to_the_episodes_of_each_person(client: Client) -> None:
    play("@Zoë (guest 3)")
    page = client.get("/play/people/").content.decode()
    link = re.search(r'href="(/episodes/\?who=[^"]*)"', page)
    assert link is not None
    assert "1 of 1" in re.sub(r"<[^>]*>", "", client.get(link[1]).content.decode())


def test_a_name_without_a_person_has_no_link(client: Client) -> None:
    play("imported")
    page = client.get("/play/people/").content.decode()
    assert "imported" in page and "?who=" not in page


def test_an_empty_page_says_that_no_person_has_played(client: Client) -> None:
    assert "Nobody has played yet" in client.get("/play/people/").content.decode()


def test_it_takes_two_queries(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(5):
        play(f"@{number}")
    with django_assert_num_queries(2):
        people_of(UNRESTRICTED)
