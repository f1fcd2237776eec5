"""Tests of the filter `success`, and of the member that says the same: it finds what figures
count."""

from __future__ import annotations

import csv
import io
import json

import pytest
from django.test import Client

from environments.models import UNRESTRICTED
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Episode, Play
from tests.episodes.api.asking import get
from tests.episodes.ended import end_episode
from tests.episodes.transfer.test_api import file
from tests.stored import make_environment, make_episode, make_run, make_task

pytestmark = pytest.mark.django_db(transaction=True)

OVERRIDES = ("", "&threshold=0.4", "&return=max", "&expired=zero", "&no_call=out&env_error=zero")
"""Parts of a definition, as an address gives them."""


@pytest.fixture
def record() -> None:
    """A run in three environments with different definitions, and what no figure counts."""
    environments = [
        make_environment("math"),
        make_environment("deep", default_return="max", success_threshold=0.5),
        make_environment("strict", success_threshold=-0.5, convention="zzzz"),
    ]
    run = make_run("grpo")
    for environment in environments:
        task = make_task(environment=environment)
        for reward, more in (
            (1.0, {}),
            (0.6, {"return_max": 0.95}),
            (0.5, {"cause": "abandoned"}),
            (1.0, {"cause": "expired"}),
            (0.0, {"cause": "no_call"}),
            (-1.0, {"cause": "env_error"}),
            (None, {}),
            (1.0, {"is_probe": True, "cause": "abandoned"}),
        ):
            end_episode(reward, **{"task": task, "environment": environment, "run": run, **more})
        make_episode(task=task, environment=environment, run=run, status="running", cause="")
        repeat = end_episode(1.0, task=task, environment=environment, player="human")
        Play.objects.create(episode=repeat, is_repeat=True)


def ids(query: str) -> set[int]:
    rows = NamedRows.of(EpisodeFilter.parse(query_of(query), UNRESTRICTED)).episodes()
    return set(rows.values_list("pk", flat=True))


def query_of(text: str) -> dict[str, str]:
    return dict(part.split("=") for part in text.split("&") if part)


@pytest.mark.parametrize("overrides", OVERRIDES)
@pytest.mark.parametrize("scope", ["run=grpo", "environment=deep", "environment=strict", ""])
def test_it_finds_as_many_as_figures_count(record: None, scope: str, overrides: str) -> None:
    total = get(f"curves?{scope}{overrides}")["total"]
    successes = ids(f"{scope}&success=yes{overrides}")
    failures = ids(f"{scope}&success=no{overrides}")
    assert len(successes) / (len(successes) + len(failures)) == total["success"]
    assert successes | failures == ids(f"{scope}&ending=attempt{overrides}")


@pytest.mark.parametrize("overrides", OVERRIDES)
def test_the_member_says_what_the_filter_finds(record: None, overrides: str) -> None:
    rows = get(f"episodes?limit=100{overrides}")["results"]
    assert {row["id"] for row in rows if row["success"]} == ids(f"success=yes{overrides}")
    assert {row["id"] for row in rows if row["success"] is False} == ids(f"success=no{overrides}")


def test_the_page_of_a_run_counts_what_its_link_finds(record: None, client: Client) -> None:
    run = make_run("grpo").pk
    total = client.get(f"/runs/{run}/?threshold=0.4").context["line"].outline.total
    assert len(ids("run=grpo&success=yes&threshold=0.4")) == total.successes > 0


def test_an_episode_has_the_member_by_its_environment(record: None) -> None:
    for pk in ids("success=yes"):
        assert get(f"episodes/{pk}")["success"] is True
    running = Episode.objects.filter(status="running").values_list("pk", flat=True)
    assert [get(f"episodes/{pk}")["success"] for pk in running] == [None] * 3


@pytest.mark.parametrize("overrides", OVERRIDES)
def test_files_have_the_member(record: None, overrides: str) -> None:
    rows = list(csv.DictReader(io.StringIO(file(f"format=csv{overrides}")[1].decode())))
    for text, condition in (("true", "success=yes"), ("false", "success=no")):
        own = {int(row["episode"]) for row in rows if row["success"] == text}
        assert own == ids(condition + overrides)
    lines = file(f"format=atif&success=yes{overrides}")[1].splitlines()
    marks = [json.loads(line)["extra"]["orsweb_export"]["success"] for line in lines]
    assert set(marks) == {True} and len(marks) == len(ids(f"success=yes{overrides}"))


def test_the_form_and_a_chip_show_it(record: None, client: Client) -> None:
    page = client.get("/episodes/?success=no&threshold=0.4&expired=zero").content.decode()
    assert '<option value="no" selected>no</option>' in page
    assert "<b>success</b> no" in page and "<b>success</b> &gt; 0.4" in page
    assert '<input type="hidden" name="threshold" value="0.4">' in page
    assert '<input type="hidden" name="expired" value="zero">' in page


def test_a_filter_by_success_alone_is_no_definition() -> None:
    assert EpisodeFilter.parse({"threshold": "0.4"}, UNRESTRICTED).is_empty
    assert not EpisodeFilter.parse({"success": "no"}, UNRESTRICTED).is_empty
