"""`ORSWEB_SECRETS_KEY_FILE`: sessions with secrets go on after a kill, and no secret is stored in
the clear."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from episodes.models import SessionSecrets
from tests.conformance.agent import Agent, eventually
from tests.conformance.record import ALIAS, Recorded
from tests.server import LiveServer

SECRET = "t0p-secret-of-a-session"
NEW, OLD = (base64.urlsafe_b64encode(letter * 32).decode() for letter in (b"n", b"o"))


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
def server(keys: Path) -> Iterator[LiveServer]:
    keys.write_text(OLD)
    settings = {"ORSWEB_SECRETS_KEY_FILE": str(keys), "ORSWEB_KEEPALIVE": "0.2"}
    classes = [f"tests.envs_returning:{name}" for name in ("Telling", "Forgetting")]
    with LiveServer(*classes, env=settings) as running:
        yield running


def opened(server: LiveServer, environment: str = "telling") -> Agent:
    agent = Agent(server).open({"id": 1}, environment, secrets={"token": SECRET})
    agent.call("add", {"number": 1})
    return agent


def again(agent: Agent, server: LiveServer) -> Agent:
    """Return an agent with the same session after a kill of the server."""
    server.kill()
    server.start()
    other = Agent(server)
    other.sid = agent.sid
    return other


def test_a_session_goes_on_with_its_secrets_also_after_a_rotation(
    server: LiveServer, record: Recorded, keys: Path
) -> None:
    agent = opened(server)
    [kept] = SessionSecrets.objects.using(ALIAS).all()
    assert kept.pk == record.episode(agent.sid).pk
    assert SECRET.encode() not in bytes(kept.sealed)
    keys.write_text(f"{NEW}\n{OLD}\n")
    agent = again(agent, server)
    assert agent.call("tell").text == SECRET  # the environment has it again
    assert agent.call("add", {"number": 2}).text == "3"
    recorded_texts = [step.output_json for step in record.steps(agent.sid)]
    assert not any(SECRET in text for text in recorded_texts)
    agent.close()
    eventually(lambda: not SessionSecrets.objects.using(ALIAS).exists())
    assert SECRET not in server.log


def test_its_secrets_are_masked_before_it_is_used_again(server: LiveServer) -> None:
    agent = again(opened(server), server)
    assert httpx.get(f"{server.url}/episodes/{SECRET}").status_code == 404
    eventually(lambda: "GET /episodes/********" in server.log)
    assert SECRET not in server.log
    agent.close()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "which are kept encrypted, and ORSWEB_SECRETS_KEY_FILE is not set"),
        (NEW, "which no key in ORSWEB_SECRETS_KEY_FILE decrypts"),
    ],
)
def test_without_its_key_it_ends_with_the_reason(
    server: LiveServer, record: Recorded, keys: Path, content: str, why: str
) -> None:
    agent = opened(server)
    keys.write_text(content)
    if not content:
        server.env["ORSWEB_SECRETS_KEY_FILE"] = ""
    assert why in again(agent, server).post("/call", {"name": "add", "input": {"number": 2}}).text
    eventually(lambda: record.episode(agent.sid).cause == "interrupted")
    assert why in record.episode(agent.sid).detail
    eventually(lambda: not SessionSecrets.objects.using(ALIAS).exists())


def test_secrets_of_classes_that_do_not_come_back_are_not_kept(
    server: LiveServer, record: Recorded
) -> None:
    opened(server, "forgetting")
    assert not SessionSecrets.objects.using(ALIAS).exists()


def test_secrets_of_a_session_that_is_ended_at_the_start_are_removed(
    server: LiveServer, record: Recorded
) -> None:
    opened(server)
    server.kill()
    assert SessionSecrets.objects.using(ALIAS).exists()
    server.args = ("tests.envs_returning:Forgetting",)
    server.start()
    eventually(lambda: not SessionSecrets.objects.using(ALIAS).exists())


@pytest.mark.parametrize(
    ("content", "why"),
    [("no key", "line 1 is not a key"), ("", "line 1 is not a key"), (None, "cannot be read")],
)
def test_a_bad_file_stops_the_start(keys: Path, content: str | None, why: str) -> None:
    if content is not None:
        keys.write_text(content)
    refused = LiveServer(
        "tests.envs:Echo", env={"ORSWEB_SECRETS_KEY_FILE": str(keys)}, is_new=True
    ).launch()
    assert refused.process.wait(60) == 1
    assert "ORSWEB_SECRETS_KEY_FILE" in refused.log and why in refused.log
    assert "Traceback" not in refused.log and "no key" not in refused.log.replace("not a key", "")
    refused.discard()
    refused.discard()
