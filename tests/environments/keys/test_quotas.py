"""Quotas of keys at the doors for agents: what is refused, what waits, and what the agent sees at
the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
import pytest_asyncio

from environments import quotas
from environments.keys.keyring import ring
from environments.keys.stored_keys import change_key, make_key
from environments.models import ApiKey, RecordedBytes
from environments.service import close_service, get_service, open_service
from episodes.models import Episode
from tests.environments.agents.ors.serving import events, fresh_id, in_database, result, serving
from tests.environments.runtime.play import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

ECHO = {"name": "echo", "input": {"text": "x"}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(db: None) -> AsyncIterator[httpx.AsyncClient]:
    waits = {"ORSWEB_QUOTA_WAIT": 0.1, "ORSWEB_QUOTA_CALL_WAIT": 0.3}
    async with serving("tests.envs:Slow", ORSWEB_REQUIRE_KEYS=True, **waits) as running:
        yield running


async def key(name: str, **limits: int) -> dict[str, str]:
    """Return the header of a new key with these quotas."""
    _, text = await in_database(
        lambda: make_key(name, scopes=["play", "record", "read"], quotas=limits)
    )
    await in_database(ring.read)
    return {"X-API-Key": text}


async def create(
    client: httpx.AsyncClient, headers: dict[str, str], sid: str = ""
) -> httpx.Response:
    named = {"X-Session-ID": sid or fresh_id(), **headers}
    return await client.post("/create", json={"task_spec": {"id": 1}}, headers=named)


async def session(client: httpx.AsyncClient, headers: dict[str, str]) -> dict[str, str]:
    """Open a session, and return the headers of its requests."""
    sid = fresh_id()
    assert (await create(client, headers, sid)).status_code == 200
    return {"X-Session-ID": sid, **headers}


async def call(
    client: httpx.AsyncClient, headers: dict[str, str], tool: str = "echo", **given: Any
) -> httpx.Response:
    body = {"name": tool, "input": given} if given else ECHO
    return await client.post("/call", json=body, headers=headers)


async def episode(label: str) -> Episode:
    return await in_database(lambda: Episode.objects.get(key_label=label))


def refusal(answer: httpx.Response) -> str:
    """Return what a 429 says, which needs a time to wait."""
    assert answer.status_code == 429, answer.text
    assert int(answer.headers["retry-after"]) >= 1
    return str(answer.json()["detail"])


async def test_a_session_too_many_is_refused_with_the_limit_and_what_to_do(
    client: httpx.AsyncClient,
) -> None:
    headers = await key("two sessions", sessions=2)
    mine = [await session(client, headers) for _ in range(2)]
    text = refusal(await create(client, headers))
    assert (
        text.startswith(
            "Live sessions are limited to 2 for the API key 'two sessions'; none ended within 0.1 s"
        )
        and "delete one" in text
    )
    await client.post("/delete", headers=mine[0])
    assert (await create(client, headers)).status_code == 200


@pytest.fixture
def patience(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let requests wait for their turn for as long as a machine that stands still for a moment may
    need."""
    service = get_service()
    limits = replace(service.limits, quota_wait_seconds=60.0, quota_call_wait_seconds=60.0)
    monkeypatch.setattr(service, "limits", limits)
    monkeypatch.setattr(service._life, "limits", limits)


@pytest.mark.usefixtures("patience")
async def test_a_session_too_many_is_opened_when_another_ends_in_time(
    client: httpx.AsyncClient,
) -> None:
    headers = await key("one session", sessions=1)
    mine = await session(client, headers)
    waiting = asyncio.create_task(create(client, headers))
    await asyncio.sleep(0)
    await client.post("/delete", headers=mine)
    assert (await waiting).status_code == 200


async def test_a_session_that_could_not_be_opened_takes_no_place(client: httpx.AsyncClient) -> None:
    headers = await key("mistaken", sessions=1)
    body = {"split": "train", "index": 999_999}
    wrong = await client.post("/create", json=body, headers={"X-Session-ID": fresh_id(), **headers})
    assert wrong.status_code == 400
    mine = await session(client, headers)
    assert (await create(client, headers, mine["X-Session-ID"])).status_code == 429
    await client.post("/delete", headers=mine)
    assert (await create(client, headers)).status_code == 200


