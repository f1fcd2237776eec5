"""Tests of the figures of a run over its latest training steps, and of all of its episodes."""

from __future__ import annotations

import csv
from html import unescape
from random import Random

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from environments.models import UNRESTRICTED
from episodes.figures.runs.run_lines import RunQuery
from episodes.models import Run
from episodes.rollups.follower import catch_up
from tests.episodes.api.asking import get
from tests.episodes.ended import end_episodes
from tests.rows import each
from tests.stored import make_environment, make_episode, make_run, make_split, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_follower")]


def train(name: str, *returns: float, attempts: int = 2) -> Run:
    """Record a run with a training step for each of the returns."""
    run, task = make_run(name), make_task()
    steps = [
        (value, {"run": run, "run_step": step, "task": task}) for step, value in enumerate(returns)
    ]
    end_episodes(*steps * attempts)
    catch_up()
    return run


@each(
    ("steps", "latest"),
    [(1, (0, 0)), (7, (6, 6)), (10, (9, 9)), (11, (9, 10)), (40, (36, 39)), (256, (230, 255))],
)
def test_the_latest_steps_are_a_tenth(steps: int, latest: tuple[int, int]) -> None:
    run = train(f"run-{steps}", *[0.0] * steps, attempts=1)
    figures = RunQuery(run, UNRESTRICTED).result().latest
    assert figures and (figures.low, figures.high) == latest


def test_the_list_shows_where_runs_are_now_and_their_mean_on_hover(client: Client) -> None:
    train("late", *[0.0] * 18, 1.0, 1.0)
    page = unescape(client.get("/runs/").content.decode())
    assert "+1.00" in page and "+0.10" not in page.replace("all: +0.10", "")
    assert "training steps 18 to 19: +1.00, 100% of 4 attempts; all: +0.10, 10% of 40" in page
    assert "last 10% of steps" in page
    page = unescape(client.get("/runs/?over=all").content.decode())
    assert ">+0.10<" in page and "last 10% of steps" not in page


@each(("over", "names"), [("", ["late", "even"]), ("&over=all", ["even", "late"])])
def test_runs_are_sorted_by_what_is_shown(client: Client, over: str, names: list[str]) -> None:
    train("late", *[0.0] * 18, 1.0, 1.0)
    train("even", *[0.5] * 20)
    rows = client.get(f"/runs/?sort=-return{over}").context["rows"]
    assert [row.line.run.name for row in rows] == names


def test_sorting_reads_no_spans(client: Client) -> None:
    """They are many: 256 of each of 10,000 runs."""
    train("late", *[0.0] * 18, 1.0, 1.0)
    with CaptureQueriesContext(connection) as queries:
        client.get("/runs/?sort=-return")
    tables = [
        table for table in ("stepspan", "latesttotal") if table in str(queries.captured_queries)
    ]
    assert tables == ["latesttotal"]


def test_a_run_without_training_steps_has_the_figures_of_all_its_attempts(client: Client) -> None:
    end_episodes(*[(value, {"run": make_run("eval")}) for value in (0.0, 1.0)])
    catch_up()
    page = client.get("/runs/").content.decode()
    assert "+0.50" in page and " all</span>" in page
    assert "steps 0" not in client.get(f"/runs/{Run.objects.get().pk}/").content.decode()


def test_the_page_of_a_run_names_the_steps_of_its_figures(client: Client) -> None:
    run = train("late", *[0.0] * 18, 1.0, 1.0)
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert "steps 18\N{EN DASH}19</abbr>" in page and "· all steps +0.10" in page
    assert "n = 4 " in page and "· all steps 10%" in page


def test_the_split_that_is_shown_has_latest_steps_of_its_own() -> None:
    run, environment = make_run(), make_environment()
    train, test = (make_split(environment=environment, name=name) for name in ("train", "test"))
    for split, step, value in ((train, 0, 0.2), (test, 10, 0.4), (train, 39, 0.6)):
        task = make_task(environment=environment)
        values = {"run": run, "run_step": step, "task": task, "split": split}
        end_episodes((value, values))
    catch_up()
    latest = {
        name: get(f"runs?{query}")["results"][0]["latest"]
        for name, query in (("train", ""), ("test", "split=test"), ("both", "splits=together"))
    }
    steps = {name: (row["from_step"], row["mean"]) for name, row in latest.items()}
    assert steps == {"train": (39, 0.6), "test": (10, 0.4), "both": (39, 0.6)}


def test_a_file_has_the_latest_figures_too(client: Client) -> None:
    train("late", *[0.0] * 18, 1.0, 1.0)
    [row] = csv.DictReader(client.get("/runs/?format=csv").content.decode().splitlines())
    assert (row["return"], row["latest_return"], row["latest_success"]) == ("0.1", "1.0", "1.0")


@each("convention", ["", "expired=out", "expired=zero&no_call=out", "return=max"])
def test_they_are_those_of_the_curve(convention: str) -> None:
    """Sums of stored rows agree with the figures of summaries, errors included."""
    run, task, random = make_run(), make_task(), Random(7)
    causes = ("finished", "finished", "expired", "no_call", "env_error")
    end_episodes(
        *[
            (
                random.random(),
                {"run": run, "run_step": step, "task": task, "cause": random.choice(causes)},
            )
            for step in range(3)
            for _ in range(100)
        ]
    )
    catch_up()
    row = get(f"runs/{run.pk}?{convention}")
    points = get(f"curves?run=grpo-3&x=step&{convention}")["points"]
    last, latest = points[-1], row["latest"]
    for name in ("n", "mean", "error", "success"):
        assert latest[name] == pytest.approx(last[name]), name


def test_groups_are_over_what_the_list_shows(client: Client) -> None:
    for run in (train("a", *[0.0] * 18, 1.0, 1.0), train("b", *[0.0] * 20)):
        Run.objects.filter(pk=run.pk).update(config='{"lr": 1}')
    means = [
        client.get(f"/runs/?group=lr{over}").context["groups"][0].group.returns.mean
        for over in ("", "&over=all")
    ]
    assert means == [0.5, 0.05]


@pytest.mark.usefixtures("keys")
def test_a_key_is_not_told_what_others_reached() -> None:
    train("late", *[0.0] * 18, 1.0, 1.0)
    make_episode(key_label="lab", run=Run.objects.get(), run_step=20)
    [row] = get("runs", **{"X-API-Key": "lab-key-1"})["results"]
    assert (row["latest"], row["figures"]["n"]) == (None, 1)
