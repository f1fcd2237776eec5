"""Tests of POST /v1/rollouts: events in any order, twice, large, and wrong."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
import time
import uuid
from typing import Any

import httpx
import pytest
from django.test import Client
from openreward.api.rollouts.serializers.ant import serialize_anthropic_message
from openreward.api.rollouts.serializers.gdm import serialize_gdm_message
from openreward.api.rollouts.serializers.models import NormalizedEvent
from openreward.api.rollouts.serializers.oai_responses import serialize_openai_response
from openreward.models import LogMessageEvent

from episodes.models import Blob
from episodes.rollups.follower import catch_up
from tests.environments.agents.ors.serving import in_database, opened, serving
from tests.episodes.platform_api.uploading import (
    NOW_MS,
    message,
    messages_of,
    rollout,
    stored,
    update,
    upload,
)
from tests.provider_types import google_types
from tests.rows import each

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.asyncio(loop_scope="module")]
KEY = "alice-key-0123456789"


def new_id() -> str:
    return str(uuid.uuid4())


async def test_it_stores_a_rollout_and_its_messages(client: httpx.AsyncClient) -> None:
    one = new_id()
    start = rollout(
        one,
        timestamp=int(time.time() * 1000),
        environment="acme/Echo",
        split="train",
        step=7,
        rolloutName="first",
        run_info={"model_name": "model-x", "model_params": 8, "training_stage": "rl"},
        task_spec={"id": 1},
        surprise=[1],
    )
    call = message(one, 1, "tool_call", name="echo", callId="c1", content='{"text":"hi"}')
    result = message(
        one, 2, "tool_result", callId="c1", reward=0.5, isFinished=True, metadata={"tokens": 3}
    )
    answer = await upload(client, start, message(one, 0, "user_message"), call, result)
    assert (answer.status_code, answer.json()) == (200, {"stored": 4, "ignored": 0, "refused": []})
    row = await stored(one)
    assert row.run is not None
    assert (row.run.name, row.run.model, row.run_step) == ("grpo", "model-x", 7)
    assert (row.environment, row.environment_name, row.split, row.name) == (
        "acme/Echo",
        "echo",
        "train",
        "first",
    )
    assert (row.model, row.model_params, row.training_stage) == ("model-x", 8, "rl")
    assert row.event_object["surprise"] == [1]
    assert (row.is_announced, row.problem) == (True, "")
    first, second, third = await messages_of(one)
    assert (first.kind, first.text, first.response_characters) == ("user_message", "text 0", 0)
    assert (second.name, second.call_id, second.response_characters) == ("echo", "c1", 13)
    assert (third.reward, third.is_finished, third.extra_object) == (
        0.5,
        True,
        {"metadata": {"tokens": 3}},
    )


@each("odd", [{"\ud800": "x"}, {"k": "\ud800"}, {"k": [{"a\0": 1}]}])
async def test_characters_that_no_database_stores_are_replaced_in_objects(
    client: httpx.AsyncClient, odd: Any
) -> None:
    one = new_id()
    events = [
        rollout(one, timestamp=int(time.time() * 1000), metadata=odd, run_info=odd),
        message(one, 0, metadata=odd, more=odd),
        update(one, 3, **odd),
    ]
    assert (await upload(client, *events)).json()["stored"] == 3
    row, (text,) = await stored(one), await messages_of(one)
    assert (row.problem, text.problem) == (
        "metadata had characters that cannot be stored; run_info had characters that cannot be "
        "stored",
        "metadata or an unknown field had characters that cannot be stored",
    )
    assert all(
        "\ufffd" in str(value) for value in (row.event_object, row.info_object, text.extra_object)
    )
    page = await in_database(lambda: Client().get(f"/conversations/{one}/"))
    assert page.status_code == 200


async def test_it_stores_everything_once_in_any_order(client: httpx.AsyncClient) -> None:
    one = new_id()
    events = [
        rollout(one),
        *(message(one, index) for index in range(20)),
        update(one, NOW_MS, task_index=3),
    ]
    for seed in range(3):
        shuffled = random.Random(seed).sample(events, len(events))
        for event in shuffled:
            assert (await upload(client, event)).status_code == 200
    assert [row.index for row in await messages_of(one)] == list(range(20))
    assert (await stored(one)).task_index == 3


async def test_it_marks_a_rollout_that_was_never_announced(client: httpx.AsyncClient) -> None:
    one = new_id()
    await upload(client, message(one, 0), update(one, NOW_MS, task_index=3))
    assert not (await stored(one)).is_announced
    await upload(client, rollout(one, environment="a/b"))
    row = await stored(one)
    assert (row.is_announced, row.task_index, row.environment_name) == (True, 3, "b")


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
async def test_the_latest_value_of_each_key_wins(
    client: httpx.AsyncClient, order: list[int]
) -> None:
    one = new_id()
    events = [
        rollout(one, rollout_info={"task_index": 1, "harness": "h"}),
        update(one, NOW_MS + 5, task_index=2, duration_ms=10),
        update(one, NOW_MS + 9, duration_ms=20, current_step=4),
    ]
    for number in order:
        await upload(client, events[number])
    row = await stored(one)
    assert row.info_object == {
        "task_index": 2,
        "harness": "h",
        "duration_ms": 20,
        "current_step": 4,
    }
    assert (row.task_index, row.run_step) == (2, 4)


async def test_equal_times_end_equally_in_any_order(client: httpx.AsyncClient) -> None:
    infos = []
    for order in ([1, 2, 1], [2, 1, 2]):
        one = new_id()
        for value in order:
            await upload(client, update(one, NOW_MS, num_compactions=value))
        infos.append((await stored(one)).info_object)
    assert infos[0] == infos[1]


async def test_it_refuses_updates_whose_numbers_would_be_null(client: httpx.AsyncClient) -> None:
    one = new_id()
    answer = await upload(client, message(one, 0), update(one, NOW_MS, score=float("nan")))
    assert answer.json()["stored"] == 1
    assert (
        answer.json()["refused"][0]["reason"]
        == "rollout_info.score isn't a finite number, and would be null."
    )


async def test_unknown_types_of_events_are_ignored(client: httpx.AsyncClient) -> None:
    answer = await upload(client, {"eventType": "heartbeat"}, {"eventType": "a type of next year"})
    assert (answer.status_code, answer.json()) == (200, {"stored": 0, "ignored": 2, "refused": []})


async def test_it_says_what_cannot_be_stored_and_stores_the_rest(client: httpx.AsyncClient) -> None:
    one = new_id()
    answer = await upload(
        client, 5, {"eventType": "rollout"}, {"eventType": "message", "index": 1}, message(one, 0)
    )
    assert answer.status_code == 200
    assert [refused["position"] for refused in answer.json()["refused"]] == [0, 1, 2]
    assert len(await messages_of(one)) == 1
    assert (await upload(client, 5)).status_code == 422


@each("body", ["", "{", "[]", "{}", '{"events": {}}', '{"events": ' + "[" * 500 + "]" * 500 + "}"])
async def test_it_refuses_a_body_that_is_no_upload(client: httpx.AsyncClient, body: str) -> None:
    answer = await client.post(
        "/v1/rollouts", content=body, headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, set(answer.json())) == (422, {"detail", "message"})


async def test_it_refuses_what_a_foreign_page_could_send(client: httpx.AsyncClient) -> None:
    answer = await client.post(
        "/v1/rollouts", content='{"events": []}', headers={"Content-Type": "text/plain"}
    )
    assert answer.status_code == 422


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"index": None}, "no valid index"),
        ({"index": -3}, "no valid index"),
        ({"index": "1"}, "no valid index"),
        ({"index": 2**70}, "no valid index"),
        ({"index": 1.5}, "no valid index"),
        ({"isFinished": "yes"}, "isFinished wasn't true or false"),
        ({"eventId": None}, "no eventId"),
        ({"timestamp": "now"}, "no valid timestamp"),
        ({"timestamp": float("nan")}, "no valid timestamp"),
        ({"reward": float("nan")}, "reward wasn't a finite number"),
        ({"reward": 10**400}, "reward wasn't a finite number"),
        ({"reward": "1"}, "reward wasn't a finite number"),
        ({"content": {"a": 1}}, "content wasn't a text"),
        ({"content": "a\0b"}, "content had characters that cannot be stored"),
        ({"content": "\ud800"}, "content had characters that cannot be stored"),
        ({"name": 5}, "name wasn't a text"),
        ({"callId": ["x"]}, "callId wasn't a text"),
        ({"metadata": {"a": {"b": float("inf")}}}, "metadata.a.b wasn't a finite number"),
        ({"usage": {"cost": float("nan")}}, "usage.cost wasn't a finite number"),
    ],
)
async def test_it_stores_a_wrong_message_and_marks_it(
    client: httpx.AsyncClient, fields: dict[str, Any], problem: str
) -> None:
    one = new_id()
    assert (await upload(client, message(one, 0, **fields))).status_code == 200
    assert (await upload(client, message(one, 1))).status_code == 200
    marked = {row.problem for row in await messages_of(one)}
    assert marked == {problem, ""}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"metadata": {"a": "\ud800", "b": "\0", "c": [float("nan")]}},
            "metadata had characters that cannot be stored; metadata.c.0 wasn't a finite number",
        ),
        ({"metadata": {"a": "NaN 1e400", "n": 10**400}}, ""),
        ({"task_spec": {"\ud800": "\0"}}, "task_spec had characters that cannot be stored"),
        ({"runName": "r\0\ud800"}, "runName had characters that cannot be stored"),
        ({"environment": "a/\ud800\0b"}, "environment had characters that cannot be stored"),
        ({"split": "s" * 201}, "split had more than 200 characters"),
        (
            {"run_info": "no object", "step": "x"},
            "step wasn't a whole number; run_info wasn't an object",
        ),
        (
            {"rollout_info": 5, "environment": 7},
            "environment wasn't a text; rollout_info wasn't an object",
        ),
    ],
)
async def test_it_stores_a_rollout_with_strange_values_and_marks_it(
    client: httpx.AsyncClient, fields: dict[str, Any], problem: str
) -> None:
    one = new_id()
    assert (
        await upload(client, rollout(one, timestamp=int(time.time() * 1000), **fields))
    ).status_code == 200
    row = await stored(one)
    assert row.is_announced and row.problem == problem


@pytest.mark.parametrize("one", ["a\0b", "x" * 500, "\ud800", "é"])
async def test_it_stores_rollouts_of_any_id(client: httpx.AsyncClient, one: str) -> None:
    assert (await upload(client, message(one, 0, eventId=one), rollout(one))).json()["stored"] == 2


@pytest.mark.parametrize("hours", [1, -1])
async def test_it_reports_a_clock_that_is_wrong(client: httpx.AsyncClient, hours: int) -> None:
    one = new_id()
    await upload(client, rollout(one, timestamp=int((time.time() + hours * 3600) * 1000)))
    assert "clock is 3" in (await stored(one)).problem


async def test_it_stores_a_message_of_ten_megabytes(client: httpx.AsyncClient) -> None:
    one = new_id()
    text = "é" * 5_000_000
    assert (
        await upload(client, message(one, 0, content=text), message(one, 1, summary="s" * 9000))
    ).status_code == 200
    first, second = await messages_of(one)
    assert (first.text, len(second.summary_text), first.content, second.summary) == (
        text,
        9000,
        "",
        "",
    )
    assert await in_database(lambda: Blob.objects.filter(size_bytes=10_000_000).count()) == 1


async def test_it_stores_bodies_of_thirty_megabytes(client: httpx.AsyncClient) -> None:
    one = new_id()
    events = [message(one, index, content=f"{index} " + "x" * 100_000) for index in range(300)]
    assert (await upload(client, *events)).json()["stored"] == 300
    assert [row.index for row in await messages_of(one)] == list(range(300))


async def test_batches_that_arrive_together_are_all_stored(client: httpx.AsyncClient) -> None:
    one = new_id()
    batches = [[message(one, start + n) for n in range(64)] for start in range(0, 64 * 30, 64)]
    answers = await asyncio.gather(
        *(upload(client, *batch) for batch in batches), upload(client, rollout(one))
    )
    assert {answer.status_code for answer in answers} == {200}
    assert len(await messages_of(one)) == 64 * 30


async def test_it_refuses_other_methods(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/rollouts")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


async def test_the_same_id_of_two_keys_is_two_rollouts_and_keys_are_masked(db: None) -> None:
    one, other = new_id(), "bob-key-9876543210"
    keys = {"alice": KEY, "bob": other}
    async with serving("tests.envs:Echo", ORSWEB_API_KEYS=keys) as guarded:
        assert (await upload(guarded, rollout(one))).status_code == 401
        await upload(
            guarded,
            rollout(one, metadata={"key": KEY}),
            message(one, 0, content=f"my {KEY}"),
            key=KEY,
        )
        await upload(guarded, message(one, 0), key=other)
        rows = await messages_of(one)
    assert {row.text for row in rows} == {"my ********", "text 0"}
    assert len({row.rollout_id for row in rows}) == 2
    assert KEY not in json.dumps([(await _of_alice(one)).event, *(row.text for row in rows)])


async def test_it_masks_secrets_of_sessions(client: httpx.AsyncClient) -> None:
    one = new_id()
    await opened(client, "echo", secrets={"token": 'tök"en-0123456789'})
    await upload(
        client,
        message(one, 0, content='a tök"en-0123456789', metadata={"deep": ['tök"en-0123456789']}),
    )
    [row] = await messages_of(one)
    assert (row.text, row.extra_object) == ("a ********", {"metadata": {"deep": ["********"]}})


async def _of_alice(one: str) -> Any:
    from episodes.models import Rollout

    return await in_database(lambda: Rollout.objects.get(event_id=one, key_label="alice"))


# --- tokens that the recorder repeats on each part of a response ----------------------------------

ANTHROPIC: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "Halve it.", "signature": "x"},
    {"type": "text", "text": "Let me guess 5."},
    {"type": "tool_use", "id": "c1", "name": "guess", "input": {"number": 5}},
]
OPENAI: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs1", "summary": [{"type": "summary_text", "text": "Halve it."}]},
    {
        "type": "message",
        "id": "m1",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Five."}],
    },
    {
        "type": "function_call",
        "id": "f1",
        "call_id": "c1",
        "name": "guess",
        "arguments": '{"number":5}',
    },
]
GOOGLE: list[dict[str, Any]] = [
    {"text": "Halve it.", "thought": True, "thought_signature": b"x"},
    {"function_call": {"id": "c1", "name": "guess", "args": {"number": 5}}},
]


def of_anthropic() -> list[NormalizedEvent]:
    return list(serialize_anthropic_message({"role": "assistant", "content": ANTHROPIC}))  # type: ignore[typeddict-item]


def of_openai() -> list[NormalizedEvent]:
    return [serialize_openai_response(item) for item in OPENAI]  # type: ignore[arg-type, misc]


def of_google() -> list[NormalizedEvent]:
    content = google_types().Content.model_validate({"role": "model", "parts": GOOGLE})
    return list(serialize_gdm_message(content))


def logged(
    rollout_id: str, index: int, part: NormalizedEvent, metadata: dict[str, Any]
) -> dict[str, Any]:
    """Return the event that the recorder sends for a part of a response."""
    event = LogMessageEvent(
        eventId=new_id(),
        timestamp=NOW_MS + index,
        index=index,
        rolloutEventId=rollout_id,
        type=part.type,
        content=part.content,
        contentReference=part.content_reference,
        summary=part.summary,
        name=part.name,
        callId=part.call_id,
        metadata=metadata,
    )
    return dataclasses.asdict(event)


@pytest.mark.parametrize("parts_of", [of_anthropic, of_openai, of_google])
async def test_tokens_of_a_response_with_reasoning_count_once(
    client: httpx.AsyncClient, parts_of: Any
) -> None:
    one, parts = new_id(), parts_of()
    assert [parts[0].type, parts[-1].type] == ["reasoning", "tool_call"]
    events: list[dict[str, Any]] = []
    for turn in range(3):
        metadata = {"usage": {"input_tokens": 100 + turn, "output_tokens": 20}}
        events += [
            logged(one, len(events) + index, part, metadata) for index, part in enumerate(parts)
        ]
        events.append(message(one, len(events), "tool_result", callId="c1"))
    assert (await upload(client, rollout(one), *events)).json()["refused"] == []
    await in_database(catch_up)
    row = (await client.get("/api/rollouts")).json()["results"][0]
    assert (row["event_id"], row["messages"]) == (one, len(events))
    assert (row["usage"]["input_tokens"], row["usage"]["output_tokens"]) == (303, 60)
