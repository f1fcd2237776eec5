"""Tests of what all responses of the API have in common."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.episodes.api.asking import get
from tests.rows import each
from tests.stored import make_environment

pytestmark = pytest.mark.django_db

LISTS = ["environments", "tasks", "runs", "episodes", "curves"]


@each("path", LISTS)
@each("method", ["post", "put", "patch", "delete", "options"])
def test_it_only_reads(path: str, method: str) -> None:
    response = getattr(Client(enforce_csrf_checks=True), method)(f"/api/{path}")
    assert (response.status_code, response["Allow"]) == (405, "GET, HEAD")
    assert "GET" in response.json()["detail"]


@each("path", ["nothing", "episodes/x", "episodes/1/nothing", "episodes/", "environments/no/thing"])
def test_an_unknown_address_gets_an_error_in_json(path: str) -> None:
    assert "/api/" in get(path, 404)["detail"]


@each("path", ["episodes/7", "tasks/7", "runs/7", "episodes/7/steps", "episodes/7/events"])
def test_an_unknown_number_is_an_error(path: str) -> None:
    assert "7" in get(path, 404)["detail"]


@pytest.mark.parametrize("path", ["episodes", "tasks", "runs"])
def test_a_number_beyond_64_bits_is_not_found(path: str) -> None:
    assert str(2**64) in get(f"{path}/{2**64}", 404)["detail"]


@each(
    ("path", "field"),
    [
        ("episodes?colour=red", "colour"),
        ("episodes?ending=eaten", "ending"),
        ("episodes?limit=0", "limit"),
        ("episodes?limit=many", "limit"),
        ("episodes?after=x", "after"),
        ("episodes?sort=colour", "sort"),
        ("episodes?split=train", "split"),
        ("tasks?limit=501", "limit"),
        ("tasks?colour=red", "colour"),
        ("tasks?split=train", "split"),
        ("tasks?after=-1", "after"),
        ("runs?after=%F0%9F%98%80", "after"),
        ("environments?limit=1", "limit"),
        ("curves?x=colour", "x"),
        ("curves?points=501", "points"),
        ("curves?from=nan", "from"),
        ("curves?threshold=high", "threshold"),
        ("environments/math/leaderboard?by=colour", "by"),
        ("environments/math/leaderboard?split=dev", "split"),
        ("environments/math/leaderboard?return=median", "return"),
    ],
)
def test_a_parameter_that_is_wrong_is_named_with_its_value_and_what_is_allowed(
    path: str, field: str
) -> None:
    make_environment("math")
    answer = get(path, 400)
    assert answer["field"] == field
    assert answer["value"] in answer["detail"] and answer["allowed"] in answer["detail"]


@each("accept", ["text/html", "application/xml", "text/event-stream", "*/*", "nonsense"])
def test_it_answers_json_whatever_is_accepted(accept: str) -> None:
    assert get("environments", accept=accept) == []


def test_an_empty_record_is_accepted() -> None:
    assert get("episodes")["results"] == get("tasks")["results"] == get("runs")["results"] == []
    assert get("curves")["points"] == []


def test_head_has_no_body() -> None:
    assert Client().head("/api/episodes").content == b""
