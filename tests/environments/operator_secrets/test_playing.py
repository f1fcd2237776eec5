"""Environments are played with the secrets that their operator has given; no agent and no record
shows them."""

from __future__ import annotations

import asyncio

import httpx
import pytest
import structlog.testing

from environments.models import Environment, EnvironmentSecret
from environments.operator_secrets import source
from environments.operator_secrets.stored import keep
from environments.runtime.secrets_mask import STARS
from environments.service import get_service, try_out_spec
from episodes.models import Episode, Step
from tests.environments.agents.ors.serving import (
    error,
    fresh_id,
    in_database,
    opened,
    result,
    serving,
)
from tests.episodes.people.playing import hosting, send_form, start_play

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "operators-own-token-4711"
IN_FILE = {"secretive": {"token": SECRET}}


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "FRESH_SECONDS", -1.0)  # read each time


async def call(client: httpx.AsyncClient, headers: dict[str, str], tool: str) -> httpx.Response:
    return await client.post("/secretive/call", json={"name": tool, "input": {}}, headers=headers)


async def said(client: httpx.AsyncClient, headers: dict[str, str], tool: str) -> str:
    return str(result(await call(client, headers, tool))["output"]["blocks"][0]["text"])


def recorded() -> str:
    episodes = [
        (str(episode.prompt and episode.prompt.text), episode.detail)
        for episode in Episode.objects.all()
    ]
    return str([*episodes, *Step.objects.values_list("output", "error")])


@pytest.mark.parametrize("workers", [0, 1])
async def test_the_environment_has_it_and_no_answer_or_row_shows_it(workers: int) -> None:
    async with serving(
        "tests.envs:Secretive", ORSWEB_ENVIRONMENT_SECRETS=IN_FILE, ORSWEB_WORKERS=workers
    ) as client:
        headers = await opened(client)
        prompt = (await client.get("/secretive/prompt", headers=headers)).text
        assert STARS in prompt and SECRET not in prompt
        answers = [await call(client, headers, tool) for tool in ("reveal", "leak", "disguise")]
        assert result(answers[0])["output"]["blocks"][0]["text"] == f"token {STARS}"
        assert error(answers[1]) == f"bad token {STARS}"
        texts = "".join(answer.text for answer in answers)
        assert (
            SECRET not in texts and SECRET.encode().hex() not in texts and SECRET[:12] not in texts
        )
        await client.post("/delete", headers=headers)
    assert SECRET not in await in_database(recorded)


async def test_what_the_client_sends_wins() -> None:
    async with serving("tests.envs:Secretive", ORSWEB_ENVIRONMENT_SECRETS=IN_FILE) as client:
        headers = await opened(client, secrets={"token": "of-the-client-itself"})
        assert (
            result(await call(client, headers, "reveal"))["output"]["blocks"][0]["text"]
            == "token of-the-client-itself"
        )


async def test_keys_need_the_scope_for_it() -> None:
    keys = {"lab": "lab-key-0123"}
    async with serving(
        "tests.envs:Secretive", ORSWEB_ENVIRONMENT_SECRETS=IN_FILE, ORSWEB_API_KEYS=keys
    ) as client:
        lab = {"X-API-Key": "lab-key-0123", "X-Session-ID": fresh_id()}
        await client.post("/create", json={"task_spec": {}}, headers=lab)
        assert await said(client, lab, "reveal") == "token missing"


async def test_one_that_is_stored_is_used_from_the_next_session_on_and_not_after_its_removal() -> (
    None
):
    async with serving("tests.envs:Secretive") as client:
        environment = await in_database(Environment.objects.get)
        await in_database(lambda: keep(environment, "token", SECRET))
        assert await said(client, await opened(client), "names") == "token"
        await in_database(EnvironmentSecret.objects.all().delete)
        assert await said(client, await opened(client), "names") == ""


async def test_a_person_plays_with_it_and_learns_without_it_which_one_is_missing() -> None:
    form = {"pick": "spec", "spec": '{"fail": "setup"}'}
    async with hosting("tests.envs:Secretive") as browser:
        page = await send_form(browser, environment="secretive", split="train", **form)
        assert page.status_code == 422
        assert (
            "found no secret &#x27;token&#x27;" in page.text
            and "ORSWEB_ENVIRONMENT_SECRETS_FILE" in page.text
        )
    async with hosting("tests.envs:Secretive", ORSWEB_ENVIRONMENT_SECRETS=IN_FILE) as browser:
        page = await browser.get(f"/play/{await start_play(browser, 'secretive')}/")
        assert STARS in page.text and SECRET not in page.text


async def test_a_trial_of_a_task_has_it() -> None:
    async with serving("tests.envs:Secretive", ORSWEB_ENVIRONMENT_SECRETS=IN_FILE):
        trial = await asyncio.to_thread(try_out_spec, "secretive", "{}")
    assert STARS in trial.prompt_json and SECRET not in trial.prompt_json


async def test_lines_of_the_log_and_prints_are_masked_while_it_is_played() -> None:
    async with serving("tests.envs:Secretive", ORSWEB_ENVIRONMENT_SECRETS=IN_FILE) as client:
        await opened(client)
        assert (
            get_service().recent_secrets.log_line(f"opened with {SECRET}") == f"opened with {STARS}"
        )


async def test_an_unknown_environment_in_the_file_is_warned_of() -> None:
    with structlog.testing.capture_logs() as lines:
        async with serving(
            "tests.envs:Secretive", ORSWEB_ENVIRONMENT_SECRETS={"secretiv": {"token": SECRET}}
        ):
            pass
    [line] = [line for line in lines if "ORSWEB_ENVIRONMENT_SECRETS_FILE" in line["event"]]
    assert (line["name"], line["hint"]) == ("secretiv", "Did you mean 'secretive'?")
