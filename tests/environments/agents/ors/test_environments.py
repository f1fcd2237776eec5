"""Several environments on one server: names, X-Deployment, bare paths, late binding, procedural
classes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.environments.agents.ors.connection import Connection
from tests.environments.agents.ors.serving import error, fresh_id, opened, result, serving
from tests.envs import Endless
from tests.rows import each

pytestmark = pytest.mark.asyncio(loop_scope="module")

ECHO = {"name": "echo", "input": {"text": "x"}}
NAMES = (
    "Echo",
    "SyncEcho",
    "Procedural",
    "FailingConstructor",
    "FailingSetup",
    "FailingPrompt",
    "Terminal",
    "Secretive",
    "Endless",
    "Sparse",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(db: None) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(
        *(f"tests.envs:{name}" for name in NAMES), "second=tests.envs:Echo"
    ) as running:
        yield running


async def test_the_first_is_the_default(client: httpx.AsyncClient) -> None:
    names = (await client.get("/list_environments")).json()
    assert names == [*(name.lower() for name in NAMES), "second"]
    assert (await client.post("/task", json={"split": "train", "index": 0})).json()[
        "env_name"
    ] == "echo"


@each("header", ["second", "SECOND", "owner/Second", "a/b/second"])
async def test_a_deployment_chooses_on_bare_paths(client: httpx.AsyncClient, header: str) -> None:
    answer = await client.post(
        "/task", json={"split": "train", "index": 0}, headers={"X-Deployment": header}
    )
    assert answer.json()["env_name"] == "second"


@each("header", ["nobody", "second/", "", "\xff"])
async def test_an_unknown_deployment_means_the_default(
    client: httpx.AsyncClient, header: str
) -> None:
    headers: Any = {"X-Deployment": header.encode("latin-1")}
    answer = await client.post("/task", json={"split": "train", "index": 0}, headers=headers)
    assert answer.json()["env_name"] == "echo"


async def test_a_path_overrules_the_deployment(client: httpx.AsyncClient) -> None:
    answer = await client.post(
        "/echo/task", json={"split": "train", "index": 0}, headers={"X-Deployment": "second"}
    )
    assert answer.json()["env_name"] == "echo"


async def test_a_deployment_names_the_environment_to_create(client: httpx.AsyncClient) -> None:
    headers = {"X-Session-ID": fresh_id(), "X-Deployment": "owner/syncecho"}
    await client.post("/create", json={"split": "train", "index": 0}, headers=headers)
    answer = await client.post("/echo/call", json=ECHO, headers=headers)
    assert answer.status_code == 409 and "This session plays 'syncecho'" in answer.json()["detail"]


async def test_a_session_without_a_name_plays_what_its_first_path_names(
    client: httpx.AsyncClient,
) -> None:
    headers = {"X-Session-ID": fresh_id()}
    assert (
        await client.post("/create", json={"split": "train", "index": 0}, headers=headers)
    ).status_code == 200
    assert result(await client.post("/SyncEcho/call", json=ECHO, headers=headers))["output"][
        "metadata"
    ]["thread"]
    assert (await client.post("/echo/call", json=ECHO, headers=headers)).status_code == 409


async def test_a_split_of_one_environment_alone_binds_to_that_one(
    client: httpx.AsyncClient,
) -> None:
    headers = {"X-Session-ID": fresh_id()}
    answer = await client.post(
        "/create", json={"split": "train", "index": 999_999}, headers=headers
    )
    assert answer.status_code == 200
    assert (await client.get("/echo/prompt", headers=headers)).status_code == 400
    assert "Invalid index 999999" in error(
        await client.post("/echo/call", json=ECHO, headers=headers)
    )
    assert (await client.get("/procedural/prompt", headers=headers)).status_code == 200


async def test_an_unknown_task_is_refused_at_once(client: httpx.AsyncClient) -> None:
    body = {"split": "train", "index": 1_000_000}
    answer = await client.post("/create", json=body, headers={"X-Session-ID": fresh_id()})
    assert answer.status_code == 400 and answer.json()["detail"].startswith("Invalid index 1000000")


async def test_an_unbound_session_can_be_pinged_and_deleted(client: httpx.AsyncClient) -> None:
    headers = {"X-Session-ID": fresh_id()}
    await client.post("/create", json={"split": "train", "index": 0}, headers=headers)
    assert (await client.post("/ping", headers=headers)).status_code == 200
    assert (await client.post("/delete", headers=headers)).status_code == 200
    assert (await client.post("/ping", headers=headers)).status_code == 404


# --- procedural -----------------------------------------------------------------------------------


async def test_a_procedural_class_lists_nothing(client: httpx.AsyncClient) -> None:
    answer = await client.post("/procedural/tasks", json={"split": "train"})
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith(
        "list_tasks is not supported for this environment. Use the index-based"
    )


async def test_a_procedural_class_is_asked(client: httpx.AsyncClient) -> None:
    assert (await client.post("/procedural/num_tasks", json={"split": "train"})).json() == {
        "num_tasks": 1_000_000
    }
    answer = await client.post("/procedural/task", json={"split": "train", "index": -1})
    assert answer.json()["task"] == {"split": "train", "seed": 999_999}
    answer = await client.post("/procedural/task_range", json={"split": "test", "start": -2})
    assert [task["seed"] for task in answer.json()["tasks"]] == [8, 9]


@pytest.mark.parametrize("index", [1_000_000, -1_000_001, 10**30])
async def test_a_procedural_class_is_not_asked_beyond_its_count(
    client: httpx.AsyncClient, index: int
) -> None:
    answer = await client.post("/procedural/task", json={"split": "train", "index": index})
    assert answer.status_code == 400 and "has 1000000 tasks" in answer.json()["detail"]


@pytest.mark.parametrize("split", ["nope", "nul\x00"])
async def test_a_procedural_class_has_its_splits_only(
    client: httpx.AsyncClient, split: str
) -> None:
    for path, more in (
        ("tasks", {}),
        ("num_tasks", {}),
        ("task", {"index": 0}),
        ("task_range", {}),
    ):
        answer = await client.post(f"/procedural/{path}", json={"split": split, **more})
        assert (
            answer.status_code == 400
            and "'procedural' has 'train', 'test'" in answer.json()["detail"]
        )


async def test_an_endless_range_is_reported_in_pieces_until_the_client_leaves(
    client: httpx.AsyncClient,
) -> None:
    connection = Connection("/endless/task_range", {"split": "big"})
    assert (await connection.piece()).startswith('{"tasks":[{"seed":0},{"seed":1},')
    assert (await connection.piece()).startswith(',{"seed":900},')
    assert (await client.get("/health")).status_code == 200  # meanwhile
    connection.leave()
    await connection.gone()
    asked = Endless.asked
    await client.get("/health")
    assert Endless.asked == asked


async def test_a_range_of_several_pieces_is_one_list(client: httpx.AsyncClient) -> None:
    answer = await client.post("/endless/task_range", json={"split": "big", "start": -2001})
    assert [task["seed"] for task in answer.json()["tasks"]] == list(range(10**12 - 2001, 10**12))
    assert answer.json()["env_name"] == "endless"


async def test_a_short_answer_of_the_class_leaves_no_gap_in_the_list(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.post("/sparse/task_range", json={"split": "big", "stop": 4000})
    assert answer.json()["tasks"] == [{"seed": 1000}, {"seed": 3000}]


async def test_an_empty_range_is_an_empty_list(client: httpx.AsyncClient) -> None:
    answer = await client.post("/endless/task_range", json={"split": "big", "start": 10**12})
    assert answer.text == '{"tasks":[],"env_name":"endless"}'


# --- faults ---------------------------------------------------------------------------------------


async def test_a_failing_constructor_is_reported_at_once_and_the_id_stays_free(
    client: httpx.AsyncClient,
) -> None:
    headers = {"X-Session-ID": fresh_id()}
    answer = await client.post(
        "/create", json={"env_name": "failingconstructor", "task_spec": {}}, headers=headers
    )
    assert (answer.status_code, answer.json()) == (
        500,
        {"detail": "RuntimeError: the constructor gave up"},
    )
    assert (
        await client.post("/create", json={"task_spec": {}}, headers=headers)
    ).status_code == 200


async def test_a_failed_setup_is_reported_to_every_request(client: httpx.AsyncClient) -> None:
    header = await opened(client, "failingsetup")
    for path in ("/prompt", "/messages"):
        answer = await client.get(path, headers=header)
        assert (answer.status_code, answer.json()) == (
            500,
            {"detail": "RuntimeError: the setup gave up"},
        )
    assert (await client.post("/call", json=ECHO, headers=header)).status_code == 500
    assert (await client.post("/call", json={"wrong": 1}, headers=header)).status_code == 500
    assert (await client.post("/ping", headers=header)).status_code == 200


async def test_a_failed_prompt_leaves_the_session(client: httpx.AsyncClient) -> None:
    header = await opened(client, "failingprompt")
    answer = await client.get("/prompt", headers=header)
    assert (answer.status_code, answer.json()) == (
        500,
        {"detail": "RuntimeError: the prompt gave up"},
    )
    assert result(await client.post("/call", json={"name": "finish", "input": {}}, headers=header))[
        "ok"
    ]


async def test_a_terminal_tool_is_named_and_hidden(client: httpx.AsyncClient) -> None:
    for path in ("/terminal/tools", "/terminal/task_tools"):
        body = (await client.get(path, headers=await opened(client, "terminal"))).json()
        assert [tool["name"] for tool in body["tools"]] == ["look"]
        assert body["terminal_tool"] == {
            "name": "submit",
            "arg": "text",
            "description": "Grade the final message.",
        }


async def test_after_the_end_nothing_runs(client: httpx.AsyncClient) -> None:
    header = await opened(client, "terminal")
    assert result(
        await client.post("/call", json={"name": "submit", "input": {"text": "42"}}, headers=header)
    )["ok"]
    refused = result(await client.post("/call", json={"name": "look", "input": {}}, headers=header))
    assert refused["reason"] == "episode_finished" and refused["error"].startswith(
        "'look' was not run: the episode"
    )
    assert (await client.get("/prompt", headers=header)).status_code == 200


async def test_reserved_secrets_never_reach_the_environment(client: httpx.AsyncClient) -> None:
    header = await opened(
        client, "secretive", secrets={"orsweb_run": "r", "token": "t", "other": "o"}
    )
    answer = result(await client.post("/call", json={"name": "names", "input": {}}, headers=header))
    assert answer["output"]["blocks"][0]["text"] == "other,token"


async def test_a_secret_of_the_body_overrules_the_header(client: httpx.AsyncClient) -> None:
    # token: header, other: o
    packed = "eyJ0b2tlbiI6IHsidmFsdWUiOiAiaGVhZGVyIn0sICJvdGhlciI6IHsidmFsdWUiOiAibyJ9fQ=="
    headers = {"X-Session-ID": fresh_id(), "X-Secrets": packed}
    body = {"env_name": "secretive", "task_spec": {}, "secrets": {"token": "body"}}
    await client.post("/create", json=body, headers=headers)
    answer = result(
        await client.post("/call", json={"name": "reveal", "input": {}}, headers=headers)
    )
    assert answer["output"]["metadata"] == {"token": "body"}
