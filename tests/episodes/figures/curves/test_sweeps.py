"""Tests of curves of many runs: their default axis, order and highlights, groups, and failed
runs."""

from __future__ import annotations

import csv
import io
import json
import re
from html import unescape
from typing import Any

import pytest
from django.test import Client

from episodes.models import Run
from tests.episodes.ended import end_episode, end_episodes
from tests.stored import NOW, make_run, make_task

pytestmark = pytest.mark.django_db
CURVES = "/runs/curves/"


def charts(client: Client, query: str) -> list[dict[str, Any]]:
    answer = client.get(f"{CURVES}?{query}&format=json")
    assert answer.status_code == 200
    return list(answer.json()["charts"])


def page_of(client: Client, query: str) -> str:
    return unescape(client.get(f"{CURVES}?{query}").content.decode())


def constants(client: Client, query: str) -> dict[str, Any]:
    """Return the constants of the script that draws the figure."""
    script = client.get(f"{CURVES}?{query}&format=py").content.decode()
    names: dict[str, Any] = {}
    exec(script[: script.index("import csv")], names)
    return names


def sweep(seeds: int, *failed: str) -> str:
    """Return the parameter `runs` of two learning rates, each with so many seeds; the higher the
    rate and the seed, the higher the last return. `failed`: names of runs that failed."""
    runs, task = list[Run](), make_task()
    for rate, reward in ((1e-6, 0.0), (1e-5, 1.0)):
        for seed in range(seeds):
            name = f"{rate:g} {seed}"
            config = json.dumps({"lr": rate, "seed": seed, "batch": 8})
            state = "failed" if name in failed else "ended"
            runs.append(Run.objects.create(name=name, created=NOW, config=config, state=state))
            last = reward + seed / 100
            end_episodes(
                (0.5, {"run": runs[-1], "run_step": 1, "task": task}),
                (last, {"run": runs[-1], "run_step": 2, "task": task}),
            )
    return "runs=" + ",".join(str(run.pk) for run in runs)


def names_of_rows(page: str) -> list[str]:
    return re.findall(r'data-curve-row="[^"]*">.*?</svg>([^<]*)</button>', page, re.DOTALL)


def test_the_axis_is_the_training_step_if_every_run_has_one(client: Client) -> None:
    both = sweep(1)
    [chart] = charts(client, both)
    assert chart["x"] == "step" and [p["x"] for p in chart["series"][0]["points"]] == [1, 2]
    assert charts(client, "by=run")[0]["x"] == charts(client, "run=1e-06 0")[0]["x"] == "step"
    assert charts(client, f"{both}&x=episode")[0]["x"] == "episode"
    assert charts(client, "environment=math")[0]["x"] == "episode"
    page = page_of(client, both)
    assert 'data-x="step"' in page and 'name="x"' not in page  # other runs may have no steps
    end_episode(run=make_run("stepless"))
    assert charts(client, "by=run")[0]["x"] == "episode"


def test_rows_are_sorted_by_the_last_value_and_by_every_head(client: Client) -> None:
    runs = sweep(2)
    page = page_of(client, runs)
    assert names_of_rows(page) == ["1e-05 1", "1e-05 0", "1e-06 1", "1e-06 0"]
    assert re.search(r'aria-sort="descending"><a href="[^"]*sort=last">Last return', page)
    assert '+1.01 <span class="hint">step 2</span>' in page
    assert names_of_rows(page_of(client, f"{runs}&sort=last"))[0] == "1e-06 0"
    by_name = page_of(client, f"{runs}&sort=curve")
    assert names_of_rows(by_name) == ["1e-05 0", "1e-05 1", "1e-06 0", "1e-06 1"]
    assert "sort=-curve" in by_name and "sort=-return" in by_name
    grouped = names_of_rows(page_of(client, f"{runs}&group=lr"))
    assert grouped == ["lr = 1e-05", "lr = 1e-06"]
    assert client.get(f"{CURVES}?sort=colour").status_code == 400


def test_of_many_curves_the_best_stand_out_and_groups_are_offered(client: Client) -> None:
    runs = sweep(7)
    page = page_of(client, runs)
    assert "14 curves: the 3 with the highest last return stand out." in page
    assert "Group by lr</a>" in page and "group=lr" in page
    best = [str(Run.objects.get(name=f"1e-05 {seed}").pk) for seed in (6, 5, 4)]
    assert f'data-best="{",".join(best)}"' in page
    drawn = constants(client, runs)
    labels = [label for label, *_ in drawn["LINES"]["return"]]
    assert [label for label in labels if label] == ["1e-05 4", "1e-05 5", "1e-05 6"]
    assert "Thin: the other 11 curves." in drawn["NOTE"]
    for other in (f"{runs}&highlight=none", f"{runs}&group=lr"):
        assert "stand out" not in page_of(client, other)
    assert all(
        label for label, *_ in constants(client, f"{runs}&highlight=none")["LINES"]["return"]
    )


def test_the_menu_groups_by_several_values(client: Client) -> None:
    runs = sweep(2)
    page = page_of(client, f"{runs}&group=lr")
    assert "group=lr%2Cseed" in page and "+ seed</a>" in page
    both = page_of(client, f"{runs}&group=lr,seed")
    assert "<b>lr, seed</b>" in both and "&group=seed" in both and "&group=lr&" not in both
    assert names_of_rows(both)[0] == "lr = 1e-05, seed = 1"


def test_a_group_says_how_many_of_its_runs_failed_and_they_can_be_left_out(client: Client) -> None:
    runs = sweep(3, "1e-05 2")
    grouped = f"{runs}&group=lr"
    page = page_of(client, grouped)
    assert "· 1 failed</span>" in page and "Leave out 1 failed run</a>" in page
    assert "failed=no" in page and ">failed</span>" in page
    labels = [label for label, *_ in constants(client, grouped)["LINES"]["return"]]
    assert labels == ["lr = 1e-06 (3 runs)", "lr = 1e-05 (3 runs, 1 failed)"]
    without = f"{grouped}&failed=no"
    page = page_of(client, without)
    assert "1 failed run left out." in page and "Include 1 failed run</a>" in page
    assert ">1e-05 2</" not in page
    drawn = constants(client, without)
    assert drawn["LINES"]["return"][1][0] == "lr = 1e-05 (2 runs)"
    assert "1 failed run left out." in drawn["NOTE"].replace("\n", " ")


def test_files_say_which_runs_failed(client: Client) -> None:
    runs = sweep(2, "1e-05 1")

    def rows(query: str) -> list[dict[str, str]]:
        answer = client.get(f"{CURVES}?{runs}&{query}").content.decode()
        return list(csv.DictReader(io.StringIO(answer)))

    states = {row["series"]: row["run_state"] for row in rows("format=csv")}
    assert states["1e-05 1"] == "failed" and states["1e-05 0"] == "ended"
    assert "1e-05 1" not in {row["series"] for row in rows("format=csv&failed=no")}
    failed = {row["curve"]: row["failed_runs"] for row in rows("format=data&group=lr")}
    assert failed == {"lr = 1e-06": "0", "lr = 1e-05": "1"}


def test_without_failed_runs_there_may_be_nothing_to_draw(client: Client) -> None:
    runs = sweep(1, "1e-05 0", "1e-06 0")
    assert "2 failed runs left out." in page_of(client, f"{runs}&failed=no")
