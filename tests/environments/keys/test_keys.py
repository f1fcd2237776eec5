"""API keys of the database at the doors for agents: scopes, restrictions, expiry, revocation and
last use."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
import pytest_asyncio
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F
from django.utils import timezone
from structlog.testing import capture_logs

from environments.keys.keyring import Keyring, ring
from environments.keys.stored_keys import change_key, make_key, revoke_key, rotate_key
from environments.models import ApiKey
from environments.service import KEY_GONE
from episodes.models import Episode
from tests.environments.agents.ors.serving import fresh_id, in_database, serving
from tests.rows import each

pytestmark = pytest.mark.asyncio(loop_scope="module")

DEADLINE_SECONDS = 60.0
"""Only a server that never reads its keys again makes a test wait so long; `REFRESH_SECONDS` says
how often it does."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(db: None) -> AsyncIterator[httpx.AsyncClient]:
    hosted = ("tests.envs:Counter", "tests.envs:Echo", "tests.envs:Slow")
    async with serving(*hosted, ORSWEB_REQUIRE_KEYS=True) as running:
        yield running


async def key(name: str, scopes: str = "play", **values: Any) -> dict[str, str]:
    """Make a key, wait until the server knows it, and return the header that sends it."""
    _, text = await in_database(lambda: make_key(name, scopes=scopes.split(), **values))
    return {"X-API-Key": text}


async def status_becomes(
    client: httpx.AsyncClient, headers: dict[str, str], status: int
) -> httpx.Response:
    """Return the first answer to /version with `status`."""
    until = time.monotonic() + DEADLINE_SECONDS
    while (answer := await client.get("/version", headers=headers)).status_code != status:
        assert time.monotonic() < until, answer.text
        await asyncio.sleep(0.02)
    return answer


async def known(
    client: httpx.AsyncClient, name: str, scopes: str = "play", **values: Any
) -> dict[str, str]:
    headers = await key(name, scopes, **values)
    await status_becomes(client, headers, 200)
    return headers


async def ended(label: str) -> Episode:
    """Return the episode of the key once its end is recorded."""
    until = time.monotonic() + DEADLINE_SECONDS
    while not (episode := await in_database(lambda: Episode.objects.get(key_label=label))).cause:
        assert time.monotonic() < until
        await asyncio.sleep(0.02)
    return episode


async def row(name: str) -> ApiKey:
    return await in_database(lambda: ApiKey.objects.get(name=name))


async def create(client: httpx.AsyncClient, headers: dict[str, str], **body: Any) -> httpx.Response:
    body = {"env_name": "counter", **(body if "split" in body else {"task_spec": {}, **body})}
    return await client.post("/create", json=body, headers={"X-Session-ID": fresh_id(), **headers})


async def test_a_key_made_while_the_server_runs_is_let_in_within_a_second(
    client: httpx.AsyncClient,
) -> None:
    await status_becomes(client, await key("new"), 200)


async def test_a_key_is_also_taken_as_a_bearer_token(client: httpx.AsyncClient) -> None:
    text = (await known(client, "bearer"))["X-API-Key"]
    assert (
        await client.get("/tools", headers={"Authorization": f"Bearer {text}"})
    ).status_code == 200


async def test_only_the_hash_of_a_key_is_stored(client: httpx.AsyncClient) -> None:
    text = (await key("hashed"))["X-API-Key"]
    stored = await row("hashed")
    assert text not in repr(vars(stored)) and len(text) > 43 and text.startswith(stored.hint)


@each(
    ("scopes", "method", "path", "needed"),
    [
        ("read", "POST", "/create", "'play'"),
        ("record read", "POST", "/counter/tasks", "'play' or 'curate'"),
        ("read", "POST", "/mcp/counter", "'play'"),
        ("play", "POST", "/v1/rollouts", "'record'"),
        ("play", "GET", "/v1/runs", "'read'"),
        ("play", "GET", "/api/episodes", "'read'"),
        ("play", "PUT", "/api/runs/by-name/x", "'record'"),
    ],
)
async def test_a_door_refuses_a_key_without_its_scope(
    client: httpx.AsyncClient, scopes: str, method: str, path: str, needed: str
) -> None:
    headers = await known(client, f"scopes {scopes} {path} {method}", scopes)
    answer = await client.request(method, path, json={}, headers=headers)
    assert answer.status_code == 403
    assert (
        f"needs the scope {needed} for this; it has: {scopes.replace(' ', ', ')}"
        in answer.text.replace("\\u0027", "'")
    )


async def test_a_key_sees_the_environments_that_it_may_use(client: httpx.AsyncClient) -> None:
    headers = await known(client, "echo only", environments=["Echo"])
    assert (await client.get("/list_environments", headers=headers)).json() == ["echo"]


