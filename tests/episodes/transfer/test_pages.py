"""Tests of the export of a filter from the dashboard."""

from __future__ import annotations

import json

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client

from tests.rows import each
from tests.stored import make_environment, make_episode, make_run, make_split, make_step, make_task

pytestmark = pytest.mark.django_db(transaction=True)

EXPORT = "/episodes/export"


async def exported(query: str) -> tuple[str, str, bytes]:
    """Return the file name, media type and content of an export, read as the server reads it."""
    answer = await AsyncClient().get(f"{EXPORT}?{query}")
    content = [piece async for piece in answer.streaming_content]  # type: ignore[attr-defined]
    name = answer.headers["Content-Disposition"].partition('filename="')[2].rstrip('"')
    return name, answer.headers["Content-Type"], b"".join(content)


def test_it_is_a_file_named_after_what_is_in_it() -> None:
    environment = make_environment()
    task = make_task(environment=environment)
    make_step(make_episode(id=1, task=task, split=make_split(task), steps_count=1))
    make_episode(id=2)
    name, kind, content = async_to_sync(exported)(
        "environment=math&split=train&return_from=-1.5&format=jsonl"
    )
    assert (name, kind) == ("episodes-math-train-return_from-1-5.jsonl", "application/jsonl")
    assert [json.loads(line)["id"] for line in content.splitlines()] == [1]


@each(
    ("format", "ending"),
    [
        ("jsonl", "jsonl"),
        ("csv", "csv"),
        ("parquet", "parquet"),
        ("messages", "messages.jsonl"),
        ("pairs", "pairs.jsonl"),
        ("atif", "atif.jsonl"),
        ("harbor", "harbor.zip"),
    ],
)
def test_every_format_is_to_be_had(format: str, ending: str) -> None:
    task = make_task()
    for value in (0.0, 1.0):
        make_step(make_episode(task=task, return_sum=value, steps_count=1))
    name, _, content = async_to_sync(exported)(f"format={format}&ending=attempt")
    assert name == f"episodes-attempt.{ending}" and content


@each("query", ["run=", "run=+", "ids=", "environment=math&model="])
def test_a_blank_filter_does_not_export_everything(query: str) -> None:
    make_episode()
    assert Client().get(f"{EXPORT}?format=jsonl&{query}").status_code == 400


def test_chosen_episodes_are_exported_alone() -> None:
    for number in (1, 2, 3):
        make_episode(id=number)
    _, _, content = async_to_sync(exported)("ids=3,1&format=jsonl")
    assert [json.loads(line)["id"] for line in content.splitlines()] == [1, 3]
    assert async_to_sync(exported)("ids=2&format=csv")[0] == "episode-2.csv"


def test_thresholds_and_a_margin_can_be_given() -> None:
    for number, value in ((1, 0.0), (2, 0.8), (3, 1.0)):
        make_episode(id=number, return_sum=value)
    content = async_to_sync(exported)("min_return=0.5&success=yes&margin=0.2&format=jsonl")[2]
    assert [json.loads(line)["id"] for line in content.splitlines()] == [3]


def test_messages_are_written_as_the_address_says() -> None:
    make_step(make_episode(id=1), input='{"answer":  42}')
    query = "format=messages&arguments=string&tools=text&images=url&final_output=yes"
    call, answer = json.loads(async_to_sync(exported)(query)[2])["messages"]
    assert call["tool_calls"][0]["function"]["arguments"] == '{"answer":  42}'
    assert answer["content"] == [{"type": "text", "text": "42 is right"}]


def test_the_menu_has_each_kind_of_messages(client: Client) -> None:
    make_episode()
    html = client.get("/episodes/?environment=math").content.decode()
    for options in ("", "&amp;images=column", "&amp;arguments=string&amp;images=url"):
        assert f'export?environment=math&amp;format=messages{options}"' in html


def test_those_still_running_are_counted() -> None:
    make_episode(id=1)
    make_episode(id=2, status="running", cause="", ended=None)
    counts = [
        async_to_sync(AsyncClient().get)(f"{EXPORT}?{query}").headers["X-Running-Episodes"]
        for query in ("format=jsonl", "format=jsonl&ids=1", "format=csv&ending=running")
    ]
    assert counts == ["1", "0", "1"]


@each(
    ("query", "words"),
    [
        ("", "allowed are jsonl, csv, parquet, messages, pairs"),
        ("format=xlsx", "allowed are jsonl, csv, parquet, messages, pairs"),
        *(
            (f"format=csv&ids={ids}", "give episode numbers separated by commas")
            for ids in ("1;2", "01", "1,")
        ),
        ("format=csv&ids=" + "1," * 1000 + "1", "up to 1000 are allowed"),
        ("format=csv&colour=red", "no filter has that name"),
        ("format=csv&min_return=high", "min_return"),
        ("format=csv&success=maybe", "allowed are yes, no"),
        ("format=messages&arguments=xml", "allowed are object, string"),
    ],
)
def test_an_invalid_parameter_is_refused_with_what_is_allowed(
    client: Client, query: str, words: str
) -> None:
    answer = client.get(f"{EXPORT}?{query}")
    assert answer.status_code == 400 and words in answer.content.decode()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (
            "format=csv&run=grpo-4",
            "No run is named &#x27;grpo-4&#x27;. Did you mean &#x27;grpo-3&#x27;",
        ),
        ("format=jsonl&ids=7", "No episodes match"),
        ("format=messages", "no conversation"),
        ("format=pairs", "a pair needs two attempts"),
    ],
)
def test_instead_of_an_empty_file_it_says_why(client: Client, query: str, words: str) -> None:
    make_episode(id=1, run=make_run())
    answer = client.get(f"{EXPORT}?{query}")
    assert answer.status_code == 404 and words in answer.content.decode()
