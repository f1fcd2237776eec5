"""Both SDKs' clients with keys of the database: what they may not do, sealed splits, private
environments, and a
key that is revoked."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests import programs
from tests.conformance.agent import eventually
from tests.conformance.clients import OpenRewardClient, OrsClient
from tests.environments.keys.canary import HIDDEN, SEALED
from tests.server import LiveServer

PREPARE = """
from environments.keys.stored_keys import make_key
from environments.models import Environment, Split
Split.objects.filter(name="test").update(is_sealed=True)
Environment.objects.filter(name="quetzal").update(is_private=True)
print("member", make_key("member", scopes=["play"], environments=["quetzal"])[1])
for name, scope in (("player", "play"), ("reader", "read"), ("OrsClient", "play"), ("OpenRewardClient", "play")):
    print(name, make_key(name, scopes=[scope])[1])
"""
CLIENTS = pytest.mark.parametrize("make", [OrsClient, OpenRewardClient])


def manage(server: LiveServer, *arguments: str) -> str:
    """Run a command on the server's database, beside the server; return what it prints."""
    return programs.run(*arguments, env=server.env, check=True).stdout.strip()


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    hosted = (
        "tests.environments.keys.canary:Canary",
        "quetzal=tests.environments.keys.canary:Quetzal",
    )
    with LiveServer(*hosted, env={"ORSWEB_REQUIRE_KEYS": "1"}) as running:
        yield running


@pytest.fixture(scope="module")
def keys(server: LiveServer) -> dict[str, str]:
    """Keys by name, made while the server runs and in force; afterwards the split `test` is
    sealed."""
    made = manage(server, "shell", "--no-imports", "--command", PREPARE).splitlines()
    found = dict(line.split() for line in made)
    newest = {"X-API-Key": found["OpenRewardClient"]}
    eventually(
        lambda: httpx.get(f"{server.url}/list_environments", headers=newest).status_code == 200
    )
    return found


@CLIENTS
def test_they_play_what_they_list_of_a_sealed_split(
    server: LiveServer, keys: dict[str, str], make: type[OrsClient | OpenRewardClient]
) -> None:
    with make(server, api_key=keys["player"]) as client:
        environment = client.environment("canary")
        task = environment.list_tasks("test")[1]
        assert SEALED not in repr(task) and HIDDEN not in repr(task)
        with environment.session(task) as session:
            assert session.get_prompt()[0].text == "Task test-1."
            assert session.call_tool("answer", {"text": f"{HIDDEN}-1"}).reward == 1.0


@CLIENTS
def test_a_private_environment_is_played_with_a_key_that_names_it(
    server: LiveServer, keys: dict[str, str], make: type[OrsClient | OpenRewardClient]
) -> None:
    with make(server, api_key=keys["member"]) as client:
        environment = client.environment("quetzal")
        assert len(environment.list_tasks("train")) == 3
        with environment.session(split="train", index=1) as session:
            assert session.get_prompt()[0].text == "Task quetzal-train-1."
            assert session.call_tool("look", {}).blocks[0].text == "a quetzal"


def test_other_keys_are_told_that_there_is_no_such_environment(
    server: LiveServer, keys: dict[str, str]
) -> None:
    unknown = r"unknown environment 'quetzal'; this server hosts 'canary'(\"|$)"
    with OrsClient(server, api_key=keys["player"]) as client:
        session = client.environment("quetzal").session(split="train", index=0)
        with pytest.raises(Exception, match=unknown), session:
            session.get_prompt()


@CLIENTS
def test_a_refusal_names_the_scope_that_is_missing(
    server: LiveServer, keys: dict[str, str], make: type[OrsClient | OpenRewardClient]
) -> None:
    with (
        make(server, api_key=keys["reader"]) as client,
        pytest.raises(Exception, match="needs the scope 'play'"),
    ):
        client.environment("canary").list_tasks("train")


@CLIENTS
def test_a_revoked_key_says_so_within_a_second(
    server: LiveServer, keys: dict[str, str], make: type[OrsClient | OpenRewardClient]
) -> None:
    with make(server, api_key=keys[make.__name__]) as client:
        environment = client.environment("canary")
        with (
            pytest.raises(Exception, match="was revoked"),
            environment.session(split="train", index=0) as session,
        ):
            manage(server, "revoke_key", make.__name__)
            while True:
                session.get_prompt()
