"""Secrets and API keys do not get into the database or the log, however the environment repeats
them."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from typing import Any
from urllib.parse import quote_plus

import pytest
from pytest_django import DjangoDbBlocker

from environments.runtime.secrets_mask import STARS
from tests.conformance.agent import Agent
from tests.conformance.clients import Client
from tests.conformance.record import Recorded, recorded
from tests.environments.agents.mcp.playing import playing
from tests.rows import each
from tests.server import LiveServer


def fresh_secret() -> str:
    """Return a new secret with characters that JSON escapes, so that its escaped forms are checked
    too."""
    return f'tok"en/é-{uuid.uuid4().hex}'


def core_of(secret: str) -> str:
    """Return the part of the secret that no escaping changes."""
    return secret.rpartition("-")[2]


def disguises(secret: str) -> dict[str, str]:
    """Return encoded forms of the secret, as arguments of a call."""
    return {
        "header": base64.b64encode(secret.encode()).decode(),
        "form": quote_plus(secret),
        "dump": secret.encode().hex(" "),
        "json": json.dumps(secret)[1:-1],
    }


def traces(secret: str) -> list[str]:
    """Return parts of the secret and of its encoded forms that must be nowhere."""
    encoded = base64.b64encode(f"user:{secret}".encode()).decode()
    core = core_of(secret)
    return [core, encoded[12:-4], core.encode().hex(), core.encode().hex(" ")]


def _everything(server: LiveServer, blocker: DjangoDbBlocker) -> str:
    with recorded(server, blocker) as record:
        return record.everything()


@pytest.mark.parametrize("tool", ["reveal", "leak", "scold"])
def test_it_records_no_secret_that_a_tool_repeats(
    client: Client, server: LiveServer, record: Recorded, tool: str
) -> None:
    secret = fresh_secret()
    secrets = client.secrets({"token": secret})
    with client.environment("secretive").session(
        split="train", index=0, secrets=secrets
    ) as session:
        assert secret in session.get_prompt()[0].text
        _call(session, tool)
    assert record.steps(session.sid)[0].tool == tool
    assert core_of(secret) not in record.everything()
    assert core_of(secret) not in server.log


def test_it_shows_the_secret_to_the_agent_and_stars_on_record(
    client: Client, record: Recorded
) -> None:
    secret = fresh_secret()
    with client.environment("secretive").session(
        split="train", index=0, secrets=client.secrets({"token": secret})
    ) as session:
        result = session.call_tool("reveal", {})
    assert result.blocks[0].text == f"token {secret}"
    (step,) = record.steps(session.sid)
    assert step.blocks[0]["text"] == "token ********"
    assert step.metadata == {"token": "********"}


def test_it_records_no_secret_that_was_encoded_or_split_or_logged(
    server: LiveServer, record: Recorded
) -> None:
    secret = fresh_secret()
    with Agent(server).open({"id": 1}, "secretive", secrets={"token": secret}) as agent:
        encoded = base64.b64encode(f"user:{secret}".encode()).decode()
        agent.call(
            "names",
            {"header": encoded, "form": quote_plus(secret), "dump": secret.encode().hex(" ")},
        )
        agent.call("disguise")
    names, disguise = record.steps(agent.sid)
    assert json.loads(names.input_json) | {"header": "-"} == {
        "header": "-",
        "form": STARS,
        "dump": STARS,
    }
    assert [block["text"] for block in disguise.blocks][:2] == [STARS, STARS]
    for trace in (encoded[12:-4], core_of(secret), core_of(secret).encode().hex()):
        assert trace not in record.everything()
        assert trace not in server.log
    assert f"opened {STARS} with Basic" in server.log


async def test_nor_over_mcp(server: LiveServer, record: Recorded) -> None:
    secret = fresh_secret()
    sent = base64.b64encode(json.dumps({"token": {"value": secret}}).encode()).decode()
    async with playing(
        f"{server.url}/mcp/secretive?split=train&index=0", {"X-Secrets": sent}
    ) as player:
        await player.call("names", **disguises(secret))
        assert secret.startswith(await player.text("disguise"))
        sid = player.sid
    names, disguise = await asyncio.to_thread(record.steps, sid)
    assert json.loads(names.input_json) == dict.fromkeys(disguises(secret), STARS)
    assert [block["text"] for block in disguise.blocks][:2] == [STARS, STARS]
    everything = await asyncio.to_thread(record.everything)
    for trace in traces(secret):
        assert trace not in everything + server.log


def test_nor_with_an_environment_of_another_server(
    server: LiveServer, django_db_blocker: DjangoDbBlocker
) -> None:
    secret = fresh_secret()
    with LiveServer(f"far={server.url}/secretive") as near:
        with Agent(near).open({"id": 1}, "far", secrets={"token": secret}) as agent:
            agent.call("names", disguises(secret))
            assert core_of(secret) in agent.call("disguise").raw.decode()
        log = near.log + server.log
        here, there = _everything(near, django_db_blocker), _everything(server, django_db_blocker)
    assert here.count(STARS) > 3 and there.count(STARS) > 3
    for trace in traces(secret):
        assert trace not in here + there + log


def test_nor_in_what_a_trainer_says_about_its_run(server: LiveServer, record: Recorded) -> None:
    secret = fresh_secret()
    with Agent(server).open({"id": 1}, "secretive", secrets={"token": secret}) as agent:
        description = {
            "notes": f"token {secret}",
            "config": disguises(secret),
            "tags": [core_of(secret), secret],
        }
        answer = agent.http.put(f"/api/runs/by-name/{quote_plus(secret)}", json=description)
    assert answer.status_code == 201, answer.text
    assert answer.json()["notes"] == f"token {STARS}"
    for trace in (*traces(secret)[1:], secret):
        assert trace not in record.everything()


def test_it_refuses_a_secret_that_is_too_long_to_look_for(server: LiveServer) -> None:
    with Agent(server) as agent:
        agent.sid = uuid.uuid4().hex
        answer = agent.post("/create", {"task_spec": {}, "secrets": {"token": "x" * 65_537}})
    assert answer.status_code == 400
    assert "65,537 characters; at most 65,536" in answer.text


def test_it_records_no_secret_that_the_agent_sends_back(
    server: LiveServer, record: Recorded
) -> None:
    secret = fresh_secret()
    with Agent(server, **{"X-API-Key": "key-" + core_of(secret)}) as agent:
        agent.open({"id": secret}, "secretive", secrets={"token": secret})
        agent.call(secret, {secret: [secret]}, task_id=secret)
        agent.call("names", {"key": "key-" + core_of(secret)})
    assert len(record.steps(agent.sid)) == 2
    assert core_of(secret) not in record.everything()
    assert core_of(secret) not in server.log


@pytest.mark.parametrize("where", ["constructor", "setup"])
def test_it_records_no_secret_of_a_session_that_failed_to_start(
    server: LiveServer, record: Recorded, where: str
) -> None:
    secret = fresh_secret()
    with Agent(server) as agent:
        agent.sid = uuid.uuid4().hex
        agent.create({"fail": where}, "secretive", secrets={"token": secret})
        agent.get("/prompt")
    episode = record.episode(agent.sid)
    assert (episode.cause, episode.detail) == (
        "setup_failed",
        f"RuntimeError: {where} refused ********",
    )
    assert core_of(secret) not in record.everything()
    assert core_of(secret) not in server.log


def test_it_takes_secrets_from_body_and_header_and_the_body_wins(server: LiveServer) -> None:
    # {"token": "head", "other": "x"}
    header = "eyJ0b2tlbiI6eyJ2YWx1ZSI6ImhlYWQifSwib3RoZXIiOnsidmFsdWUiOiJ4In19"
    with Agent(server, **{"X-Secrets": header}) as agent:
        agent.open({}, "secretive", secrets={"token": "body"})
        assert agent.call("names").text == "other,token"
        assert agent.call("reveal").text == "token body"


@each("header", ["%%%", "bm8=", "WzFd", "eyJhIjoxfQ==", "eyJhIjp7InZhbHVlIjoxfX0="])
def test_it_refuses_a_malformed_header_without_repeating_it(
    server: LiveServer, header: str
) -> None:
    with Agent(server) as agent:
        agent.sid = uuid.uuid4().hex
        answer = agent.post("/create", {"task_spec": {}}, **{"X-Secrets": header})
    assert answer.status_code == 400
    assert header not in answer.text


def _call(session: Any, tool: str) -> None:
    """Make a call and ignore its result."""
    try:
        session.call_tool(tool, {})
    except Exception as error:
        assert "bad token" in str(error)
