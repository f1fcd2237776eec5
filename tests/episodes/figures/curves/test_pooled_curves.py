"""Tests of curves whose mean would mislead: of several environments, and with a few enormous
returns."""

from __future__ import annotations

from html import unescape

import pytest
from django.test import Client

from tests.episodes.ended import end_episode
from tests.stored import make_environment, make_run, make_task

pytestmark = pytest.mark.django_db


def curves_of(client: Client, query: str = "") -> list[str]:
    [chart] = client.get(f"/runs/curves/?format=json{query}").json()["charts"]
    return [line["label"] for line in chart["series"]]


def test_environments_are_separate_unless_the_reader_pools_them(client: Client) -> None:
    for name in ("maze", "web"):
        end_episode(1.0, task=make_task(environment=make_environment(name)))
    assert sorted(curves_of(client)) == ["maze", "web"]
    assert curves_of(client, "&environment=web") == ["web"]
    assert curves_of(client, "&by=all") == ["all episodes"]
    page = client.get("/runs/curves/").content.decode()
    assert 'href="/runs/curves/?by=environment" aria-current="true"' in page


def test_a_mean_that_one_return_carries_says_so(client: Client) -> None:
    task = make_task()
    for number in range(30):
        end_episode(1e6 if number == 7 else float(number % 2), task=task)
    page = unescape(client.get("/runs/curves/").content.decode())
    assert "a few returns, as far as +1M, carry the mean" in page
    [address] = {part.split('"')[0] for part in page.split('href="')[1:] if "return_to" in part}
    assert "a few returns" not in client.get(address).content.decode()


def test_the_axis_does_not_reach_to_the_mean_that_a_few_returns_carry(client: Client) -> None:
    run = make_run("grpo")
    task = make_task()
    for step in range(6):
        for number in range(8):
            reward = 1e6 if (step, number) == (4, 0) else float(number % 2)
            end_episode(reward, task=task, run=run, run_step=step)
    address = "/runs/curves/?run=grpo&x=step"
    [line] = client.get(address).context["charts"][0]["series"]
    assert line["usual"] == (0.0, 1.0) and max(point["y"] for point in line["points"]) > 1e5
    script = client.get(f"{address}&format=py").content.decode()
    assert "'linear', (0.0, 1.0))" in script
    assert client.get(f"{address}&format=svg").content.startswith(b"<?xml")


def test_a_rare_success_is_no_outlier(client: Client) -> None:
    task = make_task()
    for number in range(30):
        end_episode(float(number == 7), task=task)
    assert "a few returns" not in client.get("/runs/curves/").content.decode()


@pytest.mark.parametrize("page", ["/runs/curves/", "/runs/", "/episodes/", "/compare/"])
def test_an_empty_filter_of_any_name_is_no_filter(page: str, client: Client) -> None:
    assert client.get(f"{page}?no_such_filter=").status_code == 200
    assert client.get(f"{page}?no_such_filter=x").status_code == 400
