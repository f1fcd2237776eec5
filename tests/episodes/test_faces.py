"""Tests that the page of a question and its JSON in the API refuse a value alike."""

from __future__ import annotations

from html import unescape

import pytest
from django.test import Client

from tests.rows import each

pytestmark = pytest.mark.django_db


@each(
    ("page", "api", "query"),
    [
        *(
            ("/episodes/export", "/api/episodes/export", f"format=csv&{query}")
            for query in (
                "format=xlsx",
                "run=",
                "ending=eaten",
                "min_return=high",
                "margin=-1",
                "success=maybe",
                "images=xml",
            )
        ),
    ],
)
def test_a_bad_value_gets_the_same_sentence_on_the_page_and_in_the_api(
    client: Client, page: str, api: str, query: str
) -> None:
    refusal = client.get(f"{api}?{query}")
    shown = client.get(f"{page}?{query}")
    assert (refusal.status_code, shown.status_code) == (400, 400)
    assert refusal.json()["detail"] in unescape(shown.content.decode())