@pytest.mark.parametrize("path", ["/counter/tools", "/mcp/counter", "/v1/environments/me/counter"])
async def test_another_environment_is_refused(client: httpx.AsyncClient, path: str) -> None:
    headers = await known(client, f"echo only {path}", environments=["echo"])
    method = "POST" if "mcp" in path else "GET"
    answer = await client.request(method, path, headers=headers)
    assert answer.status_code == 403 and "it may use 'echo'" in answer.text


async def test_a_session_that_names_no_environment_gets_one_that_the_key_may_use(
    client: httpx.AsyncClient,
) -> None:
    headers = {**await known(client, "late", environments=["echo"]), "X-Session-ID": fresh_id()}
    body = {"split": "train", "index": 0}
    assert (await client.post("/create", json=body, headers=headers)).status_code == 200
    assert (await client.get("/task_tools", headers=headers)).json()["tools"][0]["name"] == "echo"


async def test_another_split_is_refused(client: httpx.AsyncClient) -> None:
    headers = await known(client, "test only", splits=["test"])
    answers = [
        await create(client, headers, split="train", index=0),
        await client.post("/echo/tasks", json={"split": "train"}, headers=headers),
    ]
    assert [answer.status_code for answer in answers] == [403, 403]
    assert "may not use the split 'train'; it may use 'test'" in answers[0].json()["detail"]


async def test_a_key_of_some_splits_opens_no_task_that_it_brings_itself(
    client: httpx.AsyncClient,
) -> None:
    headers = await known(client, "splits, no specs", splits=["train"])
    answer = await create(client, headers, task_spec={"answer": "mine"})
    assert answer.status_code == 403 and "by split and index" in answer.json()["detail"]


async def test_a_key_of_a_run_records_that_run(client: httpx.AsyncClient) -> None:
    headers = await known(client, "of a run", run="grpo-7")
    assert (await create(client, headers)).status_code == 200
    episode = await in_database(
        lambda: Episode.objects.select_related("run").get(key_label="of a run")
    )
    assert episode.run is not None and episode.run.name == "grpo-7"


async def test_a_key_of_a_run_describes_each_run_of_that_name(client: httpx.AsyncClient) -> None:
    headers = await known(client, "of runs", "play record", run="grpo-9")
    url = "/api/runs/by-name/grpo-9"
    for _ in range(2):
        assert (
            await client.put(url, json={"state": "running"}, headers=headers)
        ).status_code == 201
        answer = await client.put(url, json={"state": "ended"}, headers=headers)
    assert answer.json()["name"] == "grpo-9 (2)"
    answer = await client.put(f"{url}%20(2)", json={"notes": "done"}, headers=headers)
    assert answer.json()["notes"] == "done"
    assert (await client.put(f"{url}%20(3)", json={}, headers=headers)).status_code == 403


async def test_a_key_of_a_run_refuses_another(client: httpx.AsyncClient) -> None:
    headers = await known(client, "of another run", "play record", run="grpo-8")
    event = {"eventType": "rollout", "eventId": "e1", "runName": "other", "timestamp": 1}
    answers = [
        await create(client, {**headers, "X-Run": "other"}),
        await client.post("/v1/rollouts", json={"events": [event]}, headers=headers),
        await client.put("/api/runs/by-name/other", json={}, headers=headers),
    ]
    assert [answer.status_code for answer in answers] == [403, 403, 403]
    assert "belongs to the run 'grpo-8'" in answers[0].json()["detail"]


async def test_a_key_expires(client: httpx.AsyncClient) -> None:
    headers = await key("brief", expires=timezone.now() + timedelta(seconds=0.6))
    answer = await status_becomes(client, headers, 401)
    assert answer.json()["detail"].startswith("X-API-Key ")


async def test_a_key_stops_with_its_owners_account(client: httpx.AsyncClient) -> None:
    owner = await in_database(lambda: User.objects.create_user("leaver"))
    headers = await known(client, "of a leaver", owner=owner)
    await in_database(lambda: User.objects.filter(pk=owner.pk).update(is_active=False))
    assert "not active" in (await status_becomes(client, headers, 401)).json()["detail"]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite stores dates that are none")
async def test_a_row_that_cannot_be_read_does_not_end_the_reading_of_keys(
    client: httpx.AsyncClient,
) -> None:
    headers = await known(client, "beside a broken row")
    broken = await in_database(lambda: make_key("broken row", scopes=["play"])[0])
    with capture_logs() as logged:
        await in_database(lambda: _write_expiry(broken, "2026-13-45 00:00:00"))
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not any(entry["event"] == "keys_not_read" for entry in logged):  # noqa: ASYNC110  # written by a thread
                await asyncio.sleep(0.02)
    await in_database(lambda: _write_expiry(broken, None))
    await in_database(lambda: revoke_key(ApiKey.objects.get(name="beside a broken row"), "me"))
    await status_becomes(client, headers, 401)


