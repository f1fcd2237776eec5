"""Tests of the comparison of runs as JSON and as a CSV file."""

from __future__ import annotations

import csv
import io

import pytest
from django.test import Client

from environments.models import Environment
from tests.episodes.api.asking import get
from tests.episodes.ended import end_episode
from tests.stored import make_run, make_task

pytestmark = pytest.mark.django_db


@pytest.fixture
def query() -> str:
    """Record what two runs of 3 training steps played at two tasks, and return their comparison."""
    tasks = [make_task() for _ in range(2)]
    for name, rewards in (("honest", (1.0, 1.0, 0.0)), ("greedy", (0.9, 0.9, 0.9))):
        for step, reward in enumerate(rewards):
            for task in tasks:
                end_episode(reward, run=make_run(name), run_step=step, task=task, model="m")
    make_run("greedy").episodes.filter(run_step=2).update(run_step=7)
    return "runs=honest,greedy"


def test_json_has_what_the_page_shows(query: str) -> None:
    answer = get(f"compare?{query}")
    assert [(run["name"], run["tasks"]) for run in answer["runs"]] == [("honest", 2), ("greedy", 2)]
    assert (answer["steps"], answer["shared"]) == ({"low": 0, "high": 2}, 2)
    success = answer["measures"][0]
    assert (success["name"], success["is_regression"], success["tasks"]) == ("success", True, 2)
    second = success["runs"][1]
    assert (second["run"], second["mean"], second["verdict"]) == ("greedy", 0.0, "worse")
    assert second["difference"]["mean"] == pytest.approx(-2 / 3)
    assert answer["tasks"][0]["attempts"] == [3, 2]
    assert answer["tasks"][0]["measures"][0]["means"] == pytest.approx([2 / 3, 0])
    [conclusion] = answer["conclusions"]
    assert (conclusion["run"], conclusion["is_warning"]) == ("greedy", True)


def test_all_steps_count_on_another_axis(query: str) -> None:
    answer = get(f"compare?{query}&x=episode&limit=1")
    assert (answer["steps"], len(answer["tasks"])) == (None, 1)
    assert answer["tasks"][0]["attempts"] == [3, 3]


def test_a_file_has_a_line_for_each_task_and_run(client: Client, query: str) -> None:
    response = client.get(f"/compare/?{query}&format=csv")
    assert "compared-runs.csv" in response["Content-Disposition"]
    assert response["X-Definition"].startswith("return=sum; threshold=0.9")
    lines = list(csv.DictReader(io.StringIO(response.content.decode())))
    assert [(line["run"], line["attempts"]) for line in lines] == [
        ("honest", "3"),
        ("greedy", "2"),
    ] * 2
    assert lines[1]["success"] == "0.0" and lines[1]["return"] == "0.9"
    assert (lines[1]["length"], lines[1]["tokens"]) == ("2.0", "")
    assert {line["environment"] for line in lines} == {Environment.objects.get().name}


def test_at_least_two_runs_are_needed() -> None:
    make_run("alone")
    for query in ("", "?runs=alone", "?runs=,"):
        assert Client().get(f"/api/compare{query}").status_code == 400
