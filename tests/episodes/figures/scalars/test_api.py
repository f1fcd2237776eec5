"""Tests of /api/scalars, and of the scalars in PUT /api/runs/by-name/{name}."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from episodes.models import Run, ScalarSeries
from tests.episodes.api.asking import get
from tests.episodes.figures.runs.test_api import put
from tests.stored import make_episode, make_run

pytestmark = pytest.mark.django_db

LAB, HOME = {"X-API-Key": "lab-key-1"}, {"X-API-Key": "home-key-1"}


def report(points: Any, status: int = 200, run: str = "grpo-3", **headers: str) -> Any:
    """Return the response to POST /api/scalars. `points`: [(step, {name: value})]."""
    rows = [{"step": step, "scalars": scalars} for step, scalars in points]
    return post({"run": run, "points": rows}, status, **headers)


def post(body: Any, status: int = 200, **headers: str) -> Any:
    response = Client().post(
        "/api/scalars", json.dumps(body), content_type="application/json", headers=headers
    )
    assert response.status_code == status, response.content
    return response.json()


def scalars(run: str = "grpo-3", **parameters: Any) -> dict[str, Any]:
    query = urlencode({"run": run, **parameters}, doseq=True)
    return {row["name"]: row for row in get(f"scalars?{query}")["scalars"]}


def test_a_batch_is_read_again_by_step() -> None:
    report([(2, {"loss": 0.25, "kl": 1}), (1, {"loss": 0.5})])
    assert [(row["step"], row["mean"]) for row in scalars(name="loss")["loss"]["points"]] == [
        (1, 0.5),
        (2, 0.25),
    ]
    listed = scalars()
    assert list(listed) == ["kl", "loss"] and listed["loss"]["points"] == []
    assert (listed["loss"]["count"], listed["loss"]["last"], listed["loss"]["last_step"]) == (
        2,
        0.25,
        2,
    )


def test_a_batch_begins_the_run_and_leaves_its_step() -> None:
    report([(7, {"loss": 1.0})])
    assert (Run.objects.get().state, Run.objects.get().step) == ("running", None)
    put("grpo-3", {"step": 3})
    report([(9, {"loss": 1.0})])
    assert Run.objects.get().step == 3


def test_a_value_that_comes_again_replaces_the_first() -> None:
    report([(1, {"loss": 0.5}), (2, {"loss": 0.4})])
    report([(1, {"loss": 0.7})])
    row = scalars(name="loss")["loss"]
    assert [point["mean"] for point in row["points"]] == [0.7, 0.4]
    assert (row["count"], row["last"]) == (2, 0.4)


def test_values_that_are_no_numbers_are_gaps() -> None:
    report([(1, {"loss": 0.5}), (2, {"loss": "NaN"}), (3, {"loss": None, "lr": "-Infinity"})])
    row = scalars(name="loss")["loss"]
    assert [(point["mean"], point["gaps"]) for point in row["points"]] == [
        (0.5, 0),
        (None, 1),
        (None, 1),
    ]
    assert (row["gaps"], row["last"], row["last_step"]) == (2, None, 3)


def test_a_description_brings_scalars_of_its_step() -> None:
    put("grpo-3", {"step": 12, "scalars": {"loss": 0.5}}, 201)
    put("grpo-3", {"scalars": {"kl": 0.1}})
    rows = scalars(name=["loss", "kl"])
    assert [rows[name]["points"][0]["step"] for name in ("loss", "kl")] == [12, 12]


def test_scalars_need_a_step() -> None:
    answer = put("grpo-3", {"scalars": {"loss": 0.5}}, 400).json()
    assert answer["field"] == "scalars" and 'send "step"' in answer["detail"]
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ([], "has to be a JSON object"),
        ({"run": "a", "points": {}}, "points"),
        ({"run": "a", "points": [], "step": 3}, "step"),
        ({"run": "a", "points": [{"step": 1}]}, "points[0]"),
        ({"run": "a", "points": [{"step": -1, "scalars": {}}]}, "points[0].step"),
        ({"run": "a", "points": [{"step": 1, "scalars": {"loss": "x"}}]}, "points[0].scalars.loss"),
        ({"run": "a", "points": [{"step": 1, "scalars": {"loss": True}}]}, "has to be a number"),
        ({"run": "a", "points": [{"step": 1, "scalars": {"a,b": 1}}]}, "no comma"),
        ({"run": "a", "points": [{"step": 1, "scalars": {"a" * 101: 1}}]}, "1 to 100 characters"),
        ({"run": " ", "points": []}, "the name of a run"),
    ],
)
def test_a_batch_that_is_refused_says_where_and_why(body: Any, text: str) -> None:
    assert text in post(body, 400)["detail"]
    assert not Run.objects.exists()


def test_a_request_has_a_limit_of_values_and_a_run_of_names() -> None:
    assert "10,000" in report([(step, {"loss": 1}) for step in range(10_001)], 400)["detail"]
    report([(1, {f"s{number}": 1 for number in range(500)})])
    assert "500" in report([(1, {"loss": 1})], 400)["detail"]
    assert not ScalarSeries.objects.filter(name="loss").exists()


@pytest.mark.usefixtures("keys")
def test_another_key_neither_reads_nor_changes_them() -> None:
    report([(1, {"loss": 0.5})], **LAB)
    report([(1, {"loss": 9})], 404, **HOME)
    get("scalars?run=grpo-3&name=loss", 404, **HOME)
    assert get("scalars?run=grpo-3&name=loss", **LAB)["scalars"][0]["points"][0]["mean"] == 0.5


def test_scalars_go_with_their_run() -> None:
    report([(1, {"loss": 0.5})])
    Run.objects.get().delete()
    assert not ScalarSeries.objects.exists()


def test_a_curve_has_as_many_points_as_are_wanted() -> None:
    make_episode(run=make_run())
    report([(step, {"loss": step}) for step in range(3000)])
    points = scalars(name="loss", points=100)["loss"]["points"]
    assert len(points) == 100
    assert points[0] == {
        "step": 0, "step_to": 29, "n": 30, "gaps": 0, "mean": 14.5, "low": 0.0, "high": 29.0
    }  # fmt: skip
    part = scalars(name="loss", **{"from": 10.5, "to": 13})["loss"]["points"]
    assert [point["step"] for point in part] == [11, 12, 13]
