"""Files of episodes from the API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.http import StreamingHttpResponse
from django.test import Client

from tests.episodes.api.asking import get
from tests.stored import make_episode, make_step

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse"),  # the test reads what a server would send
]


def file(query: str, **headers: str) -> tuple[Any, bytes]:
    response = Client().get(f"/api/episodes/export?{query}", headers=headers)
    assert isinstance(response, StreamingHttpResponse) and response.status_code == 200
    return response, b"".join(response)


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet", "messages", "pairs"])
def test_each_format_is_a_file_with_a_name(format: str) -> None:
    make_step(make_episode(end_number=1, steps_count=1))
    response, _ = file(f"format={format}")
    assert response["Content-Disposition"].startswith('attachment; filename="episodes.')


def test_it_holds_what_the_filter_finds() -> None:
    make_episode()
    found = make_episode(model="m")
    _, body = file("model=m")
    assert [json.loads(line)["id"] for line in body.splitlines()] == [found.pk]


@pytest.mark.usefixtures("keys")
def test_a_key_exports_its_own() -> None:
    make_episode(key_label="home")
    own = make_episode(key_label="lab")
    _, body = file("", **{"X-API-Key": "lab-key-1"})
    assert [json.loads(line)["id"] for line in body.splitlines()] == [own.pk]


def test_what_is_wrong_is_told_before_anything_is_sent() -> None:
    assert "parquet" in get("episodes/export?format=docx", 400)["allowed"]
    assert get("episodes/export?ending=eaten", 400)["field"] == "ending"
