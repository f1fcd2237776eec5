"""Tests of the comparison of many runs: their ranking, its baseline, and runs that played other
tasks."""

from __future__ import annotations

import json
import re

import pytest
from django.test import Client

from episodes.models import Episode, Run
from tests.episodes.ended import end_episode
from tests.stored import make_run, make_task

pytestmark = pytest.mark.django_db


def played(*rates: float, tasks: int = 4) -> list[Run]:
    """Return runs that succeed at these shares of the same tasks."""
    rows, runs = [make_task() for _ in range(tasks)], list[Run]()
    for rate in rates:
        runs.append(make_run(f"at-{rate:g}-of-{rows[0].pk}"))
        for place, task in enumerate(rows):
            end_episode(float(place < rate * tasks), run=runs[-1], task=task)
    return runs


def page_of(client: Client, runs: list[Run], more: str = "") -> str:
    numbers = ",".join(str(run.pk) for run in runs)
    return client.get(f"/compare/?runs={numbers}{more}").content.decode()


def rows_of(page: str) -> list[str]:
    """Return the names of the runs in the order of the ranking."""
    [ranking] = re.findall(r'<table class="table ranking">.*?</table>', page, re.DOTALL)
    return re.findall(r'<a href="/runs/\d+/">([^<]+)</a>', ranking)


def test_many_runs_are_compared_with_the_best(client: Client) -> None:
    half, all_, none, most = played(0.5, 1.0, 0.0, 0.75)
    page = page_of(client, [half, all_, none, most])
    assert rows_of(page)[0] == all_.name
    assert f"each run compared with {all_.name}" in page
    assert 'class="notice conclusion"' not in page  # no sentence for each of them


def test_the_baseline_can_be_chosen_and_the_others_follow_by_rank(client: Client) -> None:
    half, all_, none, most = played(0.5, 1.0, 0.0, 0.75, tasks=40)
    page = page_of(client, [half, all_, none, most], f"&baseline={half.pk}")
    assert rows_of(page) == [half.name, all_.name, most.name, none.name]
    body = client.get(f"/api/compare?runs={half.pk},{all_.pk}&baseline={all_.pk}").json()
    assert body["baseline"] == all_.name
    [success] = [line for line in body["measures"] if line["name"] == "success"]
    assert [figure["verdict"] for figure in success["runs"]] == ["worse", ""]


def test_a_few_settings_stand_in_the_ranking(client: Client) -> None:
    runs = played(0.5, 1.0, 0.0, 0.75)
    for place, run in enumerate(runs):
        Run.objects.filter(pk=run.pk).update(config=json.dumps({"lr": place / 8, "beta": 0.1}))
    page = page_of(client, runs)
    [ranking] = re.findall(r'<table class="table ranking">.*?</table>', page, re.DOTALL)
    assert "<th>lr</th>" in ranking and '<code title="0.125">' in ranking
    assert "<th>beta</th>" not in ranking and 'id="settings"' not in page
    wide = {f"name-{number}": 0 for number in range(5)}
    Run.objects.filter(pk=runs[0].pk).update(config=json.dumps(wide))
    page = page_of(client, runs)
    assert 'id="settings"' in page and page.count("<th>name-0</th>") == 1


def test_runs_without_a_common_task_are_not_compared_with_the_others(client: Client) -> None:
    three, two, [alone] = played(0.5, 1.0, 0.0), played(0.25, 0.75), played(1.0)
    page = page_of(client, [alone, *two, *three])
    assert f"{alone.name} has no task in common with the other runs" in page
    assert f"{two[0].name}, {two[1].name} have no task in common" in page
    assert f'href="/compare/?runs={two[0].pk},{two[1].pk}">Compare 2 runs' in page
    assert "4 shared tasks" in page and f"{three[0].name} succeeds" not in page
    numbers = ",".join(str(run.pk) for run in (alone, *two, *three))
    body = client.get(f"/api/compare?runs={numbers}").json()
    assert [run["name"] for run in body["runs"]] == [run.name for run in three]
    assert body["apart"] == [[run.name for run in two], [alone.name]]


def test_no_two_runs_of_a_page_have_the_same_colour(client: Client) -> None:
    runs = played(0.5, 1.0, 0.0, 0.75)
    for number in range(8):
        make_run(f"between-{number}")
    far = make_run("far")  # twelve runs later, so alone it has the same colour
    for episode in Episode.objects.filter(run=runs[0]):
        end_episode(1.0, run=far, task=episode.task)
    page = page_of(client, [*runs, far])
    [ranking] = re.findall(r'<table class="table ranking">.*?</table>', page, re.DOTALL)
    colours = re.findall(r"swatch line-(\d+)", ranking)
    assert len(colours) == len(set(colours)) == 5
