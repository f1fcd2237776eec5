"""create_session, create, ping, delete, prompt, messages and task_tools over HTTP."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from typing import Any

import httpx
import pytest
from django.test import Client

from environments import security_log
from episodes.models import Episode
from tests.environments.agents.ors.serving import events, fresh_id, in_database, opened, result
from tests.rows import each

pytestmark = pytest.mark.asyncio(loop_scope="module")

WHOLE = "it must be a whole number from 0 to 4611686018427387904, in digits, such as 12"


async def test_create_session_answers_json(client: httpx.AsyncClient) -> None:
    answer = await client.post("/create_session")
    assert answer.headers["content-type"] == "application/json"
    assert uuid.UUID(answer.json()["sid"]).version == 4


@pytest.mark.parametrize(
    "accept", ["text/event-stream", "text/event-stream, */*", "application/json, text/event-stream"]
)
async def test_create_session_streams_to_clients_that_accept_it(
    client: httpx.AsyncClient, accept: str
) -> None:
    answer = await client.post(
        "/create_session", json={"env": {"x": 1}}, headers={"Accept": accept}
    )
    (first, sid), (last, data) = events(answer.text)
    assert (first, last, json.loads(data)) == ("task_id", "end", {"sid": sid})


async def test_a_whole_episode(client: httpx.AsyncClient) -> None:
    header = {"X-Session-ID": (await client.post("/create_session")).json()["sid"]}
    created = await client.post(
        "/create", json={"env_name": "Echo", "split": "train", "index": 1}, headers=header
    )
    assert created.json() == {"sid": header["X-Session-ID"]}
    [block] = (await client.get("/echo/prompt", headers=header)).json()
    assert block == {"text": "Task train-1.", "detail": None, "type": "text"}
    call = await client.post("/echo/call", json={"name": "finish", "input": {}}, headers=header)
    assert result(call)["output"] == {
        "blocks": [{"text": "bye", "detail": None, "type": "text"}],
        "metadata": None,
        "reward": 0.5,
        "finished": True,
    }
    assert (await client.post("/delete", headers=header)).json() == {"sid": header["X-Session-ID"]}
    assert (await client.post("/ping", headers=header)).status_code == 404


async def test_the_episode_is_on_record(client: httpx.AsyncClient) -> None:
    header = await opened(client, "echo", split="train", index=-1)
    await client.post("/call", json={"name": "finish", "input": {}}, headers=header)
    await client.post("/delete", headers=header)
    episode = await in_database(
        lambda: Episode.objects.select_related("environment", "task").get(
            session_id=header["X-Session-ID"]
        )
    )
    assert (episode.environment.name, episode.cause, episode.steps_count) == ("echo", "finished", 1)
    assert json.loads(episode.task.spec) == {"id": "train-2"}


@pytest.mark.parametrize(
    "body", [{"task_spec": {}}, {"task_spec": {"id": 1}, "env_name": None, "split": None}]
)
async def test_a_task_may_be_sent(client: httpx.AsyncClient, body: Any) -> None:
    answer = await client.post("/create", json=body, headers={"X-Session-ID": fresh_id()})
    assert answer.status_code == 200


@each(
    ("body", "detail"),
    [
        ({}, "Provide either task_spec or both split and index, not both/neither"),
        ({"task_spec": {}, "split": "train", "index": 0}, "Provide either task_spec or both"),
        ({"task_spec": {}, "split": "train"}, "split and index must both be provided together"),
        ({"index": 0}, "Provide either task_spec or both split and index"),
    ],
)
async def test_half_a_task_is_refused(client: httpx.AsyncClient, body: Any, detail: str) -> None:
    answer = await client.post("/create", json=body, headers={"X-Session-ID": fresh_id()})
    assert answer.status_code == 422 and answer.json()["detail"][0]["msg"].startswith(
        f"Value error, {detail}"
    )


@each(
    ("body", "status", "detail"),
    [
        (
            {"env_name": "ehco", "task_spec": {}},
            404,
            "unknown environment 'ehco'; this server hosts 'echo'; did you",
        ),
        ({"env_name": "x" * 10**6, "task_spec": {}}, 404, "unknown environment 'xxx"),
        ({"split": "nope", "index": 0}, 400, "Invalid split 'nope': 'echo' has 'train', 'test'"),
        (
            {"split": "train", "index": 3},
            400,
            "Invalid index 3: split 'train' has 3 tasks, so -3 to 2 are valid",
        ),
        ({"split": "nul\x00", "index": 0}, 400, "Invalid split 'nul\\x00'"),
        (
            {"task_spec": {}, "toolset_name": "zz"},
            400,
            "unknown toolset 'zz'; valid options are []",
        ),
    ],
)
async def test_what_is_not_there_is_refused_and_the_id_stays_free(
    client: httpx.AsyncClient, body: Any, status: int, detail: str
) -> None:
    header = {"X-Session-ID": fresh_id()}
    answer = await client.post("/create", json=body, headers=header)
    assert (
        answer.status_code == status
        and answer.json()["detail"].startswith(detail)
        and len(answer.text) < 3000
    )
    assert (await client.post("/create", json={"task_spec": {}}, headers=header)).status_code == 200


async def test_an_id_is_opened_once(client: httpx.AsyncClient) -> None:
    header = await opened(client)
    answer = await client.post("/create", json={"task_spec": {}}, headers=header)
    assert (answer.status_code, answer.json()) == (400, {"detail": "Session already exists"})


async def test_a_deleted_id_can_be_opened_again(client: httpx.AsyncClient) -> None:
    header = await opened(client)
    await client.post("/delete", headers=header)
    assert (await client.post("/create", json={"task_spec": {}}, headers=header)).status_code == 200


@pytest.mark.parametrize("path", ["/delete", "/delete_session"])
async def test_deleting_the_unknown_is_no_error(client: httpx.AsyncClient, path: str) -> None:
    for _ in range(2):
        answer = await client.post(path, headers={"X-Session-ID": "nobody"})
        assert (answer.status_code, answer.json()) == (200, {"sid": "nobody"})


async def test_delete_session_deletes_too(client: httpx.AsyncClient) -> None:
    header = await opened(client)
    await client.post("/delete_session", headers=header)
    assert (await client.post("/ping", headers=header)).status_code == 404


async def test_ping(client: httpx.AsyncClient) -> None:
    answer = await client.post("/ping", headers=await opened(client))
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@each("sid", ["  padded  ", "snow☃man", "x" * 500, "../../etc", "<b>", "a,b;c=d"])
async def test_any_text_is_an_id(client: httpx.AsyncClient, sid: str) -> None:
    header: Any = {"X-Session-ID": sid.encode()}
    answer = await client.post("/create", json={"task_spec": {}}, headers=header)
    assert (answer.status_code, answer.json()) == (200, {"sid": sid.strip()})
    assert (await client.post("/delete", headers=header)).status_code == 200


@pytest.mark.parametrize("path", ["/messages", "/echo/messages"])
async def test_messages(client: httpx.AsyncClient, path: str) -> None:
    [message] = (await client.get(path, headers=await opened(client))).json()
    assert (message["role"], message["detail"], message["blocks"][0]["text"]) == (
        "user",
        None,
        "Task x.",
    )


@pytest.mark.parametrize("path", ["/task_tools", "/echo/task_tools"])
async def test_task_tools(client: httpx.AsyncClient, path: str) -> None:
    body = (await client.get(path, headers=await opened(client))).json()
    assert [tool["name"] for tool in body["tools"]] == ["echo", "finish"]


# --- secrets and runs -----------------------------------------------------------------------------


def packed(value: Any) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


WRONG_SECRETS = [
    "not base64!",
    "é",
    packed([1]),
    packed({"a": "text"}),
    packed({"a": {}}),
    packed({"a": {"value": 5}}),
    packed({"a": {"value": None}}),
    packed("text"),
    base64.b64encode(b"{").decode(),
    base64.b64encode(b"\xff\xfe").decode(),
    base64.b64encode(b"[" * 40_000).decode(),
]


@each("header", WRONG_SECRETS, ids=range(len(WRONG_SECRETS)))
async def test_malformed_secrets_are_refused_without_repeating_them(
    client: httpx.AsyncClient, header: str
) -> None:
    headers: Any = {"X-Session-ID": fresh_id(), "X-Secrets": header.encode()}
    answer = await client.post("/create", json={"task_spec": {}}, headers=headers)
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        'X-Secrets must be base64 of a JSON object {name: {"value": string}}',
    )


@pytest.mark.parametrize(
    "header", [packed({}), packed({"a": {"value": "b", "allowed_domains": ["*"]}}), ""]
)
async def test_well_formed_secrets_are_taken(client: httpx.AsyncClient, header: str) -> None:
    headers = {"X-Session-ID": fresh_id(), "X-Secrets": header}
    assert (
        await client.post("/create", json={"task_spec": {}, "secrets": {}}, headers=headers)
    ).status_code == 200


@each("secrets", [{"a": 5}, {"a": None}, ["a"], "a", {"a": {"value": "b"}}])
async def test_mistyped_secrets_are_refused_without_repeating_them(
    client: httpx.AsyncClient, secrets: Any
) -> None:
    body = {"task_spec": {}, "secrets": secrets}
    answer = await client.post("/create", json=body, headers={"X-Session-ID": fresh_id()})
    assert answer.status_code == 422
    assert all(problem["input"] is None for problem in answer.json()["detail"])


async def test_a_run_is_named_by_reserved_secrets(client: httpx.AsyncClient) -> None:
    secrets = {
        "orsweb_run": "grpo-7",
        "orsweb_step": "12",
        "orsweb_model": "small",
        "orsweb_seed": "3",
    }
    header = await opened(client, secrets=secrets)
    await client.post("/delete", headers=header)
    episode = await in_database(
        lambda: Episode.objects.select_related("run").get(session_id=header["X-Session-ID"])
    )
    assert episode.run is not None
    assert (episode.run.name, episode.run_step, episode.model) == ("grpo-7", 12, "small")


async def test_a_run_is_named_by_its_header(client: httpx.AsyncClient) -> None:
    headers = {"X-Session-ID": fresh_id(), "X-Run": "eval-1"}
    await client.post("/create", json={"task_spec": {}}, headers=headers)
    await client.post("/delete", headers=headers)
    episode = await in_database(
        lambda: Episode.objects.select_related("run").get(session_id=headers["X-Session-ID"])
    )
    assert episode.run is not None and episode.run.name == "eval-1"


async def test_step_and_model_are_named_by_headers_unless_a_secret_says_otherwise(
    client: httpx.AsyncClient,
) -> None:
    headers = {
        "X-Session-ID": fresh_id(),
        "X-Run": "eval-2",
        "X-Step": "3",
        "X-Model": "klein-ä".encode(),
    }
    body = {"task_spec": {}, "secrets": {"orsweb_step": "4"}}
    assert (await client.post("/create", json=body, headers=headers)).status_code == 200
    await client.post("/delete", headers=headers)
    episode = await in_database(lambda: Episode.objects.get(session_id=headers["X-Session-ID"]))
    assert (episode.run_step, episode.model) == (4, "klein-ä")
    headers = {"X-Session-ID": fresh_id(), "X-Step": "soon"}
    answer = await client.post("/create", json={"task_spec": {}}, headers=headers)
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        f"the training step is 'soon'; {WHOLE}",
    )


@each(
    ("secrets", "detail"),
    [
        ({"orsweb_step": "two"}, f"the training step is 'two'; {WHOLE}"),
        *(
            ({"orsweb_step": text}, f"the training step is {text!r}; {WHOLE}")
            for text in ("-3", "+1", "01", "1_0", "\uff11", "1 0")
        ),
        ({"orsweb_step": "9" * 30}, f"the training step is '{'9' * 30}'; {WHOLE}"),
        ({"orsweb_step": "9" * 5000}, f"the training step is '{'9' * 40}'; {WHOLE}"),
        ({"orsweb_run": "x" * 201}, "The run's name has 201 characters; at most 200 are allowed"),
        (
            {"orsweb_model": "x" * 201},
            "The model's name has 201 characters; at most 200 are allowed",
        ),
        (
            {"ORSWEB_RUN": "x"},
            "The secret 'ORSWEB_RUN' has to be named 'orsweb_run' to describe the run",
        ),
        (
            {"orsweb-step": "1"},
            "The secret 'orsweb-step' has to be named 'orsweb_step' to describe the run",
        ),
    ],
    ids=range(13),
)
async def test_a_bad_run_is_refused(
    client: httpx.AsyncClient, secrets: dict[str, str], detail: str
) -> None:
    body = {"task_spec": {}, "secrets": secrets}
    answer = await client.post("/create", json=body, headers={"X-Session-ID": fresh_id()})
    assert (answer.status_code, answer.json()["detail"]) == (400, detail)


async def test_a_label_that_looks_like_a_field_of_the_run_is_noted(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    secrets = {
        "orsweb_run": "grpo-8",
        "orsweb_run_step": "12",
        "orsweb_modle": "small",
        "orsweb_seed": "3",
    }
    sessions = [await opened(client, secrets=secrets) for _ in range(3)]
    episode = await in_database(lambda: Episode.objects.get(session_id=sessions[0]["X-Session-ID"]))
    await written()
    for field in ("orsweb_step", "orsweb_model"):
        assert caplog.text.count(field) == 1
    pages = [f"/episodes/{episode.pk}/", f"/runs/{episode.run_id}/"]
    shown = [
        (await in_database(lambda url=url: Client().get(url))).content.decode() for url in pages
    ]
    assert all("Did you mean <code>orsweb_step</code>?" in page for page in shown)


async def written() -> None:
    """Let the security log write what it has, as it does when the server stops."""
    await asyncio.to_thread(security_log.stop)
    security_log.start(str)


async def test_labels_that_look_like_fields_of_the_run_make_few_lines(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    await written()
    caplog.clear()
    for number in range(12):
        await opened(
            client,
            secrets={
                "orsweb_run": "grpo-9",
                f"orsweb_model_{number}": "x",
                f"orsweb_{number}_step": "1",
            },
        )
    await written()
    lines = [
        record.getMessage()
        for record in caplog.records
        if "secret_is_no_field_of_the_run" in record.getMessage()
    ]
    assert len(lines) == 2 and "orsweb_model_0 (did you mean orsweb_model?)" in lines[0]
    assert "'count': 11" in lines[1] and "orsweb_1_step (did you mean orsweb_step?)" in lines[1]


async def test_a_runs_header_that_is_no_utf8_is_refused(client: httpx.AsyncClient) -> None:
    headers: Any = {"X-Session-ID": fresh_id(), "X-Run": b"\xff"}
    answer = await client.post("/create", json={"task_spec": {}}, headers=headers)
    assert (answer.status_code, answer.json()["detail"]) == (400, "X-Run is not valid UTF-8")
