"""API keys: which requests are accepted, and which sessions belong to which key."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from episodes.models import Episode, Step
from tests.environments.agents.ors.serving import events, fresh_id, in_database, result, serving
from tests.rows import each

pytestmark = pytest.mark.asyncio(loop_scope="module")

LAB, GUEST = {"X-API-Key": "lab-key-0123"}, {"X-API-Key": "guest-key-4567"}
COUNT = {"name": "count", "input": {}, "task_id": "mine"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(db: None) -> AsyncIterator[httpx.AsyncClient]:
    keys = {"lab": "lab-key-0123", "guest": "guest-key-4567"}
    async with serving(
        "tests.envs:Counter", "tests.envs:Secretive", ORSWEB_API_KEYS=keys
    ) as running:
        yield running


async def opened(
    client: httpx.AsyncClient, key: dict[str, str], environment: str = "counter"
) -> dict[str, str]:
    headers = {"X-Session-ID": fresh_id(), **key}
    answer = await client.post(
        "/create", json={"env_name": environment, "task_spec": {}}, headers=headers
    )
    assert answer.status_code == 200
    return headers


async def test_health_needs_no_key(client: httpx.AsyncClient) -> None:
    assert (await client.get("/health")).status_code == 200


@each("path", ["/tools", "/version", "/list_environments", "/nobody/tools", "/prompt"])
async def test_without_a_key_nothing_is_reported(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "X-API-Key")
    assert (
        answer.json()["detail"] == "X-API-Key header is required; keys are set by ORSWEB_API_KEYS "
        "or made in the admin"
    )


@each("key", ["wrong-key-999", "lab-key-0123 x", "\xff", "lab"])
async def test_a_wrong_key_is_refused_without_repeating_it(
    client: httpx.AsyncClient, key: str
) -> None:
    answer = await client.get("/tools", headers={"X-API-Key": key.encode("latin-1")})  # type: ignore[dict-item]
    assert answer.status_code == 401 and key not in answer.text.replace("X-API-Key", "")


@pytest.mark.parametrize("key", [LAB, GUEST])
async def test_each_key_is_let_in(client: httpx.AsyncClient, key: dict[str, str]) -> None:
    assert (await client.get("/tools", headers=key)).status_code == 200


@pytest.mark.parametrize("path", ["/delete", "/delete_session"])
async def test_to_delete_another_keys_session_is_answered_as_for_an_unknown_one_and_ends_nothing(
    client: httpx.AsyncClient, path: str
) -> None:
    headers = await opened(client, LAB)
    answer = await client.post(path, headers=headers | GUEST)
    assert (answer.status_code, answer.json()) == (200, {"sid": headers["X-Session-ID"]})
    assert (await client.post("/ping", headers=headers)).status_code == 200


@pytest.mark.parametrize("path", ["/ping", "/call"])
async def test_another_keys_session_does_not_exist(client: httpx.AsyncClient, path: str) -> None:
    headers = await opened(client, LAB)
    answer = await client.post(path, json=COUNT, headers=headers | GUEST)
    assert (answer.status_code, answer.json()) == (404, {"detail": "Active environment not found"})
    assert (await client.post("/ping", headers=headers)).status_code == 200


async def test_another_keys_record_does_not_exist(client: httpx.AsyncClient) -> None:
    headers = await opened(client, LAB)
    first = await client.post("/call", json=COUNT, headers=headers)
    await client.post("/delete", headers=headers)
    assert (await client.post("/call", json=COUNT, headers=headers | GUEST)).status_code == 404
    assert events((await client.post("/call", json=COUNT, headers=headers)).text) == events(
        first.text
    )


async def test_the_record_knows_the_label_and_not_the_key(client: httpx.AsyncClient) -> None:
    headers = await opened(client, LAB)
    call = {"name": "count", "input": {"leaked": LAB["X-API-Key"]}}
    assert result(await client.post("/call", json=call, headers=headers))["ok"]
    await client.post("/delete", headers=headers)
    step = await in_database(
        lambda: Step.objects.select_related("episode").get(
            episode__session_id=headers["X-Session-ID"]
        )
    )
    assert step.episode.key_label == "lab" and LAB["X-API-Key"] not in step.input
    assert json.loads(step.input) == {"leaked": "********"}


async def test_the_label_of_a_probe_is_known_too(client: httpx.AsyncClient) -> None:
    headers = await opened(client, GUEST)
    await client.post("/delete", headers=headers)
    episode = await in_database(lambda: Episode.objects.get(session_id=headers["X-Session-ID"]))
    assert (episode.key_label, episode.cause) == ("guest", "abandoned")


async def test_too_many_wrong_keys_are_answered_with_the_time_to_wait(
    client: httpx.AsyncClient,
) -> None:
    answers = [
        await client.get("/tools", headers={"X-API-Key": f"wrong-key-{n}"}) for n in range(61)
    ]
    assert (answers[0].status_code, answers[-1].status_code) == (401, 429)
    assert (
        int(answers[-1].headers["retry-after"]) > 0
        and "try again in" in answers[-1].json()["detail"]
    )
    assert (await client.get("/tools", headers=LAB)).status_code == 200
