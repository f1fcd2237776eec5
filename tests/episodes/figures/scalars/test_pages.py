"""Tests of the scalars on the page of a run and on the page of curves."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from html import unescape
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from episodes.figures.curves import pages
from episodes.models import Run
from episodes.runs.scalars import store_scalars
from tests.episodes.ended import end_episode
from tests.stored import make_run

pytestmark = pytest.mark.django_db


def reported(name: str, **scalars: dict[int, float]) -> Run:
    """Return a run with an episode at step 1, and these values by step."""
    run = make_run(name)
    end_episode(1.0, run=run, run_step=1)
    rows = [(step, {key: value}) for key, by in scalars.items() for step, value in by.items()]
    with transaction.atomic():
        store_scalars(run, rows)
    return run


def charts(page: str) -> dict[str, Any]:
    text = re.search(r'<script id="curve-data"[^>]*>(.*?)</script>', page, re.DOTALL)
    return {chart["figure"]: chart for chart in json.loads(text[1] if text else "[]")}


def page_of(address: str, status: int = 200) -> str:
    response = Client().get(address)
    assert response.status_code == status
    return response.content.decode()


def test_the_page_of_a_run_draws_its_scalars_below_its_returns() -> None:
    run = reported("a", loss={1: 0.5, 2: math.nan, 3: 0.25}, lr={1: 1e-6})
    page = page_of(f"/runs/{run.pk}/")
    drawn = charts(page)
    assert [*drawn] == ["return", "success", "length", "scalar.loss", "scalar.lr"]
    assert [(p["x"], p["y"]) for p in drawn["scalar.loss"]["series"][0]["points"]] == [
        (1, 0.5),
        (2, None),
        (3, 0.25),
    ]
    assert drawn["scalar.loss"]["yTitle"] == "loss"
    assert "loss: 1 value NaN or infinite, drawn as gaps." in page and "1e-06" in page


def test_a_run_without_episodes_has_its_scalars() -> None:
    run = make_run("a")
    with transaction.atomic():
        store_scalars(run, [(1, {"loss": 0.5})])
    assert [*charts(page_of(f"/runs/{run.pk}/"))] == ["scalar.loss"]


def test_curves_of_several_runs_have_a_line_for_each_and_a_mean_for_groups() -> None:
    runs = [
        reported("a", loss={1: 1.0}),
        reported("b", loss={1: 3.0}),
        reported("c", kl={1: 2.0}),
    ]
    for run, seed in zip(runs, (1, 1, 2), strict=True):
        Run.objects.filter(pk=run.pk).update(config=json.dumps({"arm": seed}))
    address = "/runs/curves/?x=step&y=return,scalar.loss&runs=" + ",".join(
        str(run.pk) for run in runs
    )
    series = charts(page_of(address))["scalar.loss"]["series"]
    assert [(line["label"], line["points"][0]["y"]) for line in series] == [("a", 1.0), ("b", 3.0)]
    [mean, *_] = charts(page_of(f"{address}&group=arm"))["scalar.loss"]["series"]
    assert (mean["label"], mean["points"][0]["y"], mean["points"][0]["n"]) == ("arm = 1", 2.0, 2)


def test_a_long_table_of_scalars_ends_with_links_to_all_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pages, "MAX_SCALAR_ROWS", 2)
    run = reported("a", loss={1: 0.5}, kl={1: 0.25}, lr={1: 1e-6})
    page = unescape(page_of(f"/runs/{run.pk}/"))
    assert "<td>lr</td>" not in page and "2 of 3 rows." in page
    assert 'href="/runs/?columns=scalar.loss&columns=scalar.kl&columns=scalar.lr"' in page
    [file] = re.findall(r'href="([^"]*format=csv[^"]*)" download>All values as CSV', page)
    assert "scalar.lr" in page_of(file).splitlines()[0]


def test_scalars_are_drawn_alone_and_zoomed() -> None:
    run = reported("a", loss={step: float(step) for step in range(10)})
    drawn = charts(page_of(f"/runs/curves/?x=step&y=scalar.loss&runs={run.pk}&from=3&to=5"))
    assert [*drawn] == ["scalar.loss"]
    assert [point["x"] for point in drawn["scalar.loss"]["series"][0]["points"]] == [3, 4, 5]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("x=episode&y=return,scalar.loss", "choose a run and this axis"),
        ("x=step&y=return,scalar.lss", "No values of lss here."),
    ],
)
def test_a_note_says_why_a_scalar_is_not_drawn(query: str, text: str) -> None:
    run = reported("a", loss={1: 1.0})
    page = page_of(f"/runs/curves/?{query}&runs={run.pk}")
    assert [*charts(page)] == ["return"] and text in page


def test_a_page_draws_a_limited_number_of_scalars() -> None:
    names = ",".join(f"scalar.s{number}" for number in range(25))
    assert "at most 24 are drawn" in page_of(f"/runs/curves/?y={names}", 400)


def test_the_menu_adds_and_removes_a_scalar() -> None:
    run = reported("a", loss={1: 1.0}, kl={1: 1.0})
    page = page_of(f"/runs/curves/?x=step&y=return,scalar.kl&runs={run.pk}")
    assert "y=return%2Cscalar.kl%2Cscalar.loss" in page  # adds loss
    assert re.search(r'y=return&amp;runs=\d+"[^>]*aria-current="true"[^>]*>kl</a>', page)


def test_the_csv_has_every_step_of_a_scalar() -> None:
    run = reported("a", loss={step: step / 2 for step in range(500)} | {500: math.inf})
    query = f"format=csv&x=step&y=return,scalar.loss&runs={run.pk}"
    rows = list(csv.DictReader(io.StringIO(page_of(f"/runs/curves/?{query}"))))
    values = [(row["x"], row["scalar.loss"]) for row in rows if row["scalar.loss"]]
    assert len(values) == 501 and values[3] == ("3", "1.5") and values[-1] == ("500", "NaN")
    assert rows[0]["mean"] == "1.0" and rows[0]["scalar.loss"] == ""
