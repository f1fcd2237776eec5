"""A disabled environment refuses new sessions, and accepts them again once it is enabled."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from environments.models import Environment
from environments.tasks import listed_tasks
from tests.environments.agents.ors.serving import fresh_id, in_database, serving

BY_INDEX = {"env_name": "echo", "split": "train", "index": 0}
BY_CONTENT = {"env_name": "echo", "task_spec": {"id": 1}}


@pytest_asyncio.fixture
async def client(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[httpx.AsyncClient]:
    monkeypatch.setattr(listed_tasks, "FRESH_SECONDS", -1.0)  # ask each time
    async with serving("tests.envs:Echo") as running:
        yield running


async def switch(*, is_enabled: bool) -> None:
    await in_database(lambda: Environment.objects.update(is_enabled=is_enabled))


async def create(client: httpx.AsyncClient, body: dict[str, object]) -> httpx.Response:
    return await client.post("/create", json=body, headers={"X-Session-ID": fresh_id()})


@pytest.mark.parametrize("body", [BY_INDEX, BY_CONTENT])
async def test_it_refuses_sessions_while_it_is_switched_off(
    client: httpx.AsyncClient, body: dict[str, object]
) -> None:
    await switch(is_enabled=False)
    refused = await create(client, body)
    assert refused.status_code == 400
    sentence = (
        "Environment 'echo' is unavailable. It is disabled; an administrator can enable it on its "
        "page in the admin."
    )
    assert refused.json() == {"detail": sentence}


@pytest.mark.parametrize("body", [BY_INDEX, BY_CONTENT])
async def test_it_opens_sessions_again_once_it_is_switched_on(
    client: httpx.AsyncClient, body: dict[str, object]
) -> None:
    await switch(is_enabled=False)
    await create(client, body)
    await switch(is_enabled=True)
    assert (await create(client, body)).status_code == 200


async def test_a_session_that_is_open_goes_on(client: httpx.AsyncClient) -> None:
    headers = {"X-Session-ID": fresh_id()}
    await client.post("/create", json=BY_INDEX, headers=headers)
    await switch(is_enabled=False)
    assert (await client.get("/echo/prompt", headers=headers)).status_code == 200
