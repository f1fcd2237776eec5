"""Exceptions of an environment are reported to the agent, the log and the record without
secrets."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from environments.runtime import fault_log
from environments.runtime.call_outcome import MAX_ERROR_CHARACTERS
from episodes.models import Episode, Step
from tests.environments.agents.ors.serving import in_database, opened, serving
from tests.rows import each

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "sk-0123456789abcdef"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(db: None) -> AsyncIterator[httpx.AsyncClient]:
    async with serving("tests.envs_faulty:Leaky") as running:
        yield running


async def leaky(client: httpx.AsyncClient, *fails: str) -> dict[str, str]:
    return await opened(client, task_spec={"fails": list(fails)}, secrets={"token": SECRET})


@pytest.mark.parametrize("what", ["prompt", "messages", "task_tools"])
async def test_what_is_raised_is_reported_without_the_secret(
    client: httpx.AsyncClient, what: str
) -> None:
    answer = await client.get(f"/{what}", headers=await leaky(client, what))
    assert (answer.status_code, answer.json()) == (
        500,
        {"detail": f"RuntimeError: {what} refused ********"},
    )


async def test_a_listing_that_is_none_is_reported_without_the_secret(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = await client.get("/task_tools", headers=await leaky(client, "listing"))
    assert answer.status_code == 500
    assert answer.json()["detail"].startswith(
        "AttributeError: list_task_tools did not return a ListToolsOutput: "
    )
    assert SECRET not in caplog.text + "".join(capsys.readouterr()) + answer.text


LONG_SECRET = "sk-proj-" + "abcdefghijklmnopqrstuvwxyz0123456789" * 3


@each("secret", [SECRET, LONG_SECRET])
@each("what", ["content", "model", "cut"])
async def test_no_part_of_the_secret_is_reported(
    client: httpx.AsyncClient, what: str, secret: str
) -> None:
    """Neither where pydantic quotes a part of a value, nor where a long text is truncated."""
    header = await opened(client, task_spec={"fails": [what]}, secrets={"token": secret})
    with capture_logs() as logged:
        answer = await client.get("/prompt", headers=header)
    await client.post("/delete", headers=header)
    detail = await in_database(
        lambda: Episode.objects.get(session_id=header["X-Session-ID"]).detail
    )
    assert answer.status_code == 500
    for message in (answer.text, str(logged), detail):
        assert "Error" in message and len(message) < 2.5 * MAX_ERROR_CHARACTERS
        assert secret[:12] not in message and secret[-12:] not in message


async def test_no_part_of_the_secret_is_reported_of_what_an_agent_may_mend(
    client: httpx.AsyncClient,
) -> None:
    header = await opened(client, task_spec={}, secrets={"token": LONG_SECRET})
    answer = await client.post("/call", json={"name": "check", "input": {}}, headers=header)
    step = await in_database(lambda: Step.objects.get(episode__session_id=header["X-Session-ID"]))
    assert (step.status, step.reason) == ("refused", "tool_error")
    for message in (answer.text, step.error):
        assert "ValidationError: text: Input should be a valid string" in message
        assert LONG_SECRET[:12] not in message and LONG_SECRET[-12:] not in message


@pytest.mark.parametrize(
    ("path", "what"),
    [("/prompt", "prompt"), ("/messages", "messages"), ("/task_tools", "task_tools")],
)
async def test_what_is_raised_is_logged_without_the_secret(
    client: httpx.AsyncClient, path: str, what: str
) -> None:
    header = await leaky(client, what)
    with capture_logs() as logged:
        await client.get(path, headers=header)
    [line] = logged
    assert (line["session"], line["environment"]) == (header["X-Session-ID"], "leaky") and line[
        "episode"
    ] > 0
    assert line["event"] == ("task tools failed" if what == "task_tools" else "prompt failed")
    assert line["error"] == f"RuntimeError: {what} refused ********"
    assert "_maybe_fail" in line["trace"] and SECRET not in str(line)


async def test_of_many_faults_some_are_logged_and_the_others_counted(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fault_log, "_entries", fault_log._Entries())
    monkeypatch.setattr(fault_log, "MAX_A_MINUTE", 3)
    with capture_logs() as logged:
        for _ in range(5):
            await client.get("/prompt", headers=await leaky(client, "prompt"))
        assert len(logged) == 3
        monkeypatch.setattr(fault_log, "MINUTE_SECONDS", 0.0)
        await client.get("/prompt", headers=await leaky(client, "prompt"))
    assert [line.get("left_out_before") for line in logged] == [None, None, None, 2]


async def score(client: httpx.AsyncClient, header: dict[str, str]) -> str:
    return (
        await client.post("/score_group", json={"candidates": [{"messages": []}]}, headers=header)
    ).text


async def test_a_group_that_was_not_scored_is_logged_without_the_secret(
    client: httpx.AsyncClient,
) -> None:
    header = await leaky(client, "score_group")
    with capture_logs() as logged:
        message = await score(client, header)
    assert [line["event"] for line in logged] == [
        "group score failed"
    ] and SECRET not in f"{logged} {message}"


@pytest.mark.parametrize(
    "said", [{"orsweb_model": SECRET}, {"orsweb_run": "r", "orsweb_model": SECRET}]
)
async def test_a_models_name_is_recorded_without_the_secret(
    client: httpx.AsyncClient, said: dict[str, str]
) -> None:
    header = await opened(client, secrets={"token": SECRET, **said})
    await client.post("/delete", headers=header)
    episode = await in_database(lambda: Episode.objects.get(session_id=header["X-Session-ID"]))
    assert episode.model == "********"


# --- the ending -----------------------------------------------------------------------------------


async def ending(client: httpx.AsyncClient, header: dict[str, str]) -> tuple[str, str, bool]:
    """Delete the session; return the cause, detail and is_probe of its recorded end."""
    await client.post("/delete", headers=header)
    episode = await in_database(lambda: Episode.objects.get(session_id=header["X-Session-ID"]))
    return episode.cause, episode.detail, episode.is_probe


@pytest.mark.parametrize(
    ("what", "detail"),
    [
        ("prompt", "prompt failed"),
        ("messages", "prompt failed"),
        ("task_tools", "task tools failed"),
    ],
)
async def test_an_agent_that_leaves_after_it_did_so_by_the_environments_fault(
    client: httpx.AsyncClient, what: str, detail: str
) -> None:
    header = await leaky(client, what)
    await client.get(f"/{what}", headers=header)
    message = f"{detail}: RuntimeError: {what} refused ********"
    assert await ending(client, header) == ("env_error", message, False)


async def test_one_that_leaves_after_a_group_was_not_scored_too(client: httpx.AsyncClient) -> None:
    header = await leaky(client, "score_group")
    await score(client, header)
    cause, detail, _ = await ending(client, header)
    assert (cause, detail) == (
        "env_error",
        "group score failed: RuntimeError: score_group refused ********",
    )


async def test_other_readings_do_not_make_up_for_it(client: httpx.AsyncClient) -> None:
    header = await leaky(client, "prompt", "task_tools")
    for path in ("/prompt", "/task_tools", "/task_tools"):
        await client.get(path, headers=header)
    cause, detail, _ = await ending(client, header)
    assert cause == "env_error" and detail.startswith("prompt failed: ")


async def test_a_second_reading_that_goes_well_does(client: httpx.AsyncClient) -> None:
    header = await leaky(client, "prompt")
    assert [(await client.get("/prompt", headers=header)).status_code for _ in range(2)] == [
        500,
        200,
    ]
    assert await ending(client, header) == ("no_call", "Abandoned without a tool call.", False)


@pytest.mark.parametrize(
    ("tool", "cause"), [("finish", "finished"), ("rest", "abandoned"), ("unknown", "env_error")]
)
async def test_a_session_that_plays_on_ends_as_it_plays(
    client: httpx.AsyncClient, tool: str, cause: str
) -> None:
    header = await leaky(client, "prompt")
    await client.get("/prompt", headers=header)
    await client.post("/call", json={"name": tool, "input": {}}, headers=header)
    assert (await ending(client, header))[0] == cause