def _write_expiry(key: ApiKey, text: str | None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE environments_apikey SET expires = %s, version = version + 1 WHERE id = %s",
            [text, key.pk],
        )


async def test_a_revoked_key_is_refused_within_a_second_and_its_session_ends(
    client: httpx.AsyncClient,
) -> None:
    headers = {**await known(client, "revoked"), "X-Session-ID": fresh_id()}
    await client.post("/create", json={"env_name": "slow", "task_spec": {}}, headers=headers)
    call = asyncio.create_task(
        client.post("/slow/call", json={"name": "wait", "input": {"seconds": 30}}, headers=headers)
    )
    await asyncio.sleep(0)
    assert await in_database(lambda: revoke_key(ApiKey.objects.get(name="revoked"), "me"))
    assert "was revoked" in (await status_becomes(client, headers, 401)).json()["detail"]
    assert KEY_GONE in (await asyncio.wait_for(call, DEADLINE_SECONDS)).text
    episode = await ended("revoked")
    assert (episode.cause, episode.detail) == ("interrupted", KEY_GONE)


async def test_what_is_open_with_the_old_text_of_a_key_ends_and_its_sessions_stay(
    client: httpx.AsyncClient,
) -> None:
    headers = await known(client, "rotated")
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    opened = await client.post("/mcp/echo", json=message, headers=headers)
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "Accept": "text/event-stream"}
    old = ring.named("rotated")
    assert old is not None and ring.current(old) is old
    lost = list[set[str]]()
    ring.listen(lost.append)
    stream = asyncio.create_task(client.get("/mcp/echo", headers=headers | session))
    new = {"X-API-Key": await in_database(lambda: rotate_key(ApiKey.objects.get(name="rotated")))}
    assert (await asyncio.wait_for(stream, DEADLINE_SECONDS)).status_code in (200, 401)
    await status_becomes(client, headers, 401)
    assert ring.current(old) is None and {"rotated"} in lost
    assert (
        await client.post("/ping", headers=new | {"X-Session-ID": session["Mcp-Session-Id"]})
    ).status_code == 200


@each("values", [{"environments": [2]}, {"scopes": 5}, {"splits": {"a": 1}}, {"quotas": ["x"]}])
async def test_a_row_that_cannot_be_understood_is_refused_and_other_keys_go_on(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture, values: dict[str, Any]
) -> None:
    name = f"odd {next(iter(values))}"
    headers, other = await known(client, name), await known(client, f"beside {name}")
    rows = ApiKey.objects.filter(name=name)
    await in_database(lambda: rows.update(**values, version=F("version") + 1))
    await status_becomes(client, headers, 401)
    await known(client, f"after {name}")
    await in_database(lambda: revoke_key(ApiKey.objects.get(name=f"beside {name}"), "me"))
    await status_becomes(client, other, 401)
    keys = Keyring()
    caplog.clear()
    for _ in range(2):
        await in_database(keys.read)
    lines = [record.getMessage() for record in caplog.records]
    assert sum("key_not_understood" in line and f"'{name}'" in line for line in lines) == 1
    await in_database(rows.delete)


async def test_a_key_that_may_do_less_loses_its_sessions_within_a_second(
    client: httpx.AsyncClient,
) -> None:
    headers = await known(client, "narrowed")
    assert (await create(client, headers)).status_code == 200
    await in_database(
        lambda: change_key(ApiKey.objects.get(name="narrowed"), environments=["echo"])
    )
    assert (await ended("narrowed")).detail == KEY_GONE
    assert (await create(client, headers)).status_code == 403


async def test_a_key_that_may_do_more_keeps_its_sessions(client: httpx.AsyncClient) -> None:
    headers = {
        **await known(client, "widened", environments=["counter"]),
        "X-Session-ID": fresh_id(),
    }
    await client.post("/create", json={"env_name": "counter", "task_spec": {}}, headers=headers)
    await in_database(
        lambda: change_key(ApiKey.objects.get(name="widened"), environments=["counter", "echo"])
    )
    until = time.monotonic() + DEADLINE_SECONDS
    while (await client.get("/echo/tools", headers=headers)).status_code != 200:
        assert time.monotonic() < until
    assert (await client.post("/ping", headers=headers)).status_code == 200


async def test_the_last_use_of_a_key_is_noted_with_its_address(client: httpx.AsyncClient) -> None:
    headers = await known(client, "used")
    await client.get("/version", headers=headers)
    await in_database(ring.note_uses)
    used = await row("used")
    assert used.last_used is not None and used.last_address == "127.0.0.1"