async def test_discovery_over_the_quota_of_requests_is_refused_and_a_session_is_not(
    client: httpx.AsyncClient,
) -> None:
    headers = await session(client, await key("two requests", requests=2))
    assert (await client.get("/slow/tools", headers=headers)).status_code == 200
    text = refusal(await client.get("/slow/tools", headers=headers))
    assert text.startswith(
        "Requests a minute are limited to 2 for the API key 'two requests'; send the next one in "
    )
    assert "limited to 2" in refusal(await client.get("/slow/prompt", headers=headers))
    for path in ("/ping", "/delete"):
        assert (await client.post(path, headers=headers)).status_code == 200


async def test_a_call_over_the_quota_of_requests_waits_for_the_next_minute(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = await session(client, await key("paced", requests=1))
    assert "Requests a minute are limited to 1" in result(await call(client, headers))["error"]
    monkeypatch.setattr(quotas, "WINDOW_SECONDS", 0.0)
    assert result(await call(client, headers))["ok"]


@pytest.mark.usefixtures("patience")
async def test_a_call_too_many_waits_until_another_ends(client: httpx.AsyncClient) -> None:
    own = await key("one call", calls=1)
    headers = [await session(client, own) for _ in range(2)]
    answers = await asyncio.gather(*(call(client, one, "wait", seconds=0.05) for one in headers))
    assert all(result(answer)["ok"] for answer in answers)


async def test_a_call_that_waited_in_vain_is_refused_and_the_session_goes_on(
    client: httpx.AsyncClient,
) -> None:
    own = await key("busy", calls=1)
    first, second = [await session(client, own) for _ in range(2)]
    long = asyncio.create_task(call(client, first, "wait", seconds=2))
    while (usage := ring.usage_of("busy")) is None or not usage.calls.taken:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    refused = result(await call(client, second))
    assert not refused["ok"] and refused["error"].startswith(
        "Tool calls at the same time are limited to 1"
    )
    assert result(await long)["ok"] and result(await call(client, second))["ok"]


async def test_an_episode_ends_with_the_last_call_that_it_may_have(
    client: httpx.AsyncClient,
) -> None:
    headers = await session(client, await key("two calls", steps=2))
    assert [result(await call(client, headers))["ok"] for _ in range(2)] == [True, True]
    ended = await episode("two calls")
    why = "tool calls of an episode are limited to 2 for the API key 'two calls'"
    assert (ended.cause, ended.steps_count, ended.detail) == (
        "expired",
        2,
        f"It was ended, because {why}.",
    )
    refused = result(await call(client, headers))
    assert refused["reason"] == "episode_finished" and refused["error"] == (
        f"'echo' was not run: the episode has ended, because {why}."
    )
    assert (await client.post("/ping", headers=headers)).status_code == 200
    assert (await client.post("/delete", headers=headers)).status_code == 200
    assert (await episode("two calls")).refused_count == 1


async def test_an_episode_whose_time_is_over_stops_its_call_and_refuses_the_next(
    client: httpx.AsyncClient,
) -> None:
    headers = await session(client, await key("two seconds", seconds=2))
    assert result(await call(client, headers))["ok"]
    kind, text = events((await call(client, headers, "wait", seconds=30)).text)[-1]
    assert kind == "error"
    assert (
        text
        == "It was ended, because seconds of an episode are limited to 2 for the API key 'two seconds'."
    )
    assert result(await call(client, headers))["reason"] == "episode_finished"
    ended = await episode("two seconds")
    assert (ended.cause, ended.steps_count, ended.detail) == ("expired", 2, text)


async def test_recorded_bytes_are_counted_over_a_restart_and_begin_anew_at_midnight(
    client: httpx.AsyncClient,
) -> None:
    own = await key("writer", bytes=100)
    headers = await session(client, own)
    assert result(await call(client, headers, text="x" * 90))["ok"]
    await close_service(5.0)
    await open_service()
    assert (await in_database(lambda: RecordedBytes.objects.get(label="writer"))).count > 100
    text = refusal(await create(client, own))
    assert "are limited to 100" in text and "midnight UTC" in text
    usage = ring.usage_of("writer")
    assert usage is not None
    usage.day -= 1
    assert (await create(client, own)).status_code == 200


async def test_bytes_that_other_servers_record_count_too(client: httpx.AsyncClient) -> None:
    own = await key("shared", bytes=10_000)
    headers = await session(client, own)
    assert result(await call(client, headers))["ok"]
    await close_service(5.0)
    await open_service()
    # by another server
    await in_database(lambda: RecordedBytes.objects.filter(label="shared").update(count=20_000))
    headers, usage = await session(client, own), ring.usage_of("shared")
    assert usage is not None and result(await call(client, headers, text="x" * 90))["ok"]
    await until(lambda: usage.bytes > 20_000)
    assert (
        await in_database(lambda: RecordedBytes.objects.get(label="shared"))
    ).count == usage.bytes
    assert "are limited to 10000" in refusal(await create(client, own)).replace(",", "")


async def test_bytes_of_yesterday_do_not_replace_those_that_another_server_recorded_today(
    client: httpx.AsyncClient,
) -> None:
    own = await key("midnight", bytes=10_000)
    headers, usage = await session(client, own), ring.usage_of("midnight")
    assert usage is not None
    today = usage.day
    await in_database(
        lambda: RecordedBytes.objects.update_or_create(
            {"day": today + 1, "count": 5}, label="midnight"
        )
    )
    assert result(await call(client, headers))["ok"]
    await close_service(5.0)
    row = await in_database(lambda: RecordedBytes.objects.get(label="midnight"))
    assert (row.day, row.count) == (today + 1, 5)
    await open_service()


async def test_an_open_session_ends_when_it_records_twice_the_bytes_of_the_day(
    client: httpx.AsyncClient,
) -> None:
    headers = await session(client, await key("flood", bytes=1000))
    assert result(await call(client, headers, text="x" * 400))["ok"]
    assert result(await call(client, headers, text="x" * 900))["ok"]
    assert (
        "open sessions may record 2 times as many" in result(await call(client, headers))["error"]
    )


async def test_uploads_count_as_recorded_bytes(client: httpx.AsyncClient) -> None:
    headers = await key("uploader", bytes=10)
    event = {"eventType": "rollout", "eventId": "quota-1", "runName": "r", "timestamp": 1}
    answers = [
        await client.post("/v1/rollouts", json={"events": [event]}, headers=headers)
        for _ in range(2)
    ]
    assert answers[0].status_code == 200 and "midnight UTC" in refusal(answers[1])


async def test_changed_quotas_are_in_force_within_a_second(client: httpx.AsyncClient) -> None:
    headers = await key("raised", sessions=1)
    await session(client, headers)
    assert (await create(client, headers)).status_code == 429
    await in_database(lambda: change_key(ApiKey.objects.get(name="raised"), quotas={"sessions": 5}))
    until = time.monotonic() + 60
    while (await create(client, headers)).status_code != 200:
        assert time.monotonic() < until


async def test_a_key_reads_its_quotas_and_what_it_uses(client: httpx.AsyncClient) -> None:
    headers = await key("reader of quotas", sessions=3, requests=100)
    await session(client, headers)
    answer = (await client.get("/api/keys/me", headers=headers)).json()
    found = {quota["name"]: quota for quota in answer["quotas"]}
    assert answer["name"] == "reader of quotas" and answer["scopes"] == ["play", "record", "read"]
    assert found["sessions"] == {
        "name": "sessions",
        "what": "live sessions",
        "limit": 3,
        "used": 1,
        "set_by": "key",
    }
    assert (found["requests"]["used"], found["steps"]["limit"], found["steps"]["used"]) == (
        2,
        None,
        None,
    )


async def test_the_api_refuses_requests_over_the_quota(client: httpx.AsyncClient) -> None:
    headers = await key("reader", requests=1)
    answers = [await client.get("/api/environments", headers=headers) for _ in range(2)]
    assert answers[0].status_code == 200 and refusal(answers[1]).endswith(" s.")


async def test_over_its_quota_a_key_still_reads_which_quota_that_is(
    client: httpx.AsyncClient,
) -> None:
    headers = await key("curious", requests=1)
    await client.get("/api/environments", headers=headers)
    answer = await client.get("/api/keys/me", headers=headers)
    assert (
        answer.status_code == 200
        and {"name": "requests", "limit": 1}.items() <= answer.json()["quotas"][0].items()
    )
    assert (await client.get("/api/environments", headers=headers)).status_code == 429
