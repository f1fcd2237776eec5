"""Private environments at the doors for agents: to a key that does not name one, it does not exist.

Each address that names an environment, a run or a session is asked for the private environment and
for one that nobody has: a key from which it is hidden gets the same answer.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import httpx
import pytest
import pytest_asyncio
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, get_resolver
from django_eventstream.views import get_listener_manager
from pytest_django import Settings

from environments.curation.environment_settings import SetPrivacy
from environments.keys.keyring import ring
from environments.keys.stored_keys import make_key
from environments.models import Environment
from episodes.models import Episode, Run, Step
from episodes.recording.news import channel_of
from tests.environments.agents.ors.serving import fresh_id, in_database, serving
from tests.episodes.platform_api.uploading import message, rollout, stored
from tests.people import member
from tests.rows import each

pytestmark = pytest.mark.asyncio(loop_scope="module")

CANARY, NOWHERE = "quetzal", "nowhere"
HOSTED = (
    f"{CANARY}=tests.environments.keys.canary:Quetzal",
    "plain=tests.envs:Echo",
    "basic=tests.envs:Echo",
)
"""The private environment is the first and therefore the default."""
WITHOUT_NAMES = {"openapi.json", "schema.json"}
"""Documents about the protocol, which take long to make."""
NO_POST = {"delete", "delete_session", "v1/rollouts"}
"""Addresses whose POST ends a session or stores what it is sent."""
MESSAGES: tuple[dict[str, Any], ...] = (
    *(
        {"split": "train"},
        {"split": "train", "index": 0},
        {"split": "train", "start": 0},
        {"candidates": []},
    ),
    *(
        {"name": "look", "input": {}},
        {"env_name": "{}", "split": "train", "index": 0},
        {"env_name": "{}"},
    ),
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}},
)
"""Bodies of every POST; `{}` stands for the name of the environment."""


class Address(NamedTuple):
    private: str
    unknown: str
    """The same with a name and an id that nobody has; equal to `private` if the address has
    neither."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(db: None) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(*HOSTED, ORSWEB_REQUIRE_KEYS=True) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def keys(client: httpx.AsyncClient) -> dict[str, dict[str, str]]:
    """The headers of three keys. Two of them have played in the environment before it was made
    private."""
    environments = {"outsider": [], "narrow": ["plain", "gone"], "insider": [CANARY]}
    found = {name: await key(name, environments=names) for name, names in environments.items()}
    for name in ("outsider", "insider"):
        await play(client, found[name])
    await set_private(CANARY)
    return found


async def key(name: str, **values: Any) -> dict[str, str]:
    values = {"scopes": ["play", "record", "read", "curate"], **values}
    _, text = await in_database(lambda: make_key(name, **values))
    await in_database(ring.read)
    return {"X-API-Key": text}


async def set_private(name: str) -> None:
    await in_database(
        lambda: SetPrivacy(Environment.objects.get(name=name).pk, is_private=True).apply("me")
    )
    await in_database(ring.read)


async def play(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    """Play an episode of a run in the environment, and report it."""
    session = {"X-Session-ID": fresh_id(), "X-Run": f"{CANARY}-run", **headers}
    await client.post(
        "/create", json={"env_name": CANARY, "split": "train", "index": 0}, headers=session
    )
    await client.get(f"/{CANARY}/prompt", headers=session)
    await client.post("/call", json={"name": "look", "input": {}}, headers=session)
    await client.post("/delete", headers=session)
    await report(client, headers)


async def report(
    client: httpx.AsyncClient, headers: dict[str, str], name: str = CANARY
) -> httpx.Response:
    event = {
        "eventType": "rollout",
        "eventId": f"r-{name}",
        "runName": f"{name}-run",
        "environment": f"me/{name}",
    }
    return await client.post(
        "/v1/rollouts", json={"events": [{**event, "timestamp": 1}]}, headers=headers
    )


async def upload(
    client: httpx.AsyncClient, headers: dict[str, str], *events: dict[str, Any]
) -> httpx.Response:
    return await client.post("/v1/rollouts", json={"events": events}, headers=headers)


def addresses() -> Iterator[Address]:
    """Yield every address of agents, from its URL patterns. Raises: KeyError for one with an
    unknown parameter."""
    run = Run.objects.get(name=f"{CANARY}-run").pk
    for one in get_resolver("orsweb.agent_urls").url_patterns:
        assert isinstance(one, URLPattern)
        route = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(one.pattern))
        if route not in WITHOUT_NAMES:
            filled = [
                route.format(env_name=name, name=name, owner_name="me", run=pk, rest=name)
                for name, pk in ((CANARY, run), (NOWHERE, 987_654))
            ]
            yield Address(*(f"/{path}" for path in filled))


