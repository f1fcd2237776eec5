"""Tests of the export of episodes in the API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.http import StreamingHttpResponse
from django.test import Client

from episodes.models import Note
from tests.episodes.api.asking import get
from tests.rows import each
from tests.stored import make_blob, make_episode, make_step, make_task

pytestmark = [
    pytest.mark.django_db(transaction=True),
    # the test reads what a server would send
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse"),
]


def file(query: str, **headers: str) -> tuple[Any, bytes]:
    response = Client().get(f"/api/episodes/export?{query}", headers=headers)
    assert isinstance(response, StreamingHttpResponse) and response.status_code == 200
    return response, b"".join(response)


@each("format", ["jsonl", "csv", "parquet", "messages", "pairs", "atif", "harbor"])
def test_each_format_is_a_file_with_a_name(format: str) -> None:
    task = make_task()
    for value in (0.0, 1.0):
        make_step(make_episode(task=task, return_sum=value, steps_count=1))
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


def test_those_still_running_are_counted() -> None:
    make_episode()
    make_episode(status="running", cause="", ended=None)
    response, body = file("format=csv")
    assert response["X-Running-Episodes"] == "1" and len(body.splitlines()) == 3


@pytest.mark.parametrize(
    "format", ["jsonl", "csv", "parquet", "messages", "pairs", "atif", "harbor"]
)
def test_instead_of_an_empty_file_it_says_why(format: str) -> None:
    assert "nothing to export" in get(f"episodes/export?format={format}", 404)["detail"]
    make_episode()
    assert (
        "No run is named 'grpo-4'"
        in get(f"episodes/export?format={format}&run=grpo-4", 400)["detail"]
    )


def test_a_conversation_needs_a_call_and_a_pair_two_attempts() -> None:
    make_episode()
    assert "no conversation" in get("episodes/export?format=messages", 404)["detail"]
    assert "a pair needs two attempts" in get("episodes/export?format=pairs", 404)["detail"]


@pytest.mark.usefixtures("keys")
def test_an_export_for_a_key_has_no_notes() -> None:
    Note.objects.create(
        episode=make_episode(key_label="lab"), author="ada", text="this agent is odd"
    )
    assert b"odd" not in file("", **{"X-API-Key": "lab-key-1"})[1]


def test_an_export_for_a_person_has_notes() -> None:
    Note.objects.create(episode=make_episode(), author="ada", text="this agent is odd")
    assert b"this agent is odd" in file("")[1]


def test_messages_are_written_as_the_address_says() -> None:
    make_step(make_episode())
    _, body = file("format=messages&arguments=string")
    assert (
        json.loads(body)["messages"][0]["tool_calls"][0]["function"]["arguments"]
        == '{"answer": 42}'
    )
    assert "object, string" in get("episodes/export?format=messages&arguments=xml", 400)["allowed"]


@pytest.mark.usefixtures("keys")
def test_a_key_gets_no_prompt_from_an_episode_of_another_key() -> None:
    task = make_task()
    make_episode(
        task=task, key_label="home", prompt=make_blob('[{"type": "text", "text": "2 + 2?"}]')
    )
    make_step(make_episode(task=task, key_label="lab"))
    assert b"2 + 2?" not in file("format=messages", **{"X-API-Key": "lab-key-1"})[1]


def test_errors_are_reported_before_anything_is_sent() -> None:
    assert "parquet" in get("episodes/export?format=docx", 400)["allowed"]
    assert get("episodes/export?ending=eaten", 400)["field"] == "ending"
    assert "it is blank" in get("episodes/export?run=", 400)["detail"]
