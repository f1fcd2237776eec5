"""The quotas of the settings: for clients without a key, and for keys that have none of their
own."""

from __future__ import annotations

import pytest

from tests.environments.agents.ors.serving import fresh_id, opened, result, serving

pytestmark = pytest.mark.usefixtures("db")

KEYS = {"lab": "lab-key-1", "home": "home-key-1"}


async def test_clients_without_a_key_share_the_quotas_of_the_settings() -> None:
    async with serving("tests.envs:Echo", ORSWEB_QUOTA_STEPS=1, ORSWEB_QUOTA_REQUESTS=4) as client:
        header = await opened(client)
        echo = {"name": "echo", "input": {"text": "x"}}
        answers = [result(await client.post("/call", json=echo, headers=header)) for _ in range(2)]
        assert (
            answers[0]["ok"]
            and "are limited to 1 for clients without an API key" in answers[1]["error"]
        )
        assert [(await client.get("/tools")).status_code for _ in range(2)] == [200, 429]
        assert (await client.get("/health")).status_code == 200


async def test_a_server_that_starts_has_counted_no_request() -> None:
    for _ in range(2):
        async with serving("tests.envs:Echo", ORSWEB_QUOTA_REQUESTS=1) as client:
            assert [(await client.get("/tools")).status_code for _ in range(2)] == [200, 429]


async def test_each_key_of_the_settings_has_the_quotas_for_itself() -> None:
    async with serving(
        "tests.envs:Echo", ORSWEB_API_KEYS=KEYS, ORSWEB_QUOTA_SESSIONS=1, ORSWEB_QUOTA_WAIT=0.01
    ) as client:
        statuses = []
        for key in ("lab-key-1", "lab-key-1", "home-key-1"):
            headers = {"X-API-Key": key, "X-Session-ID": fresh_id()}
            statuses.append(
                (await client.post("/create", json={"task_spec": {}}, headers=headers)).status_code
            )
        assert statuses == [200, 429, 200]