async def answers(
    client: httpx.AsyncClient, address: str, headers: dict[str, str], name: str
) -> list[tuple[int, str]]:
    """Return the status and text of the answers to GET and to every POST, without what the requests
    themselves say."""
    bodies: list[dict[str, Any] | None] = [None]
    if address.strip("/") not in NO_POST:
        bodies += [
            {field: name if value == "{}" else value for field, value in one.items()}
            for one in MESSAGES
        ]
    found = []
    for body in bodies:
        session = fresh_id()
        sent = {
            **headers,
            "X-Session-ID": session,
            "Mcp-Session-Id": session,
            "X-Deployment": f"me/{name}",
        }
        answer = await client.request("POST" if body else "GET", address, json=body, headers=sent)
        text = answer.text.replace(session, "?")
        for one in (name, *(part for part in address.split("/") if part.isdecimal())):
            text = re.sub(rf"(?<!\w){one}(?!\w)", "?", text)
        text = re.sub(r'"sid":"[^"]*"', "", text)  # of a new session
        found.append((answer.status_code, text))
    return found


@pytest.mark.parametrize("name", ["outsider", "narrow"])
async def test_it_is_at_no_address_for_a_key_that_does_not_name_it(
    client: httpx.AsyncClient, keys: dict[str, dict[str, str]], name: str
) -> None:
    wrong = []
    for private, unknown in await in_database(lambda: list(addresses())):
        shown = await answers(client, private, keys[name], CANARY)
        expected = await answers(client, unknown, keys[name], NOWHERE)
        wrong += [
            (private, *pair) for pair in zip(shown, expected, strict=True) if pair[0] != pair[1]
        ]
        wrong += [(unknown, one) for one in expected if CANARY in one[1]]
    assert not wrong


async def test_a_key_that_names_it_finds_it_at_every_address(
    client: httpx.AsyncClient, keys: dict[str, dict[str, str]]
) -> None:
    """So the sweep would notice what leaks."""
    same = []
    for private, unknown in await in_database(lambda: list(addresses())):
        if private != unknown and "<" not in private:
            shown = await answers(client, private, keys["insider"], CANARY)
            same += (
                [private]
                if shown == await answers(client, unknown, keys["insider"], NOWHERE)
                else []
            )
    assert same == [f"/v1/{CANARY}"]  # which nobody has
    assert (await client.get("/list_environments", headers=keys["insider"])).json() == [CANARY]


@pytest.mark.parametrize("name", ["outsider", "lab"])
async def test_no_key_has_it_without_naming_it(
    client: httpx.AsyncClient, keys: dict[str, dict[str, str]], name: str, settings: Settings
) -> None:
    settings.ORSWEB_API_KEYS = {"lab": "key-of-the-lab-0123"}
    await in_database(ring.read)
    headers = {**keys, "lab": {"X-API-Key": "key-of-the-lab-0123"}}[name]
    assert (await client.get("/list_environments", headers=headers)).json() == ["plain", "basic"]
    splits = await client.get("/splits", headers=headers)  # of the default
    assert (
        splits.status_code == 200
        and (await client.get("/plain/splits", headers=headers)).text == splits.text
    )


