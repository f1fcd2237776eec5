"""Tests of the search and the orders of the list of runs."""

from __future__ import annotations

import json
import re
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from environments.models import UNRESTRICTED
from environments.scoring.definition import Definition
from episodes.figures.run_splits import SplitChoice
from episodes.figures.runs import pages, run_list
from episodes.figures.runs.run_order import RunOrder
from episodes.figures.runs.stored_totals import StoredTotal, totals_by_run
from episodes.models import Run
from episodes.rollups.follower import catch_up
from episodes.runs.description import parsed_description
from episodes.runs.trainer_updates import steer
from tests.episodes.api.asking import get
from tests.episodes.ended import end_episode
from tests.rows import each
from tests.stored import NOW, make_environment, make_run, make_split, make_task

pytestmark = pytest.mark.django_db


def described(name: str, **description: Any) -> Run:
    return steer(name, parsed_description(description), UNRESTRICTED, []).run


def listed(client: Client, query: str) -> list[str]:
    return re.findall(r"<strong>(.*?)</strong></a>", client.get(f"/runs/?{query}").content.decode())


@pytest.fixture
def searched() -> None:
    described("grpo-cold", state="ended", model="tiny", notes="No warmup at all", tags=["sweep"])
    described("grpo-warm", state="ended", config={"warmup": 10, "optimizer": {"name": "adam"}})
    described("other", state="ended", notes="Größer")


@each(
    ("text", "names"),
    [
        ("cold", ["grpo-cold"]),
        ("TINY", ["grpo-cold"]),
        ("swee", ["grpo-cold"]),
        ("warmup", ["grpo-warm", "grpo-cold"]),
        ("warmup adam", ["grpo-warm"]),
        ("größer", ["other"]),
        ("nothing", []),
    ],
)
def test_runs_are_found_by_words(
    client: Client, searched: None, text: str, names: list[str]
) -> None:
    assert listed(client, f"text={text}") == names
    found = [run["name"] for run in get(f"runs?text={text}")["results"]]
    assert found == names


def test_a_search_takes_eight_words(client: Client, searched: None) -> None:
    assert listed(client, f"text={'+'.join(['cold'] * 9)}") == ["grpo-cold"]
    answer = client.get("/runs/?text=a+b+c+d+e+f+g+h+i")
    assert answer.status_code == 400
    assert "at most 8 words are searched" in answer.content.decode()


def test_the_bound_of_a_search_is_read_once(client: Client) -> None:
    with CaptureQueriesContext(connection) as queries:
        listed(client, "text=a+b+c")
    assert sum("OFFSET 9999" in query["sql"] for query in queries) == 1


@pytest.fixture
def played() -> None:
    """Record three runs, whose figures order them differently."""
    maze = make_environment("maze", success_threshold=0.1)
    for name, model, rewards, steps, split in (
        ("a", "y", (0.2, 0.2, 0.2), 5, "train"),
        ("b", "z", (0.8, 0.8), 9, "test"),
        ("c", "x", (0.5,), 1, "val"),
    ):
        environment = maze if name == "a" else make_environment()
        run = described(name, state="ended", model=model, config={"lr": len(rewards), "at": name})
        played = make_split(environment=environment, name=split)
        for reward in rewards:
            task = make_task(environment=environment)
            end_episode(reward, run=run, task=task, split=played, steps_count=steps)
    described("bare", state="ended")
    catch_up()


@each(
    ("sort", "names"),
    [
        ("name", "a b bare c"),
        ("-name", "c bare b a"),
        ("model", "c a b bare"),
        ("-return", "b c a bare"),
        ("return", "b c a bare"),
        ("-success", "b c a bare"),
        ("-attempts", "a b c bare"),
        ("steps", "c a b bare"),
        ("-environment", "a c b bare"),
        ("split", "b a c bare"),
        ("created", "a b c bare"),
        ("config.lr", "c b a bare"),
        ("-config.at", "c b a bare"),
    ],
)
def test_runs_are_sorted_by_every_column(
    client: Client, played: None, sort: str, names: str
) -> None:
    assert listed(client, f"sort={sort}") == names.split()
    assert [run["name"] for run in get(f"runs?sort={sort}")["results"]] == names.split()


