"""Tasks of remote environments: short lists are read in pieces, long ones by index."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from environments.errors import EnvironmentFault, InvalidIndex
from environments.hosts.remote_tasks import MAX_LISTED_TASKS
from tests.environments.hosts.lying_server import LyingServer, RemotePlay, answer
from tests.environments.listings import collected

RANGE, COUNT, TASK = "POST /wild/task_range", "POST /wild/num_tasks", "POST /wild/task"


@pytest.fixture
async def server() -> AsyncIterator[LyingServer]:
    async with LyingServer() as running:
        running.answers[RANGE] = _slice
        yield running


def _slice(body: dict[str, Any]) -> bytes:
    return answer({"tasks": [{"n": n} for n in range(body["start"], body["stop"])]})


async def test_a_list_is_read_in_pieces(server: LyingServer) -> None:
    server.answers[COUNT] = answer({"num_tasks": 2000})
    async with RemotePlay(server) as play:
        texts = await play.remote.tasks().listing("train")
    assert (len(texts), texts[1999]) == (2000, '{"n":1999}')
    assert [body["stop"] for body in server.asked(RANGE)] == [900, 1800, 2000]


async def test_a_long_list_is_not_read(server: LyingServer) -> None:
    server.answers[COUNT] = answer({"num_tasks": MAX_LISTED_TASKS + 1})
    server.answers[TASK] = lambda body: answer({"task": {"n": body["index"]}})
    async with RemotePlay(server) as play:
        tasks = play.remote.tasks()
        with pytest.raises(NotImplementedError):
            await tasks.listing("train")
        assert await tasks.get("train", 70_000) == '{"n":70000}'
        assert await tasks.count("train") == MAX_LISTED_TASKS + 1
        assert await collected(tasks.range("train", -2, None)) == ['{"n":99999}', '{"n":100000}']
    assert len(server.asked(RANGE)) == 1


async def test_a_server_without_numbers_is_asked_for_the_whole_list(server: LyingServer) -> None:
    del server.answers[COUNT]
    server.answers["POST /wild/tasks"] = answer({"tasks": [{"n": 5}], "env_name": "wild"})
    async with RemotePlay(server) as play:
        assert await play.remote.tasks().listing("train") == ['{"n":5}']


async def test_a_task_of_a_server_without_single_tasks_is_a_range_of_one(
    server: LyingServer,
) -> None:
    server.answers[COUNT] = answer({"num_tasks": MAX_LISTED_TASKS + 1})
    async with RemotePlay(server) as play:
        tasks = play.remote.tasks()
        assert [await tasks.get("train", index) for index in (70_000, -1)] == [
            '{"n":70000}',
            '{"n":100000}',
        ]
        with pytest.raises(InvalidIndex):
            await tasks.get("train", MAX_LISTED_TASKS + 1)


async def test_an_index_that_the_server_refuses_is_invalid(server: LyingServer) -> None:
    server.answers[TASK] = answer({"detail": "Invalid index"}, 400)
    async with RemotePlay(server) as play:
        with pytest.raises(InvalidIndex):
            await play.remote.tasks().get("train", 9)


@pytest.mark.parametrize(
    ("path", "response", "words"),
    [
        (
            RANGE,
            answer({"tasks": [{}]}),
            "was asked for 2 tasks of split 'train' from index 0, and sent 1",
        ),
        (RANGE, answer({"tasks": [1, 2]}), "task 0 of its answer to /task_range is no JSON object"),
        (RANGE, answer({"tasks": "ab"}), "answered /task_range without a list of tasks"),
        (RANGE, answer([]), "answered /task_range with list, not an object"),
        (RANGE, answer('{"tasks": [{"a": NaN}, {}]}'), "is not valid JSON (NaN is not JSON)"),
        (COUNT, answer({"num_tasks": -1}), "says that split 'train' has -1 tasks"),
        (COUNT, answer({"num_tasks": True}), "says that split 'train' has True tasks"),
        ("GET /wild/splits", answer([]), "[] is no list of splits"),
        ("GET /wild/splits", answer([{"name": "a", "type": "odd"}]), "type: Input should be"),
        ("GET /wild/splits", answer(["a", "a"]), "with the name 'a', twice or too long"),
        ("GET /wild/tools", answer({"tools": [{"description": "x"}]}), "name: Field required"),
        (
            "GET /wild/tools",
            answer({"tools": [{"name": 5}]}),
            "name: Input should be a valid string",
        ),
        ("GET /wild/tools", answer({"tools": None}), "its tools aren't a list"),
        ("GET /wild/tools", answer("[]"), "sent a list of tools that is not valid"),
        (
            "GET /wild/tools",
            answer({"detail": "no"}, 401),
            "answered GET /wild/tools with status 401: no",
        ),
    ],
)
async def test_a_wrong_description_names_the_server(
    server: LyingServer, path: str, response: bytes, words: str
) -> None:
    server.answers[path] = response
    with pytest.raises(EnvironmentFault) as raised:
        async with RemotePlay(server) as play:
            await play.remote.tasks().listing("train")
    assert words in raised.value.text
    assert f"http://127.0.0.1:{server.port}" in raised.value.text