async def test_a_key_with_the_scope_admin_has_it(
    client: httpx.AsyncClient, keys: dict[str, dict[str, str]]
) -> None:
    headers = await key("admin", scopes=["admin"])
    assert (await client.get("/list_environments", headers=headers)).json() == [
        CANARY,
        "plain",
        "basic",
    ]
    runs = (await client.get("/v1/runs", headers=headers)).json()["runs"]
    assert f"{CANARY}-run" in [one["name"] for one in runs]


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/gone/tools", 404, "unknown environment 'gone'; this server hosts 'plain'"),
        (
            "/basic/tools",
            403,
            "The API key 'narrow' may not use the environment 'basic'; it may use 'gone', 'plain'",
        ),
    ],
)
async def test_a_key_made_for_some_environments_reads_no_other_names(
    client: httpx.AsyncClient, keys: dict[str, dict[str, str]], path: str, status: int, text: str
) -> None:
    answer = await client.get(path, headers=keys["narrow"])
    assert (answer.status_code, answer.json()["detail"]) == (status, text)


async def test_a_key_without_any_hosted_environment_reads_no_names(
    client: httpx.AsyncClient, keys: dict[str, dict[str, str]]
) -> None:
    headers = await key("lost", environments=["gone"])
    answers = [
        await client.get(path, headers=headers) for path in ("/tools", "/gone/tools", "/mcp")
    ]
    assert [answer.status_code for answer in answers] == [403, 404, 404]
    assert (
        answers[0].json()["detail"]
        == "This server hosts no environment that the API key 'lost' may use"
    )
    assert (
        "this server hosts nothing" in answers[1].text and "this server has none" in answers[2].text
    )


@pytest.mark.parametrize(("name", "status"), [("outsider", 404), ("insider", 200)])
async def test_a_recorded_result_of_it_is_not_told_again(
    client: httpx.AsyncClient, keys: dict[str, dict[str, str]], name: str, status: int
) -> None:
    played = await in_database(
        lambda: Step.objects.select_related("episode").get(episode__key_label=name, tool="look")
    )
    session = {**keys[name], "X-Session-ID": played.episode.session_id}
    call = {"name": "look", "input": {}, "task_id": played.task_id}
    answer = await client.post("/call", json=call, headers=session)
    assert answer.status_code == status and ("a quetzal" in answer.text) == (status == 200)


async def test_an_upload_that_names_it_is_like_one_that_names_nothing_hosted(
    client: httpx.AsyncClient, keys: dict[str, dict[str, str]]
) -> None:
    headers = await key("guesser")
    both = [await report(client, headers, name) for name in (CANARY, NOWHERE)]
    assert [answer.json() for answer in both] == [{"stored": 1, "ignored": 0, "refused": []}] * 2
    for reader in (headers, await person("viewer")):
        listed = [one["environment"] for one in await rollouts(client, reader)]
        assert [one for one in listed if one in (f"me/{CANARY}", f"me/{NOWHERE}")] == [
            f"me/{NOWHERE}",
            f"me/{CANARY}",
        ]


async def test_no_key_hides_a_run_by_naming_it(
    client: httpx.AsyncClient, keys: dict[str, dict[str, str]]
) -> None:
    victim, attacker = await key("victim"), await key("attacker")
    await upload(client, victim, rollout("v", environment="me/plain", runName="victimrun"))
    await upload(client, attacker, rollout("a", environment=f"me/{CANARY}", runName="victimrun"))
    for reader in (victim, await person("viewer")):
        assert "victimrun" in await runs(client, reader, "/api/rollouts", "run")
    assert "victimrun" in await runs(client, victim, "/v1/runs", "name")
    assert "victimrun" in await runs(client, await person("viewer"), "/api/runs", "name")


