"""Discovery: every endpoint, with and without the environment's name in front."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.environments.agents.ors.serving import as_json, raw
from tests.rows import each

pytestmark = pytest.mark.asyncio(loop_scope="module")

TRAIN = [{"id": f"train-{index}"} for index in range(3)]


async def test_health(client: httpx.AsyncClient) -> None:
    answer = await client.get("/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_version(client: httpx.AsyncClient) -> None:
    assert set((await client.get("/version")).json()) == {"version", "build_sha"}


async def test_list_environments(client: httpx.AsyncClient) -> None:
    assert (await client.get("/list_environments")).json() == ["echo"]


@each("path", ["/tools", "/echo/tools", "/ECHO/tools", "//echo//tools", "/Echo//tools"])
async def test_tools(client: httpx.AsyncClient, path: str) -> None:
    body = (await client.get(f"http://localhost{path}")).json()
    assert [set(tool) for tool in body["tools"]] == [{"name", "description", "input_schema"}] * 2
    assert (body["tools"][1]["name"], body["tools"][1]["input_schema"]) == ("finish", None)
    assert (body["terminal_tool"], body["supports_score_group"]) == (None, False)


@pytest.mark.parametrize("path", ["/splits", "/echo/splits"])
async def test_splits(client: httpx.AsyncClient, path: str) -> None:
    expected = [{"name": "train", "type": "train"}, {"name": "test", "type": "test"}]
    assert (await client.get(path)).json() == expected


@pytest.mark.parametrize(
    ("path", "name"), [("/tasks", "echo"), ("/echo/tasks", "echo"), ("/ECHO/tasks", "ECHO")]
)
async def test_tasks(client: httpx.AsyncClient, path: str, name: str) -> None:
    answer = await client.post(path, json={"split": "train"})
    assert (answer.status_code, answer.json()) == (200, {"tasks": TRAIN, "env_name": name})


async def test_num_tasks(client: httpx.AsyncClient) -> None:
    assert (await client.post("/echo/num_tasks", json={"split": "test"})).json() == {"num_tasks": 2}


@each("path", ["/task", "/echo/task", "/get_task", "/echo/get_task"])
@each("index", [2, -1, "2", 2.0])
async def test_task(client: httpx.AsyncClient, path: str, index: Any) -> None:
    answer = await client.post(path, json={"split": "train", "index": index})
    assert (answer.status_code, answer.json()) == (200, {"task": TRAIN[2], "env_name": "echo"})


async def test_true_is_the_index_one(client: httpx.AsyncClient) -> None:
    assert (await client.post("/task", json={"split": "train", "index": True})).json()[
        "task"
    ] == TRAIN[1]


@each("index", [3, -4, 10**30, -(10**30), int("9" * 4000)])
async def test_an_index_beyond_either_end_is_refused(client: httpx.AsyncClient, index: int) -> None:
    answer = await client.post("/echo/task", json={"split": "train", "index": index})
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith(f"Invalid index {str(index)[:39]}")
    assert answer.json()["detail"].endswith("split 'train' has 3 tasks, so -3 to 2 are valid")


@each("index", ["2.5", "null", '"two"', "[2]", "1e400", "NaN", "9" * 5000])
async def test_an_index_that_is_no_number_is_refused(client: httpx.AsyncClient, index: str) -> None:
    answer = await client.post("/task", **raw(f'{{"split": "train", "index": {index}}}'))
    assert answer.status_code == 422 and answer.json()["detail"][0]["loc"][0] == "body"


@each("path", ["/task_range", "/echo/get_task_range"])
@each(
    ("start", "stop", "expected"),
    [
        (None, None, TRAIN),
        (1, None, TRAIN[1:]),
        (None, -1, TRAIN[:-1]),
        (-2, 3, TRAIN[1:]),
        (-(10**30), 10**30, TRAIN),
        (2, 1, []),
        (5, 9, []),
        ("1", 2.0, TRAIN[1:2]),
    ],
)
async def test_task_range(
    client: httpx.AsyncClient, path: str, start: Any, stop: Any, expected: Any
) -> None:
    answer = await client.post(path, json={"split": "train", "start": start, "stop": stop})
    assert (answer.status_code, answer.json()) == (200, {"tasks": expected, "env_name": "echo"})


@each("path", ["/tasks", "/num_tasks", "/task", "/task_range"])
@each("split", ["nope", "", "TRAIN", "nul \x00", "half \ud800 of one", "x" * 100_000])
async def test_an_unknown_split_is_refused_naming_those_there_are(
    client: httpx.AsyncClient, path: str, split: str
) -> None:
    answer = await client.post(
        path, **as_json({"split": split, **({"index": 0} if path == "/task" else {})})
    )
    assert answer.status_code == 400 and answer.json()["detail"].startswith("Invalid split '")
    assert "'echo' has 'train', 'test'" in answer.json()["detail"] and len(answer.text) < 3000


@each("word", ["tools", "splits", "tasks", "prompt", "call"])
async def test_an_unknown_environment_is_refused_with_the_nearest_name(
    client: httpx.AsyncClient, word: str
) -> None:
    answer = await client.get(f"/ehco/{word}")
    assert answer.status_code == 404
    assert answer.json() == {
        "detail": "unknown environment 'ehco'; this server hosts 'echo'; did you mean 'echo'?"
    }
