"""Tests of the overview: current activity, hosted environments and how to connect."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from episodes.figures.summary_cover import MIN_UNCOUNTED, STILL_COUNTED
from episodes.models import Activity
from episodes.rollups.follower import catch_up
from tests.episodes.ended import end_episodes
from tests.people import client_of
from tests.stored import NOW, make_environment, make_episode, make_split, make_step, make_task

pytestmark = pytest.mark.django_db


def test_it_names_the_environments_the_default_first(client: Client) -> None:
    make_environment("other", position=1)
    make_environment("main", position=0)
    page = client.get("/").content.decode()
    assert (
        page.index("<strong>main</strong>")
        < page.index('<span class="tag">default')
        < page.index("<strong>other")
    )


def test_those_who_may_see_the_activity_get_a_link(client: Client) -> None:
    environment = make_environment("math")
    for address, query in (("/", ""), ("/environments/math/", f"?environment={environment.pk}")):
        link = f'href="/admin/environments/curationaction/{query}"'
        assert link in client.get(address).content.decode()
        assert link not in client_of("viewer", name=f"bob{query}").get(address).content.decode()


def test_it_lists_what_is_not_hosted_only_with_episodes(client: Client) -> None:
    make_environment("unplayed", is_hosted=False)
    make_episode(environment=make_environment("gone", is_hosted=False), end_number=1)
    make_environment("chess", position=1)
    part = client.get("/?part=environments").content.decode()
    assert "unplayed" not in part and "not hosted" in part[part.index("gone") :]
    assert part.index("chess") < part.index("gone")


def test_it_marks_what_this_machine_cannot_run_with_the_reason(client: Client) -> None:
    make_environment("code", unavailable="Install <bubblewrap>.")
    make_environment("math")
    page = client.get("/").content.decode()
    assert (
        page.count("Not available on this machine.") == 1
        and "Not available on this machine. Install &lt;bubblewrap&gt;." in page
    )


def test_it_tells_splits_and_numbers_of_tasks(client: Client) -> None:
    make_split(make_task(), make_task(), name="train")
    assert "<b>train</b>&nbsp;2<" in client.get("/").content.decode()


def test_it_names_eight_splits_and_counts_the_others(client: Client) -> None:
    environment = make_environment()
    for number in range(11):
        make_split(environment=environment, name=f"fold-{number}")
    page = client.get("/").content.decode()
    assert page.count("<b>fold-") == 8 and "and 3 more" in page


def test_its_snippets_play_the_first_split_of_this_server(client: Client) -> None:
    make_split(make_task(), name="holdout", environment=make_environment("chess"))
    page = client.get("/", headers={"host": "127.0.0.1:8123"}).content.decode()
    for shown in (
        "http://127.0.0.1:8123",
        "chess",
        "holdout",
        "from ors.client import ORS",
        "X-Session-ID",
    ):
        assert shown in page


def test_it_links_the_latest_episodes(client: Client) -> None:
    chess = make_environment("chess", task_schema={"properties": {"opening": {"type": "string"}}})
    task = make_task({"opening": "Castle on the king's side"}, environment=chess)
    episodes = [make_episode(task=task) for _ in range(14)]
    page = client.get("/").content.decode()
    assert f"task {task.pk}</span> Castle on the king&#x27;s side</td>" in page
    assert f'<a href="/episodes/{episodes[-1].pk}/">#{episodes[-1].pk}</a>' in page
    assert f">#{episodes[1].pk}</a>" not in page


def test_the_latest_are_those_that_started_last(client: Client) -> None:
    latest = make_episode()
    imported = make_episode(created=NOW - timedelta(days=30))
    page = client.get("/?part=now").content.decode()
    assert page.index(f"#{latest.pk}<") < page.index(f"#{imported.pk}<")


def test_what_runs_comes_first_with_its_return_so_far(client: Client) -> None:
    running = make_episode(status="running", cause="", ended=None)
    make_step(running, reward=0.25)
    later = make_episode()
    page = client.get("/?part=now").content.decode()
    assert page.index(f"#{running.pk}<") < page.index(f"#{later.pk}<")
    assert "+0.25" in page and 'data-ending="running"' in page


def test_it_says_what_would_be_here(client: Client) -> None:
    page = client.get("/").content.decode()
    assert "manage.py serve my_module:MyEnvironment" in page and 'href="#connect"' in page


def test_how_to_connect_stays_at_hand(client: Client) -> None:
    make_episode()
    page = client.get("/").content.decode()
    assert '<details class="connect">' in page and 'href="#connect"' in page


def test_its_figures_are_those_of_the_last_day(client: Client) -> None:
    start = int(time.time()) // 3600 * 3600
    Activity.objects.create(
        period=3600,
        start=start,
        environment_id=1,
        episodes=12,
        finished=10,
        successes=5,
        env_error=2,
        steps=1234,
    )
    page = client.get("/?part=now").content.decode()
    for shown in (
        "1,234 steps in 24 h",
        "?ending=failure&amp;since=24h",
        "2 infrastructure failures excluded",
    ):
        assert shown in page


def test_sessions_that_nobody_played_are_said_in_plain_words(client: Client) -> None:
    start = int(time.time()) // 3600 * 3600
    Activity.objects.create(
        period=3600, start=start, environment_id=1, episodes=12, finished=10, probes=2
    )
    page = client.get("/?part=now").content.decode()
    assert "2 not played</a>, not counted" in page and "<title>2 not played</title>" in page


def test_its_parts_equal_those_of_the_page(client: Client) -> None:
    make_episode(environment=make_environment("chess"))
    page = client.get("/").content.decode()
    for part in ("/?part=now&amp;span=24h", "/?part=environments"):
        assert f'data-refetch="{part}"' in page
        assert f'data-refetch="{part}"' in client.get(part.replace("&amp;", "&")).content.decode()


@pytest.mark.parametrize(
    ("query", "legal"), [("span=2h", "1h, 24h, 30d"), ("part=all", "now, environments")]
)
def test_it_refuses_what_it_does_not_know_and_names_the_legal_ones(
    client: Client, query: str, legal: str
) -> None:
    response = client.get(f"/?{query}")
    assert response.status_code == 400 and legal in response.content.decode()


@pytest.mark.parametrize("environments", [1, 4])
def test_its_queries_do_not_grow(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries, environments: int
) -> None:
    client.get("/")  # creates the operator
    for number in range(environments):
        chess = make_environment(f"chess-{number}")
        make_step(make_episode(environment=chess, status="running", cause="", ended=None))
        make_episode(environment=chess, end_number=number)
    with django_assert_num_queries(22):
        client.get("/")


def test_another_return_is_asked_for_in_the_address(client: Client) -> None:
    make_episode(
        environment=make_environment("chess"), return_sum=0.25, return_max=0.75, end_number=1
    )
    assert "+0.25" in client.get("/?part=environments").content.decode()
    assert "+0.75" in client.get("/?part=environments&return=max").content.decode()


def test_the_latest_show_the_requested_return(client: Client) -> None:
    task = make_task(environment=make_environment("deep", default_return="mean"))
    make_episode(task=task, return_sum=0.25, return_max=0.75, return_mean=0.5)
    running = make_episode(task=task, status="running", cause="", ended=None)
    for reward in (1.0, 0.25):
        make_step(running, reward=reward)
    own, most = (client.get(f"/?part=now{more}").content.decode() for more in ("", "&return=max"))
    assert ">Return<" in own and "+0.50" in own and "+0.63" in own
    assert "Return (max)" in most and "+0.75" in most and "+1.00" in most


def test_another_threshold_is_asked_for_in_the_address_and_stays(client: Client) -> None:
    make_episode(environment=make_environment("chess"), return_sum=0.25, end_number=1)
    page = client.get("/?threshold=0.2&return=max&span=1h").content.decode()
    assert "1 of 1 attempt;" in client.get("/?part=environments&threshold=0.2").content.decode()
    assert "0 of 1 attempt;" in client.get("/?part=environments").content.decode()
    assert 'data-refetch="/?part=environments&amp;return=max&amp;threshold=0.2"' in page
    assert 'href="?return=max&amp;threshold=0.2&amp;span=24h"' in page
    assert (
        '<input type="hidden" name="return" value="max">' in page
        and 'name="threshold" value="0.2"' in page
    )


def test_no_success_is_pooled_over_environments(client: Client) -> None:
    assert "Success" not in client.get("/?part=now").content.decode()


def test_a_threshold_that_is_no_number_is_refused(client: Client) -> None:
    response = client.get("/?threshold=high")
    assert response.status_code == 400 and "threshold=" in response.content.decode()


def test_who_has_only_played_is_told_what_comes_next(client: Client) -> None:
    make_episode(player="human")
    page = client.get("/").content.decode()
    assert "No agent has played yet." in page and "Load demo data" in page
    assert page.count('href="#connect"') == 1


@pytest.mark.parametrize(("player", "episodes"), [("agent", 1), ("script", 1), ("human", 10)])
def test_a_server_in_use_has_no_first_steps(client: Client, player: str, episodes: int) -> None:
    for _ in range(episodes):
        make_episode(player=player)
    page = client.get("/").content.decode()
    assert "Load demo data</button>" not in page and "No agent has played" not in page


@pytest.mark.parametrize("path", ["/", "/environments/"])
def test_tables_of_environments_say_whose_attempts_they_count(client: Client, path: str) -> None:
    make_environment("chess")
    page = client.get(path).content.decode()
    assert "attempts of agents and scripted players" in page
    assert 'Without <a href="/episodes/?player=human">attempts of people</a>' in page


def test_figures_that_only_say_zero_are_left_out(client: Client) -> None:
    page = client.get("/").content.decode()
    assert "Episodes running now" not in page and 'id="lately"' not in page
    end_episodes((1.0, {"created": timezone.now(), "ended": timezone.now()}))
    catch_up()
    page = client.get("/").content.decode()
    assert "Episodes running now" in page and "Infrastructure failures" not in page


def test_figures_that_lag_say_so_and_are_fetched_again(client: Client) -> None:
    end_episodes((1.0, {}))
    catch_up()
    end_episodes((1.0, {}))
    lagging = client.get("/?part=now").content.decode()
    assert " data-refetch-again" in lagging and STILL_COUNTED not in lagging
    end_episodes(*[(1.0, {})] * MIN_UNCOUNTED)
    assert STILL_COUNTED in client.get("/?part=now").content.decode()
    catch_up()
    current = client.get("/?part=now").content.decode()
    assert "data-refetch-again" not in current and STILL_COUNTED not in current