async def test_a_run_is_hidden_from_a_key_only_by_what_was_recorded_with_it(
    client: httpx.AsyncClient, keys: dict[str, dict[str, str]]
) -> None:
    own = await key("sharing")
    for headers, name in ((own, "plain"), (keys["insider"], CANARY)):
        await upload(
            client, headers, rollout(f"shared-{name}", environment=f"me/{name}", runName="shared")
        )
    assert "shared" in await runs(client, own, "/v1/runs", "name")
    assert "shared" not in await runs(client, await person("viewer"), "/api/runs", "name")


@pytest.mark.parametrize("name", [CANARY, NOWHERE, "basic"])
async def test_a_key_made_for_some_environments_uploads_no_rollouts_of_others(
    client: httpx.AsyncClient, keys: dict[str, dict[str, str]], name: str
) -> None:
    events = [rollout(f"narrow-{one}", environment=f"me/{one}") for one in ("plain", name)]
    answer = await upload(client, keys["narrow"], *events)
    detail = (
        f"The API key 'narrow' may not use the environment {name!r}; it may use 'gone', 'plain'"
    )
    assert (answer.status_code, answer.json()["detail"]) == (403, detail)
    assert await rollouts(client, keys["narrow"]) == []


@each("environment", [None, "", " / ", 17])
async def test_an_upload_without_a_name_is_seen_only_by_its_key_and_those_from_whom_nothing_is_hidden(
    client: httpx.AsyncClient, keys: dict[str, dict[str, str]], environment: Any
) -> None:
    event_id = f"nameless {environment}"
    await upload(client, keys["insider"], rollout(event_id, environment=environment))
    assert await who_sees(client, keys["insider"], event_id) == {"key", "operator"}


async def test_a_message_is_hidden_until_its_rollout_says_where_it_was_played(
    client: httpx.AsyncClient, keys: dict[str, dict[str, str]]
) -> None:
    own = await key("hasty")
    await upload(client, own, message("early", 0))
    assert await who_sees(client, own, "early") == {"key", "operator"}
    await upload(client, own, rollout("early", environment="me/plain"))
    assert await who_sees(client, own, "early") == {"key", "operator", "viewer"}


@pytest.mark.parametrize("environment", [f"me/{CANARY}/", f"me/{CANARY} ", f"{'m' * 300}/{CANARY}"])
async def test_an_upload_belongs_to_it_however_its_name_is_written(
    client: httpx.AsyncClient, keys: dict[str, dict[str, str]], environment: str
) -> None:
    await upload(client, keys["insider"], rollout(environment[-20:], environment=environment))
    assert (await stored(environment[-20:])).hosted_environment_id == await in_database(
        lambda: Environment.objects.get(name=CANARY).pk
    )
    assert await who_sees(client, keys["insider"], environment[-20:]) == {"key", "operator"}


async def person(group: str) -> dict[str, str]:
    """Return the headers of a person in the group, who is not a member of the environment."""

    def cookie() -> str:
        pages, found = Client(), User.objects.filter(username=group).first()
        pages.force_login(found or member(group, name=group))
        return str(pages.cookies["sessionid"].value)

    return {"Cookie": f"sessionid={await in_database(cookie)}"}


async def rollouts(client: httpx.AsyncClient, headers: dict[str, str]) -> list[dict[str, Any]]:
    return (await client.get("/api/rollouts", headers=headers)).json()["results"]


async def runs(
    client: httpx.AsyncClient, headers: dict[str, str], path: str, field: str
) -> list[str]:
    answer = (await client.get(path, headers=headers)).json()
    return [one[field] for one in answer.get("runs") or answer["results"]]