def test_returns_are_sorted_within_environments_and_splits_alone(
    client: Client, played: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`a` and its maze are as little above the others as below them."""
    sentence = "Sorted within each environment and split"
    page = client.get("/runs/?sort=-return").content.decode()
    places = re.findall(r'<span class="hint place narrow-only">(.*?)</span>', page)
    assert sentence in page and places == [
        *("math test", "math test", "math val", "math val", "maze train", "maze train")
    ]
    assert sentence not in client.get("/runs/?sort=-attempts").content.decode()
    monkeypatch.setattr(pages, "RUNS_PER_PAGE", 1)
    assert sentence in client.get("/runs/?sort=-return").content.decode()
    page = client.get("/runs/?sort=-return&text=b").content.decode()
    assert sentence not in page and 'class="hint place' not in page


def test_a_head_sorts_by_its_column_and_reverses_the_order(client: Client, played: None) -> None:
    page = client.get("/runs/?sort=-return&columns=lr").content.decode()
    assert re.findall(r'aria-sort="(.*?)"><a href="/runs/\?(.*?)"', page) == [
        ("descending", "sort=return&amp;columns=lr")
    ]
    assert 'href="/runs/?sort=config.lr&amp;columns=lr"' in page


def test_figures_of_another_definition_sort_by_it(client: Client) -> None:
    for name, first, second in (("a", 0.9, 0.1), ("b", 0.2, 0.8)):
        end_episode(first, return_max=second, run=make_run(name))
    catch_up()
    assert listed(client, "sort=-return") == ["a", "b"]
    assert listed(client, "sort=-return&return=max") == ["b", "a"]
    assert listed(client, "sort=-success&threshold=0.5&return=max") == ["b", "a"]


def test_an_order_counts_the_split_that_is_shown(client: Client) -> None:
    environment = make_environment()
    train, test = (make_split(environment=environment, name=name) for name in ("train", "test"))
    for name, trained, tested in (("a", 0.1, 0.9), ("b", 0.3, 0.3)):
        for split, reward in ((train, trained), (test, tested)):
            task = make_task(environment=environment)
            end_episode(reward, run=make_run(name), split=split, task=task)
    catch_up()
    assert listed(client, "sort=-return") == ["b", "a"]
    assert listed(client, "sort=-return&split=test") == ["a", "b"]
    assert listed(client, "sort=-return&splits=together") == ["a", "b"]


@each("convention", ["no_call=out", "no_call=zero", "expired=zero&failed=zero", "expired=out"])
def test_orders_agree_with_the_figures_of_the_page(client: Client, convention: str) -> None:
    for number in range(4):
        run = make_run(f"run-{number}")
        for reward, cause in ((0.9, "finished"), (0.2, "no_call"), (0.8, "expired")):
            for _ in range(1 + (number * 7 + len(cause)) % 3):
                end_episode(reward - number / 20, run=run, cause=cause, steps_count=number + 1)
        end_episode(run=run, cause="env_error")
    catch_up()
    for name, figure in (("return", "mean"), ("success", "success"), ("steps", "length_mean")):
        page = client.get(f"/runs/?sort=-{name}&{convention.replace('&failed=zero', '')}")
        values = [getattr(line.outline.total, figure) for line, *_ in page.context["rows"]]
        assert len(values) >= 4 and values == sorted(values, reverse=True)


def test_running_runs_come_first_and_the_last_active_next(client: Client) -> None:
    described("live", state="running")
    described("ended", state="ended")
    end_episode(run=make_run("old"))
    assert listed(client, "") == ["live", "ended", "old"]
    assert listed(client, "sort=name") == ["live", "ended", "old"]
    assert listed(client, "sort=-name") == ["live", "old", "ended"]


@contextmanager
def memory(maximum: int) -> Iterator[None]:
    """Check that the block never holds more than `maximum` bytes."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < maximum


def test_an_order_holds_few_configurations_at_a_time() -> None:
    config = json.dumps({"lr": 1, "prompt": "x" * 20_000})
    Run.objects.bulk_create(Run(name=str(n), created=NOW, config=config) for n in range(1000))
    order = RunOrder("config.lr", is_descending=False)
    with memory(10_000_000):  # of 20
        ids = order.ids(Run.objects.all(), Definition(), SplitChoice(), UNRESTRICTED)
    assert len(ids) == 1000


def test_little_is_kept_of_what_was_counted() -> None:
    with memory(2_000_000):  # of 10
        for number in range(1000):
            content = "{}", number, f"[[{number}, 1]]" + " " * 10_000, "", ""
            totals_by_run({1: [StoredTotal(1, 0, 0.0, content)]}, Definition())


def test_each_run_is_on_one_page_of_an_order(client: Client) -> None:
    for number in range(run_list.RUNS_PER_PAGE + 5):
        described(f"run-{number:02}", state="ended")
    first = client.get("/runs/?sort=name")
    second = listed(client, f"sort=name&after={first.context['next']}")
    assert second == [f"run-{number}" for number in range(20, 25)]
    assert client.get("/runs/?sort=name&after=999").status_code == 400


def test_of_very_many_runs_the_newest_are_sorted(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_list, "MAX_SORTED", 2)
    for name in "abc":
        described(name, state="ended")
    assert listed(client, "sort=name") == ["b", "c"]
    assert "newest 10,000 runs" in client.get("/runs/").content.decode()


@each("sort", ["wins", "config.", "--name"])
def test_an_unknown_order_is_refused(client: Client, sort: str) -> None:
    answer = client.get(f"/runs/?sort={sort}")
    assert answer.status_code == 400 and "config.NAME" in answer.content.decode()
