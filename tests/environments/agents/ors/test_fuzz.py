"""Random requests: the response is always JSON or a stream, never an internal error, and the server
keeps running."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from environments.agents.ors.urls import ENVIRONMENT_PATHS, ROOT_PATHS
from orsweb.asgi import is_page
from tests.environments.agents.ors.serving import events, opened, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

REQUESTS = 150
FIELDS = [
    "split", "index", "start", "stop", "env_name", "task_spec", "secrets", "toolset_name", "name", "input",
    "task_id", "candidates", "messages", "role", "blocks", "text", "type", "id", "data", "mimeType", "detail",
    "reward", "metadata", "a", "b",
]  # fmt: skip
TEXTS = [
    "",
    "train",
    "test",
    "echo",
    "finish",
    "x" * 5000,
    "\x00",
    "\ud800",
    "\u2028",
    "é☃😀",
    "-1",
    "2.0",
    "\n\nevent: end",
]
NUMBERS = [0, 1, -1, 2.0, 2.5, 1e308, float("nan"), float("inf"), 10**30, -(10**400), -0.0]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(db: None) -> AsyncIterator[httpx.AsyncClient]:
    async with serving("tests.envs:Echo", "tests.envs:Scored", "tests.envs:Procedural") as running:
        yield running


def a_value(dice: random.Random, depth: int = 0) -> Any:
    kind = dice.choice("tnlocb" if depth < 4 else "tncb")
    if kind == "t":
        return dice.choice([*TEXTS, *FIELDS])
    if kind == "n":
        return dice.choice(NUMBERS)
    if kind == "l":
        return [a_value(dice, depth + 1) for _ in range(dice.randrange(4))]
    if kind == "o":
        return {
            dice.choice([*FIELDS, *TEXTS]): a_value(dice, depth + 1)
            for _ in range(dice.randrange(5))
        }
    return dice.choice([None, True, False])


def a_body(dice: random.Random) -> bytes:
    """Return usually an object with known fields, sometimes damaged, sometimes random bytes."""
    fields = dice.sample(FIELDS, dice.randrange(5))
    likely = {
        "split": "train",
        "index": 0,
        "task_spec": {},
        "name": "echo",
        "input": {"text": "x"},
        "candidates": [],
    }
    body = {field: likely.get(field) if dice.random() < 0.5 else a_value(dice) for field in fields}
    content = json.dumps(dice.choice([body, body, body, a_value(dice)])).encode()
    if dice.random() < 0.2:
        position = dice.randrange(len(content) + 1)
        content = (
            content[:position]
            + dice.randbytes(dice.randrange(4))
            + content[position + dice.randrange(3) :]
        )
    return content if dice.random() < 0.95 else dice.randbytes(50)


def a_path(dice: random.Random) -> str:
    word = dice.choice([*ROOT_PATHS, *ENVIRONMENT_PATHS, "nope"])
    front = dice.choice(["", "", "/echo", "/SCORED", "/procedural", "/nobody", "/", "/%00"])
    return f"{front}/{word}{dice.choice(['', '', '', '/', '/more'])}"


def some_headers(dice: random.Random, sids: list[str]) -> dict[str, bytes]:
    headers = {
        "Content-Type": dice.choice([b"application/json"] * 8 + [b"text/plain", b"", b"\xff"])
    }
    if dice.random() < 0.9:
        headers["X-Session-ID"] = dice.choice(
            [*(sid.encode() for sid in sids), b"new-%d" % dice.randrange(20), b"\xff"]
        )
    for name in ("X-Secrets", "X-Deployment", "X-Run", "User-Agent", "Accept", "X-API-Key"):
        if dice.random() < 0.1:
            headers[name] = dice.choice(
                [b"", b"e30=", b"\xff\xfe", b"x" * 3000, b"scored", b"text/event-stream"]
            )
    return headers


def assert_sound(answer: httpx.Response, asked: Any) -> None:
    assert answer.status_code < 500 or is_faulty_class(answer), (
        asked,
        answer.status_code,
        answer.text[:500],
    )
    if answer.headers["content-type"].startswith("text/event-stream"):
        assert events(answer.text)[-1][0] in ("end", "error"), (asked, answer.text[:500])
    elif answer.request.method != "HEAD":
        assert isinstance(answer.json(), dict | list), (asked, answer.text[:500])


def is_faulty_class(answer: httpx.Response) -> bool:
    """Return whether the environment itself failed: Procedural needs the seed, which a random task
    does not have."""
    return answer.status_code == 500 and answer.json()["detail"] != "Internal Server Error"


@pytest.mark.parametrize("seed", range(3))
async def test_no_request_is_the_servers_own_fault(client: httpx.AsyncClient, seed: int) -> None:
    dice = random.Random(seed)
    sids = [
        (await opened(client, name))["X-Session-ID"] for name in ("echo", "scored", "procedural")
    ]
    sids.append((await opened(client, split="train", index=0))["X-Session-ID"])
    for _ in range(REQUESTS):
        method = dice.choice(["POST"] * 8 + ["GET", "GET", "PUT", "HEAD", "OPTIONS"])
        path, content, headers = a_path(dice), a_body(dice), some_headers(dice, sids)
        if is_page(method, path):
            continue
        answer = await client.request(
            method, f"http://localhost{path}", content=content, headers=headers
        )  # type: ignore[arg-type]
        assert_sound(answer, (method, path, content[:500], headers))
    assert (await client.get("/health")).status_code == 200


async def test_a_session_plays_on_after_all_that(client: httpx.AsyncClient) -> None:
    header = await opened(client, "echo")
    answer = await client.post(
        "/call", json={"name": "echo", "input": {"text": "x"}}, headers=header
    )
    assert events(answer.text)[-1][0] == "end"