async def who_sees(client: httpx.AsyncClient, own: dict[str, str], event_id: str) -> set[str]:
    """Return who sees the rollout: the key that uploaded it, a person who is no member, and an
    operator."""
    pk, found = (await stored(event_id)).pk, set()
    readers = {"key": own, "viewer": await person("viewer"), "operator": await person("operator")}
    for name, headers in readers.items():
        listed = pk in [one["id"] for one in await rollouts(client, headers)]
        answers = [
            await client.get(f"/api/rollouts/{pk}{rest}", headers=headers)
            for rest in ("", "/messages")
        ]
        assert [answer.status_code for answer in answers] == [200 if listed else 404] * 2
        found |= {name} if listed else set()
    return found


@pytest_asyncio.fixture(loop_scope="module")
async def public_again(keys: dict[str, dict[str, str]]) -> AsyncIterator[None]:
    """Afterwards, `basic` is public again."""
    yield
    await in_database(lambda: Environment.objects.filter(name="basic").update(is_private=False))
    await in_database(ring.read)


async def test_a_session_goes_on_when_its_environment_is_made_private(
    client: httpx.AsyncClient, public_again: None
) -> None:
    headers = {**await key("player"), "X-Session-ID": fresh_id()}
    opening = {"env_name": "basic", "split": "train", "index": 0}
    assert (await client.post("/create", json=opening, headers=headers)).status_code == 200
    stream = await following(client, headers)
    await set_private("basic")
    for path in ("/basic/prompt", "/basic/task_tools"):
        assert (await client.get(path, headers=headers)).status_code == 200
    call = {"name": "echo", "input": {"text": "after that"}}
    assert "after that" in (await client.post("/basic/call", json=call, headers=headers)).text
    assert "after that" not in (await asyncio.wait_for(stream, 15)).text
    assert (await client.get("/basic/tools", headers=headers)).status_code == 404
    assert (await client.post("/delete", headers=headers)).status_code == 200
    again = await client.post(
        "/create", json=opening, headers={**headers, "X-Session-ID": fresh_id()}
    )
    assert again.status_code == 404 and "this server hosts 'plain'" in again.text


async def following(
    client: httpx.AsyncClient, headers: dict[str, str]
) -> asyncio.Task[httpx.Response]:
    """Return the stream of the key's newest episode, once it has begun."""
    episode = await in_database(lambda: Episode.objects.latest("pk").pk)
    stream = asyncio.create_task(client.get(f"/api/episodes/{episode}/events", headers=headers))
    until = time.monotonic() + 15
    while not get_listener_manager().listeners_by_channel.get(channel_of(episode)):
        assert time.monotonic() < until
        await asyncio.sleep(0.01)
    return stream


async def test_a_session_that_names_no_environment_plays_the_only_one_that_exists_for_its_key(
    client: httpx.AsyncClient, public_again: None
) -> None:
    await set_private("basic")
    headers = {**await key("nameless"), "X-Session-ID": fresh_id()}
    assert (
        await client.post("/create", json={"split": "train", "index": 0}, headers=headers)
    ).status_code == 200
    episode = await in_database(
        lambda: Episode.objects.select_related("environment").get(key_label="nameless")
    )
    assert episode.environment.name == "plain"


async def test_an_mcp_session_goes_on_but_opens_no_other(
    client: httpx.AsyncClient, public_again: None
) -> None:
    headers = await key("mcp player")
    opened = await say(client, headers, "initialize")
    session = {**headers, "Mcp-Session-Id": opened.headers["Mcp-Session-Id"]}
    await set_private("basic")
    assert '"echo"' in (await say(client, session, "tools/list")).text
    again = await say(client, session, "initialize")
    assert (
        again.status_code == 404
        and "unknown environment 'basic'; this server hosts 'plain'" in again.text
    )
    assert (await client.delete("/mcp/basic", headers=session)).status_code == 204


async def say(client: httpx.AsyncClient, headers: dict[str, str], method: str) -> httpx.Response:
    information = {
        "clientInfo": {"name": "test", "version": "1"},
        "protocolVersion": "2025-06-18",
        "capabilities": {},
    }
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": method,
        "params": information if method == "initialize" else {},
    }
    return await client.post("/mcp/basic", json=body, headers=headers)
