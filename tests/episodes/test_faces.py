"""Tests that the page of a question and its JSON in the API refuse a value alike."""

from __future__ import annotations

from html import unescape

import pytest
from django.test import Client

from tests.rows import each
from tests.stored import make_split, make_task

pytestmark = pytest.mark.django_db


QUERIES = {
    ("/episodes/export", "/api/episodes/export"): [
        "format=xlsx",
        "format=csv&run=",
        "format=csv&ending=eaten",
        "format=csv&min_return=high",
        "format=csv&margin=-1",
        "format=csv&success=maybe",
        "format=csv&images=xml",
    ],
    ("/episodes/", "/api/episodes"): [
        "ending=eaten",
        "split=train",
        "sort=luck",
        "after=x",
        "return_from=2&return_to=1",
    ],
    ("/environments/math/leaderboard/", "/api/environments/math/leaderboard"): [
        "split=hard",
        "by=colour",
        "tasks=some",
        "threshold=high",
        "splits=apart",
    ],
    ("/runs/", "/api/runs"): [
        "state=done",
        "after=x",
        "split=hard",
        "splits=apart",
        "return=median",
    ],
    ("/compare/", "/api/compare"): ["runs=nosuch", "runs=1,2&x=luck", "runs=1,2&from=2&to=1"],
    ("/runs/curves/", "/api/curves"): [
        "x=luck",
        "from=2&to=1",
        "to=high",
        "threshold=nan",
        "splits=apart",
        "ending=eaten",
    ],
}
"""Addresses of a page and of the same question in the API, with queries that both refuse."""


@pytest.fixture(autouse=True)
def split() -> None:
    make_split(make_task(), name="train")


@each(
    ("page", "api", "query"),
    [(*addresses, query) for addresses, queries in QUERIES.items() for query in queries],
)
def test_a_bad_value_gets_the_same_sentence_on_the_page_and_in_the_api(
    client: Client, page: str, api: str, query: str
) -> None:
    refusal = client.get(f"{api}?{query}")
    shown = client.get(f"{page}?{query}")
    assert (refusal.status_code, shown.status_code) == (400, 400)
    assert refusal.json()["detail"] in unescape(shown.content.decode())
