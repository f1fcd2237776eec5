"""Tests of the filters and columns of the list of runs that read the configurations of runs."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from django.utils import timezone

from environments.models import UNRESTRICTED
from episodes.figures.runs import api, pages, run_list
from episodes.models import Run, SavedView
from episodes.rollups.follower import catch_up
from episodes.runs.description import parsed_description
from episodes.runs.trainer_updates import steer
from tests.episodes.api.asking import get
from tests.episodes.ended import end_episode
from tests.rows import each
from tests.stored import make_split, make_task

pytestmark = pytest.mark.django_db


@pytest.fixture
def sweep() -> None:
    for name, config in (
        ("cold", {"temperature": 0.5, "optimizer": {"name": "adam", "lr": 1e-5}, "layers": [1, 2]}),
        ("warm", {"temperature": 1, "optimizer": {"name": "sgd", "lr": 3e-5}, "is_lora": True}),
        ("text", {"temperature": "high", "optimizer": {"name": "lion"}}),
        ("bare", {}),
    ):
        described(name, config=config)


def described(name: str, **description: Any) -> None:
    steer(name, parsed_description(description), UNRESTRICTED, [])


def listed(client: Client, query: str) -> list[str]:
    page = client.get(f"/runs/?{query}").content.decode()
    return re.findall(r"<strong>(.*?)</strong></a>", page)


@each(
    ("query", "names"),
    [
        ("config=temperature>0.7", ["warm"]),
        ("config=temperature<=0.5", ["cold"]),
        ("config=temperature=1.0", ["warm"]),
        ("config=temperature!=1", ["text", "cold"]),
        ("config=optimizer.name=adam,sgd", ["warm", "cold"]),
        ("config=optimizer.name=adam,sgd&config=optimizer.lr > 2e-5", ["warm"]),
        ("config=is_lora=true", ["warm"]),
        ("config=layers=[1, 2]", ["cold"]),
        ("config=dropout=0", []),
        ("config=optimizer.name=adam%0A", []),
        ("config=optimizer.name=adam,sgd%0A", ["cold"]),
        ("config=temperature+%3D+1.0+", ["warm"]),
    ],
)
def test_runs_are_found_by_their_configuration(
    client: Client, sweep: None, query: str, names: list[str]
) -> None:
    assert listed(client, query) == names


NEAR_2_64 = 2**64 + 1
LARGE = {
    "small": 1_700_000_001,
    "large": NEAR_2_64,
    "less": -NEAR_2_64,
    "exponent": 1.7e9,
    "huge": 10**400,
}


@each(
    ("condition", "names"),
    [
        ("seed=1700000000", {"exponent"}),
        ("seed=1700000001", {"small", "exponent"}),
        ("seed=1.7e9", {"small", "exponent"}),
        ("seed!=1700000000", {"small", "large", "less", "huge"}),
        ("seed>1700000000", {"small", "large", "huge"}),
        ("seed>=1700000001", {"small", "large", "huge", "exponent"}),
        (f"seed<{2**64 + 2}", {"small", "large", "less", "exponent"}),
        (f"seed<={2**64 + 1}", {"small", "large", "less", "exponent"}),
        (f"seed<{2**64 + 1}", {"small", "less", "exponent"}),
        (f"seed={2**64}", set()),
        (f"seed=-{2**64 + 1}", {"less"}),
        ("seed<1e400", {"small", "large", "less", "exponent"}),
    ],
)  # fmt: skip
def test_whole_numbers_are_compared_digit_by_digit(
    client: Client, condition: str, names: set[str]
) -> None:
    for name, seed in LARGE.items():
        described(name, config={"seed": seed})
    assert set(listed(client, f"config={quote(condition)}")) == names


@each("query", ["threshold=\uff10.9", "threshold=0_9"])
def test_other_spellings_of_digits_are_refused(client: Client, query: str) -> None:
    assert client.get(f"/runs/?{query}").status_code == 400


@each("number", ["\uff11\uff17", "1_0", "inf", "-Infinity", "NaN"])
def test_a_condition_takes_the_numbers_that_configurations_have(
    client: Client, sweep: None, number: str
) -> None:
    for condition in (f"seed>{number}", f"seed={number}", f"seed!=adam,{number}"):
        answer = client.get(f"/runs/?config={quote(condition)}")
        assert answer.status_code == 400
        assert (
            f"{number} is no number that a configuration has; write it as in 17, -0.5"
            in answer.content.decode()
        )


def test_values_of_configurations_are_columns(client: Client, sweep: None) -> None:
    for columns in ("columns=temperature&columns=optimizer.lr", "columns=temperature,optimizer.lr"):
        page = client.get(f"/runs/?{columns}").content.decode()
        assert ">temperature</a></th>" in page and ">optimizer.lr</a></th>" in page
    assert "<td>1e-05</td>" in page and "<td>high</td>" in page
    assert 'value="is_lora"' in page


def test_a_filter_takes_several_values_and_each_can_be_removed(client: Client, sweep: None) -> None:
    described("tagged", tags=["one"])
    described("other", tags=["two"], state="failed")
    assert listed(client, "tag=one&tag=two") == ["tagged", "other"]
    assert listed(client, "state=failed&state=ended") == ["other"]
    page = client.get("/runs/?tag=one&tag=two&config=temperature>0.7").content.decode()
    links = [
        unescape(link)
        for link in re.findall(
            r'<a href="/runs/\?([^"]*)" aria-label="Remove '
            r"filter",
            page,
        )
    ]
    assert links == [
        "tag=two&config=temperature%3E0.7",
        "tag=one&config=temperature%3E0.7",
        "tag=one&tag=two",
    ]


def test_of_very_many_runs_some_are_searched(
    client: Client, sweep: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_list, "MAX_SEARCHED", 2)
    page = client.get("/runs/?config=temperature>0&sort=-created").content.decode()
    [older] = re.findall(r'<a href="\?([^"]*)">Search older ones', page)
    assert listed(client, unescape(older)) == ["warm", "cold"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("config=temperature", "a name, a sign and a value"),
        ("config=optimizer.name>adam", "compares numbers"),
        ("&".join(f"columns=c{number}" for number in range(9)), "at most 8 are shown"),
    ],
)
def test_an_invalid_parameter_is_refused(client: Client, query: str, expected: str) -> None:
    answer = client.get(f"/runs/?{query}")
    assert answer.status_code == 400 and expected in answer.content.decode()


@each("query", ["config=temperature>0.7%0A", "config=temperature>%0A0.7", "after=1%0A"])
def test_a_line_break_is_no_blank(client: Client, sweep: None, query: str) -> None:
    assert client.get(f"/runs/?{query}").status_code == 400


def links_of(client: Client, query: str) -> dict[str, str]:
    """Return the addresses of the buttons on top of the list, by label."""
    page = client.get(f"/runs/?{query}").content.decode()
    pairs = re.findall(r'<a class="button" href="([^"]*)"[^>]*>(Curves|Compare)</a>', page)
    return {label: unescape(address) for address, label in pairs}


def test_curves_and_comparison_take_the_runs_of_the_list(client: Client, sweep: None) -> None:
    assert links_of(client, "") == {"Curves": "/runs/curves/?by=run"}
    links = links_of(client, "config=temperature<=1&sort=-config.temperature&threshold=0.7")
    cold, warm = (Run.objects.get(name=name).pk for name in ("cold", "warm"))
    assert links == {
        "Curves": f"/runs/curves/?runs={warm},{cold}&threshold=0.7",
        "Compare": f"/compare/?runs={cold},{warm}&threshold=0.7",
    }
    assert all(client.get(address).status_code == 200 for address in links.values())
    [grouped] = links_of(client, "text=warm&group=optimizer.name").values()
    assert grouped == f"/runs/curves/?runs={warm}&group=optimizer.name"
    assert links_of(client, "text=nothing") == {}


def test_it_says_which_of_many_runs_are_compared(
    client: Client, sweep: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MAX_COMPARED", 3)
    page = client.get("/runs/?state=running&group=optimizer.name").content.decode()
    assert ">Compare the first 3 of 4</a>" in page
    page = client.get("/runs/?state=running&sort=-created").content.decode()
    assert ">Compare the newest 3 of 4</a>" in page
    page = client.get("/runs/?text=o").content.decode()
    assert ">Compare</a>" in page and ">Compare the" not in page


@each("sort", ["-created", "-last", "name"])
def test_a_selection_can_have_all_runs_of_the_list(
    client: Client, sweep: None, monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    monkeypatch.setattr(pages, "RUNS_PER_PAGE", 2)
    page = client.get(f"/runs/?state=running&sort={sort}").content.decode()
    assert "4 runs match" in page and "Select all 4 runs that match</button>" in page
    [ids] = re.findall(r'data-pick-list="(.*?)"', page)
    assert set(map(int, ids.split(","))) == set(Run.objects.values_list("pk", flat=True))
    assert "data-pick-list" not in client.get("/runs/?text=cold").content.decode()


def test_pinned_columns_come_first_and_others_can_be_hidden(client: Client, sweep: None) -> None:
    page = client.get("/runs/?columns=temperature&pin=is_lora&hide=model,curve").content.decode()
    heads = re.findall(r"<th(?: [^>]*)?>(?:<a[^>]*>)?([^<]*)", page)
    assert heads[1:5] == ["Run", "is_lora", "temperature", "Environment"]
    assert "Model" not in heads and "Curve" not in heads
    assert '<td class="pinned">true</td><td>1</td>' in re.sub(r"\s*\n\s*", "", page)
    answer = client.get("/runs/?hide=colour")
    assert answer.status_code == 400 and "environment" in answer.content.decode()


def test_the_api_returns_values_of_configurations(client: Client, sweep: None) -> None:
    runs = get("runs?columns=temperature,optimizer.lr")["results"]
    assert {run["name"]: run["columns"] for run in runs} == {
        "bare": {},
        "text": {"temperature": "high"},
        "warm": {"temperature": 1, "optimizer.lr": 3e-5},
        "cold": {"temperature": 0.5, "optimizer.lr": 1e-5},
    }


def test_a_file_has_all_runs_of_the_list(client: Client, sweep: None) -> None:
    run = Run.objects.get(name="warm")
    end_episode(0.75, run=run, task=make_task(), split=make_split(name="train"), steps_count=3)
    catch_up()
    answer = client.get("/runs/?format=csv&text=adam+cold&columns=temperature&sort=name")
    assert answer["Content-Disposition"] == 'attachment; filename="runs.csv"'
    [cold] = csv.DictReader(answer.content.decode().splitlines())
    assert (cold["name"], cold["attempts"], cold["return"]) == ("cold", "0", "")
    file = client.get("/runs/?format=csv&sort=-return&columns=temperature").content.decode()
    first, *others = csv.DictReader(file.splitlines())
    assert (first["name"], first["return"], first["steps"]) == ("warm", "0.75", "3.0")
    assert (first["config.temperature"], first["split"]) == ("1", "train") and len(others) == 3


def test_a_view_of_runs_is_saved_apart_from_one_of_episodes(client: Client, sweep: None) -> None:
    client.post("/episodes/views/", {"name": "mine", "query": "model=a"})
    query = {"page": "runs", "name": "mine", "query": "config=temperature>0.7&pin=temperature"}
    address = client.post("/episodes/views/", query)["Location"]
    assert listed(client, address.partition("?")[2]) == ["warm"]
    assert "temperature&gt;0.7&amp;pin=temperature" in client.get("/runs/").content.decode()
    assert "temperature" not in client.get("/episodes/").content.decode()
    for wrong in ({"query": "colour=red"}, {"query": "sort=luck"}, {"page": "tasks"}):
        assert client.post("/episodes/views/", query | wrong).status_code == 400
    view = SavedView.objects.get(page="runs")
    assert client.post(f"/episodes/views/{view.pk}/delete/")["Location"] == "/runs/?"


def test_a_view_that_names_a_hidden_split_does_not_exist(sweep: None) -> None:
    split = make_split(name="secret")
    hides = replace(UNRESTRICTED, hidden_environments=frozenset({split.environment_id}))
    SavedView.objects.create(page="runs", name="a", query="split=secret", author="ada")
    SavedView.objects.create(page="runs", name="b", query="text=cold", author="ada")
    assert [view.name for view in pages.VIEWS.views(hides)] == ["b"]
    assert [view.name for view in pages.VIEWS.views(UNRESTRICTED)] == ["a", "b"]


def test_a_running_run_without_an_update_is_marked_and_not_first(client: Client) -> None:
    for name, state in (("old", "running"), ("new", "running"), ("over", "ended")):
        described(name, state=state)
    past = timezone.now() - timedelta(hours=5)
    Run.objects.filter(name="old").update(created=past, updated=past)
    assert listed(client, "sort=name") == ["new", "old", "over"]
    assert listed(client, "sort=-name") == ["new", "over", "old"]
    page = client.get("/runs/").content.decode()
    assert page.count("no update for 5 h") == 1 and page.count('data-run-state="running"') == 1
    silent = Run.objects.get(name="old")
    assert "no update for 5 h" in client.get(f"/runs/{silent.pk}/").content.decode()


def test_the_api_says_that_totals_are_being_counted(
    client: Client, sweep: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "note_of_part", lambda part: "Still counting.")
    assert get("runs?sort=return")["note"] == "Still counting."
    assert get("runs")["note"] == ""


def test_last_values_of_scalars_are_columns(client: Client, sweep: None) -> None:
    for name, value in (("cold", 0.5), ("warm", 0.25), ("text", float("nan"))):
        described(name, step=1, resume=True, scalars={"loss": value})
    page = client.get("/runs/?columns=scalar.loss,temperature&sort=-scalar.loss").content.decode()
    assert "<td>0.5</td>" in page and 'value="scalar.loss"' in page
    assert listed(client, "sort=-scalar.loss") == ["cold", "warm", "bare", "text"]
    runs = get("runs?columns=scalar.loss&sort=scalar.loss")["results"]
    assert [run["columns"] for run in runs] == [{"scalar.loss": 0.25}, {"scalar.loss": 0.5}, {}, {}]
    file = client.get("/runs/?format=csv&columns=scalar.loss&text=cold").content.decode()
    assert file.splitlines()[0].endswith(",scalar.loss") and file.rstrip().endswith(",0.5")
