"""Tests of the list of environments and of the page of one environment."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from random import Random
from typing import Any
from urllib.parse import parse_qsl

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from environments.models import UNRESTRICTED, Split
from environments.tasks.unknown_environment import MAX_LISTED
from episodes.figures.environments.histogram import MAX_BINS
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Episode
from episodes.rollups.follower import catch_up
from tests.episodes.ended import count_statistics, end_episode
from tests.stored import (
    make_environment,
    make_episode,
    make_run,
    make_split,
    make_statistics,
    make_step,
    make_task,
    unsaved_episode,
)

pytestmark = pytest.mark.django_db

TRAIN = "/environments/math/?split=train"


def played(*returns: float) -> None:
    task = make_task()
    Episode.objects.bulk_create(
        unsaved_episode(task=task, return_sum=value, end_number=number)
        for number, value in enumerate(returns, 1)
    )


def test_bars_beyond_the_axis_are_marked(client: Client) -> None:
    played(*[0.0, 1.0] * 300, 40.0)
    page = client.get("/environments/math/").content.decode()
    assert "up to 300 in a bar" in page
    assert "Beyond the axis: 1 of 40 or more in the last bar." in page
    assert "<title>return ≥ 40: 1 attempt</title>" in page
    assert "≥ 40</text>" in page and ">10</text>" not in page
    assert page.count(" outer") == 1


def played_in(type: str, *returns: float, **values: Any) -> None:
    split = make_split(task := make_task(), name=type)
    Split.objects.filter(pk=split.pk).update(type=type)
    for value in returns:
        end_episode(value, task=task, split=split, **values)


def test_a_page_shows_the_test_split_unless_another_is_named(client: Client) -> None:
    played_in("train", 1.0, 1.0, 1.0)
    played_in("test", 0.0, 1.0)
    page = client.get("/environments/math/").content.decode()
    assert '<dd class="figure">50%</dd>' in page and "split=test" in page
    assert '<dd class="figure">100%</dd>' in client.get(TRAIN).content.decode()
    together = client.get("/environments/math/?splits=together").content.decode()
    assert '<dd class="figure">80%</dd>' in together


@pytest.mark.parametrize("address", ["/environments/", "/"])
def test_lists_have_the_figures_of_the_same_split(client: Client, address: str) -> None:
    played_in("train", 1.0, 1.0, 1.0)
    played_in("test", 0.0, 1.0)
    page = client.get(address).content.decode()
    assert 'title="test split, whose figures these are"' in page
    assert "split=test&amp;player=others&amp;ending=attempt" in page
    assert "50%" in page and "80%" not in page


def test_a_test_split_that_nobody_played_is_passed_over(client: Client) -> None:
    played_in("train", 1.0)
    played_in("test")
    assert "Tasks of train" in client.get("/environments/math/").content.decode()


def test_a_page_lists_only_tasks_of_the_split(client: Client) -> None:
    played_in("train", 0.0)
    played_in("test", 0.0)
    count_statistics()
    page = client.get("/environments/math/").content.decode()
    assert ">test #0</a>" in page and ">train #0</a>" not in page


def test_a_page_names_the_models_and_runs_of_the_split(client: Client) -> None:
    played_in("train", 1.0, model="learner", run=make_run("grpo"))
    played_in("test", 1.0, 1.0, model="aster")
    page = client.get("/environments/math/").content.decode()
    assert "<b>1 model</b>" in page and ">aster</a>" in page and "learner" not in page
    page = client.get(TRAIN).content.decode()
    assert "<b>1 run</b>" in page and ">grpo</a>" in page and "aster" not in page


def test_an_unknown_split_is_refused(client: Client) -> None:
    played_in("train", 1.0)
    assert b"math has train" in client.get("/environments/math/?split=tset").content


def test_people_are_counted_in_the_split(client: Client) -> None:
    played_in("train", 1.0, player="human")
    played_in("test", 1.0)
    assert "No person has an attempt" in client.get("/environments/math/").content.decode()
    assert "No person has an attempt" not in client.get(TRAIN).content.decode()


def test_the_list_leads_to_each(client: Client) -> None:
    make_environment("chess")
    assert '<a href="/environments/chess/">' in client.get("/environments/").content.decode()


@pytest.mark.parametrize(
    "path", ["/", "/environments/", "/play/", "/admin/environments/environment/"]
)
def test_lists_show_cards_as_plain_text(admin_client: Client, path: str) -> None:
    environment = make_environment("chess")
    environment.description = (
        "# Chess\n\nMate in **two** with [a queen](https://example.org) or `rook`."
    )
    environment.save()
    assert "Mate in two with a queen or rook." in admin_client.get(path).content.decode()


def test_the_list_is_fetched_again_without_its_frame(client: Client) -> None:
    make_environment("chess")
    part = client.get("/environments/", headers={"HX-Request": "true"}).content.decode()
    assert '<a href="/environments/chess/">' in part and "<main" not in part


def test_the_list_says_what_would_be_there(client: Client) -> None:
    assert b"manage.py serve my_module:MyEnvironment" in client.get("/environments/").content


def test_a_page_shows_returns_that_lead_to_their_attempts(client: Client) -> None:
    played(0.0, 1.0, 1.0)
    page = client.get("/environments/math/").content.decode()
    assert "<title>return 1: 2 attempts</title>" in page
    assert "return_from=1.0&amp;return_to=1.0" in page


def test_returns_stand_on_a_linear_axis_with_labels(client: Client) -> None:
    played(0.0, 0.1, 1.0, 1.0)
    drawn = client.get("/environments/math/").context["drawn"]
    middles = [one.x + one.width / 2 for one in drawn.columns]
    assert (middles[1] - middles[0]) / (middles[2] - middles[0]) == pytest.approx(0.1, abs=0.001)
    assert [tick.label for tick in drawn.ticks] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    assert drawn.ticks[-1].x == pytest.approx(middles[2] / 4, abs=0.01)


@pytest.mark.parametrize(
    ("returns", "labels"),
    [
        ((0.5,), ["0.5"]),
        ((-1.0, 1.0 + 2**-51), ["\N{MINUS SIGN}1", "\N{MINUS SIGN}0.5", "0", "0.5", "1"]),
    ],
)
def test_an_axis_has_labels_however_long_it_is(
    client: Client, returns: tuple[float, ...], labels: list[str]
) -> None:
    played(*returns)
    assert [
        tick.label for tick in client.get("/environments/math/").context["drawn"].ticks
    ] == labels


@pytest.mark.parametrize(
    "draw",
    [
        lambda random: random.gauss(0.5, 0.3),
        lambda random: random.randrange(-60, 60) / 20,  # including the edges of bins
        lambda random: random.randrange(100) * 0.1,
        lambda random: 1 + random.randrange(90) * 2**-52,
        lambda random: random.choice([-1e300, -1e-300, 1e-300, random.random(), 1e300]),
    ],
)
def test_a_bin_leads_to_exactly_the_attempts_that_it_counts(
    client: Client, draw: Callable[[Random], float]
) -> None:
    random = Random(1)
    played(*(draw(random) for _ in range(300)))
    found = client.get("/environments/math/").context
    counts = [one.n for one in found["returns"].bins]
    listed = [
        NamedRows.of(EpisodeFilter.parse(dict(parse_qsl(one.query)), UNRESTRICTED))
        .episodes()
        .count()
        for one in found["drawn"].columns
    ]
    assert (len(counts), sum(counts)) == (MAX_BINS, 300)
    assert listed == counts


def test_a_single_value_beyond_what_sums_bear_leads_to_its_attempts(client: Client) -> None:
    played(0.0, 1e300, -1e300)
    for one in client.get("/environments/math/").context["drawn"].columns:
        assert (
            NamedRows.of(EpisodeFilter.parse(dict(parse_qsl(one.query)), UNRESTRICTED))
            .episodes()
            .count()
            == 1
        )


def test_endings_and_tools_lead_to_what_is_behind_them(client: Client) -> None:
    played(1.0)
    make_step(Episode.objects.get())
    catch_up()
    page = client.get("/environments/math/").content.decode()
    assert "ending=finished" in page and "<title>1 finished</title>" in page
    assert "<td><code>submit</code></td>" in page


def test_another_threshold_changes_what_a_success_is(client: Client) -> None:
    played(0.4, 0.4, 1.0, 1.0)
    assert '<dd class="figure">50%</dd>' in client.get("/environments/math/").content.decode()
    assert (
        '<dd class="figure">100%</dd>'
        in client.get("/environments/math/?threshold=0.3").content.decode()
    )


@pytest.mark.parametrize("query", ["return=best", "threshold=high", "threshold=nan"])
def test_what_cannot_be_meant_is_refused(client: Client, query: str) -> None:
    make_environment()
    assert client.get(f"/environments/math/?{query}").status_code == 400


def test_its_snippets_are_for_this_server_and_environment(client: Client) -> None:
    make_split(make_task(), name="holdout", environment=make_environment("chess"))
    page = client.get("/environments/chess/", headers={"host": "127.0.0.1:8123"}).content.decode()
    assert "http://127.0.0.1:8123" in page and "holdout" in page and "openreward" in page


def test_a_split_that_was_deleted_is_not_among_its_splits(client: Client) -> None:
    split = make_split(make_task(), name="holdout")
    Split.objects.filter(pk=split.pk).update(is_curated=True, is_served=False)
    assert b"holdout" not in client.get("/environments/math/").content


def test_one_that_is_gone_says_how_to_host_it_again(client: Client) -> None:
    make_environment("chess", is_hosted=False)
    assert b"manage.py serve tests.envs:Echo" in client.get("/environments/chess/").content


def test_one_that_is_gone_offers_no_play(client: Client) -> None:
    make_episode(environment=make_environment("chess", is_hosted=False), end_number=1)
    text = client.get("/environments/chess/").content.decode()
    assert "Nobody can play it" in text
    assert "/play/?" not in text and 'id="connect"' not in text


def test_too_few_attempts_are_no_bucket(client: Client) -> None:
    few, enough = make_task(), make_task()
    make_split(few, enough)
    make_statistics(few, attempts=3, successes=0)
    make_statistics(enough, attempts=4, successes=1)
    text = client.get("/environments/math/").content.decode()
    assert text.count("n too small") == 1 and text.count('data-bucket="learnable"') == 1


def test_one_that_this_machine_cannot_run_says_why(client: Client) -> None:
    make_environment("chess", unavailable="Install bubblewrap.")
    assert b"Install bubblewrap." in client.get("/environments/chess/").content


def test_an_unknown_environment_is_reported_with_the_nearest(client: Client) -> None:
    make_environment("chess")
    answer = client.get("/environments/ches/")
    assert (
        answer.status_code == 404 and "Did you mean &#x27;chess&#x27;?" in answer.content.decode()
    )


def test_without_a_near_one_it_says_how_many_there_are(client: Client) -> None:
    for n in range(MAX_LISTED + 2):
        make_environment(f"game{n:02}")
    answer = html.unescape(client.get("/environments/zzz/").content.decode())
    assert (
        "There are 'game00', 'game01', " in answer
        and f"'game{MAX_LISTED - 1}' and 2 more." in answer
    )


def test_one_alone_is_named_as_one(client: Client) -> None:
    make_environment("chess")
    assert "There is 'chess'." in html.unescape(client.get("/environments/zzz/").content.decode())


def test_an_example_connects_a_trainer_to_the_environment(client: Client) -> None:
    make_environment("chess")
    page = html.unescape(client.get("/environments/chess/").content.decode())
    assert 'OpenRewardSpec(url, env_name="chess", split="train", ' in page


def test_a_page_takes_the_same_number_of_queries_whatever_it_shows(
    client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    played(*[0.5] * 30)
    client.get("/")  # the first visit makes the account of the operator
    with django_assert_max_num_queries(18):
        client.get("/environments/math/")


def test_the_list_is_switched_to_another_definition(client: Client) -> None:
    make_episode(environment=make_environment(), return_sum=0.25, return_max=0.75, end_number=1)
    page = client.get("/environments/?return=max&threshold=0.5").content.decode()
    assert "+0.75" in page and "1 of 1 attempt;" in page and "max &gt; 0.5" in page
    assert 'data-definition="max"' in page and 'name="threshold" value="0.5"' in page


@pytest.mark.parametrize("query", ["colour=red", "return=best", "threshold=high"])
def test_the_list_refuses_what_it_does_not_know(client: Client, query: str) -> None:
    assert client.get(f"/environments/?{query}").status_code == 400


def test_tasks_are_named_beside_their_first_words(client: Client) -> None:
    task = make_task({"question": "Investigate the outage."})
    make_split(task, name="holdout")
    make_statistics(task, attempts=4, successes=1)
    page = client.get("/environments/math/").content.decode()
    assert re.search(r">holdout #0</a>\s+Investigate the outage\.", page)


def test_the_tasks_say_by_which_definition_they_are_counted(client: Client) -> None:
    make_split(task := make_task())
    make_statistics(task, attempts=4, successes=1)
    page = client.get("/environments/math/?return=max&threshold=0.5").content.decode()
    assert "by the environment&#x27;s own definition (sum &gt; 0.9)" in page
    assert (
        'Mean return <span class="hint">sum<' in page
        and 'Success <span class="hint">&gt; 0.9<' in page
    )
