"""Calls over HTTP: the content of the stream, lost connections, and requests for the same result
again."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from episodes.models import Step
from tests.environments.agents.ors.connection import Connection
from tests.environments.agents.ors.serving import (
    error,
    events,
    in_database,
    opened,
    result,
    serving,
)
from tests.environments.runtime.play import until
from tests.envs import GATES, PASSED
from tests.rows import each

pytestmark = pytest.mark.asyncio(loop_scope="module")

ENVIRONMENTS = [
    f"tests.envs:{name}" for name in ("Gated", "Counter", "Raises", "Slow", "SlowSetup", "Scored")
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(db: None) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(*ENVIRONMENTS, ORSWEB_KEEPALIVE=0.05, ORSWEB_RESULT_LINGER=600.0) as running:
        yield running


@pytest.fixture(autouse=True)
def gates() -> Any:
    GATES.clear()
    PASSED.clear()
    yield
    for gate in GATES.values():
        gate.set()


def call(tool: str, *, task_id: str | None = None, **input: Any) -> dict[str, Any]:
    return {"name": tool, "input": input, **({"task_id": task_id} if task_id is not None else {})}


async def count(client: httpx.AsyncClient, header: dict[str, str], **more: Any) -> str:
    answer = await client.post("/call", json=call("count", **more), headers=header)
    return str(result(answer)["output"]["blocks"][0]["text"])


def without_comments(text: str) -> str:
    """Return a stream without comments, as if no call took long: on a busy machine any call may."""
    return re.sub(r"^:.*\n\n", "", text, flags=re.MULTILINE)


async def test_a_fast_call_is_one_body(client: httpx.AsyncClient) -> None:
    answer = await client.post("/call", json=call("count"), headers=await opened(client, "counter"))
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert {
        answer.headers[name] for name in ("cache-control", "x-accel-buffering", "connection")
    } >= {
        "no",
        "keep-alive",
    }
    (_, task_id), (_, data) = events(answer.text)
    assert (
        without_comments(answer.text)
        == f"event: task_id\ndata: {task_id}\n\nevent: end\ndata: {data}\n\n"
    )
    assert len(task_id) == 32 and json.loads(data)["ok"] is True


async def test_a_slow_call_is_a_stream_with_comments(client: httpx.AsyncClient) -> None:
    connection = Connection("/call", call("hold", gate="a"), await opened(client, "gated"))
    assert (await connection.piece()).startswith("event: task_id\ndata: ")
    assert (await connection.piece()).startswith(": ping - 20")
    GATES["a"].set()
    *_, end = (await connection.rest()).strip().split("\n\n")
    assert end.startswith('event: end\ndata: {"ok":true')


async def test_a_stream_opens_before_setup_has_ended(client: httpx.AsyncClient) -> None:
    header = await opened(client, "slowsetup", task_spec={"seconds": 30})
    connection = Connection("/call", call("echo", text="x"), header)
    assert (await connection.piece()).startswith("event: task_id")
    await client.post("/delete", headers=header)
    assert (await connection.rest()).endswith("event: error\ndata: Session deleted\n\n")


async def test_the_accept_header_does_not_matter(client: httpx.AsyncClient) -> None:
    headers = {**await opened(client, "counter"), "Accept": "application/json"}
    assert result(await client.post("/call", json=call("count"), headers=headers))["ok"] is True


async def test_a_long_result_comes_in_pieces_that_no_reader_spoils(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.post("/call", json=call("blanks"), headers=await opened(client, "raises"))
    pieces = [data for kind, data in events(answer.text) if kind in ("chunk", "end")]
    assert len(pieces) > 5 and answer.text.isascii()
    assert all(0 < len(piece) <= 4096 and piece == piece.strip() for piece in pieces)
    text = json.loads("".join(pieces))["output"]["blocks"][0]["text"]
    assert text == "\u2028 \u0085\t\r\n" * 3000


@pytest.mark.parametrize("size", [65_000, 70_000, 3_000_000])
async def test_a_large_result_arrives_whole(client: httpx.AsyncClient, size: int) -> None:
    answer = await client.post(
        "/call", json=call("huge", size_bytes=size), headers=await opened(client, "raises")
    )
    assert result(answer)["output"]["blocks"][0]["text"] == "x" * size


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("fault", "the valve is stuck"),
        ("silent_fault", "ValueError"),
        ("cancelled", "CancelledError"),
        ("stops", "over"),
        ("wrong_type", "'wrong_type' returned str; expected ToolOutput"),
    ],
)
async def test_a_fault_is_an_error_event(client: httpx.AsyncClient, tool: str, text: str) -> None:
    assert (
        error(await client.post("/call", json=call(tool), headers=await opened(client, "raises")))
        == text
    )


async def test_a_task_id_gets_the_same_result_again(client: httpx.AsyncClient) -> None:
    header = await opened(client, "counter")
    assert [await count(client, header, task_id="mine") for _ in range(2)] == ["1", "1"]
    assert await count(client, header) == "2"


@each("task_id", ["trace-123", "snow☃", "a b", "x" * 255, "<b>", "nul\x00", "half \ud800"])
async def test_any_text_is_a_task_id(client: httpx.AsyncClient, task_id: str) -> None:
    header = {**await opened(client, "counter"), "Content-Type": "application/json"}
    body = json.dumps(call("count", task_id=task_id))
    answers = [await client.post("/call", content=body, headers=header) for _ in range(2)]
    assert (
        len({without_comments(answer.text) for answer in answers}) == 1
        and result(answers[0])["ok"] is True
    )


@each("task_id", ["a\nb", "a\r\nevent: end\r\n\r\n", "a\rb\u2028c\u0085d", "\n\nevent: error\n\n"])
async def test_a_task_id_forges_no_event(client: httpx.AsyncClient, task_id: str) -> None:
    answer = await client.post(
        "/call", json=call("count", task_id=task_id), headers=await opened(client, "counter")
    )
    lines = without_comments(answer.text).splitlines()
    assert [line for line in lines if line.startswith("event:")] == ["event: task_id", "event: end"]
    assert all(line == "" or line.startswith(("event: ", "data: ")) for line in lines)


async def test_an_overlong_task_id_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.post(
        "/call", json=call("count", task_id="x" * 256), headers=await opened(client, "counter")
    )
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        "task_id has 256 characters; at most 255 are allowed",
    )


async def test_an_empty_task_id_is_none(client: httpx.AsyncClient) -> None:
    header = await opened(client, "counter")
    assert [await count(client, header, task_id="") for _ in range(2)] == ["1", "2"]


async def test_a_client_that_left_gets_the_same_run_by_its_id(client: httpx.AsyncClient) -> None:
    header = await opened(client, "gated")
    lost = Connection("/call", call("hold", gate="a"), header)
    task_id = (await lost.piece()).split()[-1]
    lost.leave()
    await lost.gone()
    GATES["a"].set()
    assert result(
        await client.post("/call", json=call("hold", gate="a", task_id=task_id), headers=header)
    )["ok"]
    assert PASSED.count("hold a starts") == 1


async def test_a_client_that_left_gets_the_same_run_by_repeating(client: httpx.AsyncClient) -> None:
    header = await opened(client, "gated")
    lost = Connection("/call", call("hold", gate="a"), header)
    await lost.piece()
    lost.leave()
    await lost.gone()
    GATES["a"].set()
    assert result(await client.post("/call", json=call("hold", gate="a"), headers=header))["ok"]
    assert PASSED.count("hold a starts") == 1


async def test_a_fast_call_whose_client_left_is_adopted(client: httpx.AsyncClient) -> None:
    header = await opened(client, "counter")
    lost = Connection("/call", call("count"), header)
    lost.leave()
    await lost.gone()
    assert [await count(client, header) for _ in range(2)] == ["1", "2"]


async def test_a_rejoined_call_is_not_returned_to_the_next_request(
    client: httpx.AsyncClient,
) -> None:
    header = await opened(client, "counter")
    lost = Connection("/call", call("count", task_id="mine"), header)
    lost.leave()
    await lost.gone()
    assert await count(client, header, task_id="mine") == "1"
    assert await count(client, header) == "2"


async def test_a_request_that_a_balancer_sends_once_more_starts_nothing(
    client: httpx.AsyncClient,
) -> None:
    header = await opened(client, "counter")
    first, other = ({**header, "X-Orsweb-Request": name} for name in ("one", "other"))
    assert [await count(client, one) for one in (first, first, other, first)] == [
        "1",
        "1",
        "2",
        "1",
    ]
    assert await count(client, {**header, "X-Orsweb-Request": "x" * 256}) == "3"
    await client.post("/delete", headers=header)
    assert await count(client, other) == "2"


async def test_a_client_that_left_before_its_body_came_starts_nothing(
    client: httpx.AsyncClient,
) -> None:
    header = await opened(client, "counter")
    lost = Connection("/call", b'{"name": "count", ', header, more_body=True)
    lost.leave()
    await lost.gone()
    assert await count(client, header) == "1"


async def test_a_body_in_pieces_is_put_together(client: httpx.AsyncClient) -> None:
    connection = Connection(
        "/call", b'{"name": "count", ', await opened(client, "counter"), more_body=True
    )
    connection.feed(b'"input"', more_body=True)
    connection.feed(b": {}}")
    assert "event: end" in await connection.rest()


async def test_every_call_is_a_step(client: httpx.AsyncClient) -> None:
    header = await opened(client, "raises")
    for tool, input in (
        ("echo", {"text": "a"}),
        ("fault", {}),
        ("nope", {}),
        ("echo", {"text": 5}),
        ("lookup", {}),
    ):
        await client.post("/call", json=call(tool, **input), headers=header)
    steps = await in_database(
        lambda: list(
            Step.objects.filter(episode__session_id=header["X-Session-ID"])
            .order_by("index")
            .values_list("index", "tool", "status", "reason")
        )
    )
    assert steps == [
        (0, "echo", "ok", ""),
        (1, "fault", "failed", "RuntimeError"),
        (2, "nope", "refused", "not_found"),
        (3, "echo", "refused", "input_validation"),
        (4, "lookup", "refused", "tool_error"),
    ]


async def test_after_the_delete_a_call_is_reported_from_the_record(
    client: httpx.AsyncClient,
) -> None:
    header = await opened(client, "counter")
    first = await client.post("/call", json=call("count", task_id="mine"), headers=header)
    await client.post("/delete", headers=header)
    again = await client.post("/call", json=call("count", task_id="mine"), headers=header)
    assert events(again.text) == events(first.text)
    assert (await client.post("/call", json=call("count"), headers=header)).status_code == 404


async def test_a_hung_tool_gets_comments_until_the_delete(client: httpx.AsyncClient) -> None:
    header = await opened(client, "gated")
    connection = Connection("/call", call("hold", gate="never"), header)
    pieces = [await connection.piece() for _ in range(3)]
    assert [piece[0] for piece in pieces] == ["e", ":", ":"]
    await client.post("/delete", headers=header)
    assert (await connection.rest()).endswith("event: error\ndata: Session deleted\n\n")


async def test_a_slow_tool_delays_no_other_session(client: httpx.AsyncClient) -> None:
    await client.post("/ping", headers=(mine := await opened(client, "counter")))
    jams = [
        Connection("/call", call("block", gate="jam"), await opened(client, "gated"))
        for _ in range(20)
    ]
    await until(lambda: PASSED)
    assert await count(client, mine) == "1"
    GATES["jam"].set()
    for jam in jams:
        assert "event: end" in await jam.rest()


# --- group scores ---------------------------------------------------------------------------------

CANDIDATE = {"messages": [{"role": "assistant", "blocks": [{"type": "text", "text": "four"}]}]}


async def test_a_group_is_scored(client: httpx.AsyncClient) -> None:
    answer = await client.post(
        "/scored/score_group",
        json={"candidates": [CANDIDATE, CANDIDATE]},
        headers=await opened(client, "scored"),
    )
    kind, data = events(answer.text)[-1]
    scores = [{"reward": 4.0, "metadata": {"rank": 1}}, {"reward": 4.0, "metadata": None}]
    assert (kind, json.loads(data)) == ("end", {"scores": scores})


async def test_a_wrong_number_of_scores_is_an_error_event(client: httpx.AsyncClient) -> None:
    header = await opened(client, "scored", task_spec={"drop": True})
    answer = await client.post("/score_group", json={"candidates": [CANDIDATE]}, headers=header)
    assert error(answer) == "score_group returned 0 scores for 1 candidates"


async def test_an_environment_without_it_scores_no_group(client: httpx.AsyncClient) -> None:
    answer = await client.post(
        "/score_group", json={"candidates": []}, headers=await opened(client, "counter")
    )
    assert (answer.status_code, answer.json()["detail"]) == (
        404,
        "Environment 'counter' does not implement score_group",
    )


@pytest.mark.parametrize(
    "block",
    [{"type": "text"}, {"type": "tool_result", "tool_call_id": "1", "blocks": []}, {"type": "x"}],
)
async def test_a_wrong_candidate_is_refused(client: httpx.AsyncClient, block: Any) -> None:
    wrong = {"candidates": [{"messages": [{"role": "assistant", "blocks": [block]}]}]}
    answer = await client.post("/score_group", json=wrong, headers=await opened(client, "scored"))
    assert answer.status_code == 422
